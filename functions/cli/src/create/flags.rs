//! The values of flags, parsed as the command line of Flux 2.9 parses them.

use driftless_flux::{
    DependsOn, DurationError, Invalid, KubeConfigRef, LocalRef, SecretKeyRef, parse_duration,
};
use driftless_go::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A list as one value of a flag: items separated by commas, in quotes if they contain commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(Vec<String>);

impl FromStr for List {
    type Err = Invalid;

    /// Parses the list as Go's `encoding/csv` parses one record.
    fn from_str(text: &str) -> Result<Self, Invalid> {
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
fn plain_item(text: &str) -> Result<(String, Option<&str>), Invalid> {
    let (item, after) = match text.split_once(',') {
        Some((item, after)) => (item, Some(after)),
        None => (text, None),
    };
    match item {
        _ if item.contains('"') => Err(format!(
            "'{item}' contains a quote: quote the whole item, and double the quote"
        )
        .into()),
        _ if item.contains('\n') => Err("an item with a line break must be quoted".into()),
        _ => Ok((item.to_owned(), after)),
    }
}

/// Splits off an item whose opening quote was already read; the rest is what follows its comma.
fn quoted_item(text: &str) -> Result<(String, Option<&str>), Invalid> {
    let mut item = String::new();
    let mut rest = text;
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            return Err(format!("'\"{text}' has no closing quote").into());
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
            return Err(format!("a comma must follow the quote before '{after}'").into());
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
pub fn ignore(lists: &[List]) -> Option<String> {
    let paths = items(lists);
    (!paths.is_empty()).then(|| paths.join("\n"))
}

/// Parses a Boolean value as Go's `strconv.ParseBool` does.
pub fn switch(text: &str) -> Result<bool, Invalid> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

/// A duration, which is written in the format of Go's `Duration.String`, as in Flux's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        Ok(Self(parse_duration(text)?))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        formatter.write_str(&duration::format(nanos))
    }
}

impl Time {
    /// Returns the duration as text; `None` for zero, which means that the flag was not given.
    pub fn nonzero(self) -> Option<String> {
        (!self.0.is_zero()).then(|| self.to_string())
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

    /// Returns the namespace; `None` if the flag names none.
    pub fn namespace(&self) -> Option<String> {
        Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty())
    }
}

const KUSTOMIZATION_SOURCES: [&str; 3] = ["OCIRepository", "GitRepository", "Bucket"];
const CHART_SOURCES: [&str; 3] = ["HelmRepository", "GitRepository", "Bucket"];

/// Parses the source of a Kustomization; without a kind it is a GitRepository.
pub fn kustomization_source(text: &str) -> Result<Reference, Invalid> {
    let mut source = Reference::any(text);
    if text.trim().is_empty() {
        return Err("no Kustomization source given".into());
    }
    if source.name.is_empty() {
        return Err(format!("no name given for source of kind '{}'", source.kind).into());
    }
    if source.kind.is_empty() {
        if KUSTOMIZATION_SOURCES.contains(&source.name.as_str()) {
            return Err(format!("no kind specified for source '{}'", source.name).into());
        }
        source.kind = "GitRepository".to_owned();
    }
    source.kind = parse_kind("source kind", &source.kind, &KUSTOMIZATION_SOURCES)?;
    Ok(source)
}

/// Parses the source of a chart, in any namespace.
pub fn chart_source(text: &str) -> Result<Reference, Invalid> {
    chart(text, Reference::any(text))
}

/// Parses the source of a chart in the namespace of the object that refers to it.
pub fn local_chart_source(text: &str) -> Result<Reference, Invalid> {
    chart(text, Reference::local(text))
}

fn chart(text: &str, mut source: Reference) -> Result<Reference, Invalid> {
    if source.kind.is_empty() || source.name.is_empty() {
        return Err(
            format!("invalid helm chart source '{text}', must be in format <kind>/<name>").into(),
        );
    }
    source.kind = parse_kind("source kind", &source.kind, &CHART_SOURCES)?;
    Ok(source)
}

/// Returns a kind in its correct spelling; the flag may use another case. `subject` names the
/// flag's value in the error.
pub fn parse_kind(subject: &str, kind: &str, kinds: &[&str]) -> Result<String, Invalid> {
    let found = kinds.iter().find(|known| known.eq_ignore_ascii_case(kind));
    found.map(|known| (*known).to_owned()).ok_or_else(|| {
        let kinds = kinds.join(", ");
        format!("{subject} '{kind}' is not supported, must be one of: {kinds}").into()
    })
}

/// Normalizes a path in a repository: it begins with `./` and has no `..` and no empty parts.
pub fn safe_path(text: &str) -> Result<String, Invalid> {
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
pub fn depends_on(lists: &[List]) -> Result<Vec<DependsOn>, Invalid> {
    let dependency = |text: &str| {
        if text.contains('@') {
            return Err(format!(
                "invalid dependency '{text}': an expression cannot be given by --depends-on, set readyExpr in the object"
            ).into());
        }
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Ok(DependsOn {
            kind: None,
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            ready_expr: None,
        })
    };
    items(lists).into_iter().map(dependency).collect()
}

/// A flag whose empty value means that it was not given, as in Flux.
pub trait NonEmpty {
    /// Returns the value if it is not empty.
    fn non_empty(&self) -> Option<&str>;

    /// Returns a copy of the value if it is not empty.
    fn to_non_empty(&self) -> Option<String> {
        self.non_empty().map(str::to_owned)
    }
}

impl NonEmpty for Option<String> {
    fn non_empty(&self) -> Option<&str> {
        self.as_deref().filter(|text| !text.is_empty())
    }
}

/// Returns the reference to the named object; `None` if no name was given.
pub fn local_ref(flag: &Option<String>) -> Option<LocalRef> {
    let name = flag.non_empty()?.to_owned();
    Some(LocalRef { name })
}

/// Returns `kubeConfig` for the Secret of a flag; `None` if no Secret was given.
pub fn kube_config(secret: &Option<String>) -> Option<KubeConfigRef> {
    let name = secret.non_empty()?.to_owned();
    Some(KubeConfigRef {
        secret_ref: Some(SecretKeyRef { name, key: None }),
        config_map_ref: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Vec<String>, Invalid> {
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
            assert_eq!(text.parse::<Time>().unwrap().to_string(), want, "{text}");
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
        assert!(
            depends_on(&lists)
                .unwrap_err()
                .to_string()
                .contains("team/b@dep.ok")
        );
    }
}
