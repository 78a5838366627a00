//! The values of flags, parsed as the command line of Flux 2.9 parses them.

use driftless_flux::parse_duration;
use serde_json::{Map, Value, json};
use std::str::FromStr;
use std::time::Duration;

/// A list as one value of a flag: items separated by commas, in quotes if they contain commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(Vec<String>);

impl FromStr for List {
    type Err = String;

    /// Parses the list as Go's `encoding/csv` parses one record.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut items = Vec::new();
        let mut rest = text;
        if rest.is_empty() {
            return Ok(Self(items));
        }
        loop {
            let (item, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted_item(quoted)?,
                None => plain_item(rest)?,
            };
            items.push(item);
            match after {
                Some(more) => rest = more,
                None => return Ok(Self(items)),
            }
        }
    }
}

/// Splits off an item without quotes; the rest is what follows its comma.
fn plain_item(text: &str) -> Result<(String, Option<&str>), String> {
    let (item, after) = match text.split_once(',') {
        Some((item, after)) => (item, Some(after)),
        None => (text, None),
    };
    match item {
        _ if item.contains('"') => Err(format!(
            "'{item}' contains a quote: quote the whole item, and double the quote"
        )),
        _ if item.contains('\n') => Err("an item with a line break must be quoted".to_owned()),
        _ => Ok((item.to_owned(), after)),
    }
}

/// Splits off an item whose opening quote was already read; the rest is what follows its comma.
fn quoted_item(text: &str) -> Result<(String, Option<&str>), String> {
    let mut item = String::new();
    let mut rest = text;
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            return Err(format!("'\"{text}' has no closing quote"));
        };
        item.push_str(part);
        if let Some(more) = after.strip_prefix('"') {
            item.push('"');
            rest = more;
        } else if after.is_empty() {
            return Ok((item, None));
        } else if let Some(more) = after.strip_prefix(',') {
            return Ok((item, Some(more)));
        } else {
            return Err(format!("a comma must follow the quote before '{after}'"));
        }
    }
}

/// Returns all items of a flag that may be repeated.
pub fn items(lists: &[List]) -> Vec<&str> {
    lists
        .iter()
        .flat_map(|list| list.0.iter().map(String::as_str))
        .collect()
}

/// Returns `spec.ignore` for these paths; `None` without paths.
pub fn ignore(lists: &[List]) -> Option<Value> {
    let paths = items(lists);
    (!paths.is_empty()).then(|| paths.join("\n").into())
}

/// Parses a Boolean value as Go's `strconv.ParseBool` does.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A duration; as a `Value` it has the format of Go's `Duration.String`, as in Flux's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self)
    }
}

impl From<Time> for Value {
    fn from(Time(time): Time) -> Self {
        let nanos = time.as_nanos();
        if nanos == 0 {
            return "0s".into();
        }
        for (unit, name) in [(1_000, "ns"), (1_000_000, "µs"), (1_000_000_000, "ms")] {
            if nanos < unit {
                return format!("{}{name}", fraction(nanos, unit / 1_000)).into();
            }
        }
        let (hours, minutes) = (time.as_secs() / 3_600, time.as_secs() / 60 % 60);
        let seconds = fraction(nanos % 60_000_000_000, 1_000_000_000);
        match (hours, minutes) {
            (0, 0) => format!("{seconds}s"),
            (0, _) => format!("{minutes}m{seconds}s"),
            _ => format!("{hours}h{minutes}m{seconds}s"),
        }
        .into()
    }
}

/// Formats `count / unit` as a decimal number, without trailing zeros.
fn fraction(count: u128, unit: u128) -> String {
    let (whole, rest) = (count / unit, count % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.to_string().len() - 1;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

impl Time {
    /// Returns `None` for zero, which means that the flag was not given.
    pub fn nonzero(self) -> Option<Value> {
        (!self.0.is_zero()).then(|| self.into())
    }
}

/// A reference to another object in the value of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The kind of the object; empty if the flag names none.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object; empty if the flag names none.
    pub namespace: String,
}

impl Reference {
    /// Parses `[<kind>/]<name>`.
    pub fn local(text: &str) -> Self {
        let (kind, name) = match text.split('/').collect::<Vec<_>>()[..] {
            [kind, name] => (kind, name),
            _ => ("", text),
        };
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: String::new(),
        }
    }

    /// Parses `[<kind>/]<name>[.<namespace>]`.
    pub fn any(text: &str) -> Self {
        let mut reference = Self::local(text);
        if let Some((name, namespace)) = reference.name.rsplit_once('.') {
            (reference.name, reference.namespace) = (name.to_owned(), namespace.to_owned());
        }
        reference
    }

    /// Returns the reference as a field of an object; an empty namespace is left out.
    pub fn value(&self) -> Value {
        let mut value = Map::new();
        value.insert("kind".to_owned(), self.kind.as_str().into());
        value.insert("name".to_owned(), self.name.as_str().into());
        if !self.namespace.is_empty() {
            value.insert("namespace".to_owned(), self.namespace.as_str().into());
        }
        value.into()
    }
}

const KUSTOMIZATION_SOURCES: [&str; 3] = ["OCIRepository", "GitRepository", "Bucket"];
const CHART_SOURCES: [&str; 3] = ["HelmRepository", "GitRepository", "Bucket"];

/// Parses the source of a Kustomization; without a kind it is a GitRepository.
pub fn kustomization_source(text: &str) -> Result<Reference, String> {
    let mut source = Reference::any(text);
    if text.trim().is_empty() {
        return Err("no Kustomization source given".to_owned());
    }
    if source.name.is_empty() {
        return Err(format!(
            "no name given for source of kind '{}'",
            source.kind
        ));
    }
    if source.kind.is_empty() {
        if KUSTOMIZATION_SOURCES.contains(&source.name.as_str()) {
            return Err(format!("no kind specified for source '{}'", source.name));
        }
        source.kind = "GitRepository".to_owned();
    }
    source.kind = parse_kind("source kind", &source.kind, &KUSTOMIZATION_SOURCES)?;
    Ok(source)
}

/// Parses the source of a chart, in any namespace.
pub fn chart_source(text: &str) -> Result<Reference, String> {
    chart(text, Reference::any(text))
}

/// Parses the source of a chart in the namespace of the object that refers to it.
pub fn local_chart_source(text: &str) -> Result<Reference, String> {
    chart(text, Reference::local(text))
}

fn chart(text: &str, mut source: Reference) -> Result<Reference, String> {
    if source.kind.is_empty() || source.name.is_empty() {
        return Err(format!(
            "invalid helm chart source '{text}', must be in format <kind>/<name>"
        ));
    }
    source.kind = parse_kind("source kind", &source.kind, &CHART_SOURCES)?;
    Ok(source)
}

/// Returns a kind in its correct spelling; the flag may use another case. `subject` names the
/// flag's value in the error.
pub fn parse_kind(subject: &str, kind: &str, kinds: &[&str]) -> Result<String, String> {
    let found = kinds.iter().find(|known| known.eq_ignore_ascii_case(kind));
    found.map(|known| (*known).to_owned()).ok_or_else(|| {
        format!(
            "{subject} '{kind}' is not supported, must be one of: {}",
            kinds.join(", ")
        )
    })
}

/// Normalizes a path in a repository: it begins with `./` and has no `..` and no empty parts.
pub fn safe_path(text: &str) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in text.trim().split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    Ok(format!("./{}", parts.join("/")))
}

/// Returns `dependsOn` for items `[<namespace>/]<name>[@<expression>]`. Flux 2.9 drops the
/// expression; here it is an error.
pub fn depends_on(lists: &[List]) -> Result<Option<Value>, String> {
    let dependency = |text: &str| {
        if text.contains('@') {
            return Err(format!(
                "invalid dependency '{text}': an expression cannot be given by --depends-on, set readyExpr in the object"
            ));
        }
        Ok(match text.split_once('/') {
            None => json!({"name": text}),
            Some(("", name)) => json!({"name": name}),
            Some((namespace, name)) => json!({"name": name, "namespace": namespace}),
        })
    };
    let found: Result<Vec<Value>, String> = items(lists).into_iter().map(dependency).collect();
    found.map(|found| (!found.is_empty()).then(|| found.into()))
}

/// A flag whose empty value means that it was not given, as in Flux.
pub trait NonEmpty {
    /// Returns the value if it is not empty.
    fn non_empty(&self) -> Option<&str>;
}

impl NonEmpty for Option<String> {
    fn non_empty(&self) -> Option<&str> {
        self.as_deref().filter(|text| !text.is_empty())
    }
}

/// Returns `{"name": NAME}` if a name was given.
pub fn name_of(flag: &Option<String>) -> Option<Value> {
    flag.non_empty().map(|name| json!({ "name": name }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Vec<String>, String> {
        text.parse::<List>().map(|list| list.0)
    }

    #[test]
    fn lists_are_records_of_csv() {
        assert_eq!(list("").unwrap(), Vec::<String>::new());
        assert_eq!(list("a,b,").unwrap(), ["a", "b", ""]);
        assert_eq!(list(r#""a,b",c"#).unwrap(), ["a,b", "c"]);
        assert_eq!(list(r#""say ""yes""""#).unwrap(), [r#"say "yes""#]);
        for bad in [r#"a"b"#, r#""a"#, r#""a"b"#, "a\nb"] {
            list(bad).unwrap_err();
        }
    }

    #[test]
    fn times_are_written_as_go_writes_them() {
        for (text, want) in [
            ("0", "0s"),
            ("1m", "1m0s"),
            ("90m", "1h30m0s"),
            ("24h", "24h0m0s"),
            ("1.5s", "1.5s"),
            ("1500us", "1.5ms"),
            ("61500ms", "1m1.5s"),
            ("7ns", "7ns"),
        ] {
            assert_eq!(Value::from(text.parse::<Time>().unwrap()), want, "{text}");
        }
        "-1m".parse::<Time>().unwrap_err();
    }

    #[test]
    fn paths_stay_in_the_repository() {
        for (text, want) in [
            ("", "./"),
            ("./", "./"),
            ("apps", "./apps"),
            ("/apps//web/", "./apps/web"),
            ("../../apps/../web", "./web"),
        ] {
            assert_eq!(safe_path(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn expressions_of_dependencies_are_refused() {
        let lists = ["a,team/b@dep.ok".parse::<List>().unwrap()];
        assert!(depends_on(&lists).unwrap_err().contains("team/b@dep.ok"));
    }
}
