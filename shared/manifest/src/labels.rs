//! Label selectors: as strings, with the grammar of `labels.Parse` of k8s.io/apimachinery 0.36
//! (pkg/labels/selector.go), and as objects with `matchLabels` and `matchExpressions`.

use driftless_go::Error;
use serde_json::Value;

use crate::names;

/// The requirements of one selector, all of which must hold.
///
/// ```
/// use driftless_manifest::labels::LabelSelector;
///
/// let selector = LabelSelector::parse("app=web,tier in (a, b),!old")?;
/// let labels = |key: &str| match key {
///     "app" => Some("web"),
///     "tier" => Some("a"),
///     _ => None,
/// };
/// assert!(selector.matches(labels));
/// # Ok::<(), driftless_go::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// Parses a string such as `app=x,tier in (a,b),!old`.
    ///
    /// # Errors
    /// The API server's message for a string that is not a selector.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Parser {
            tokens: scan(text),
            at: 0,
        }
        .selector()
    }

    /// Reads a `LabelSelector` object; the empty one selects everything.
    ///
    /// # Errors
    /// An operator is unknown, or a key or value is not valid for labels.
    pub fn of_object(selector: &Value) -> Result<Self, Error> {
        let mut out = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            out.push(requirement(key, Operator::Equals, vec![value])?);
        }
        let expressions = selector["matchExpressions"].as_array();
        for expression in expressions.into_iter().flatten() {
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::Absent,
                other => {
                    return Err(format!("{other:?} is not a valid label selector operator").into());
                }
            };
            let key = expression["key"].as_str().unwrap_or_default();
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values
                .map(|value| value.as_str().unwrap_or_default().to_owned())
                .collect();
            out.push(requirement(key, operator, values)?);
        }
        Ok(Self(out))
    }

    /// Returns whether every object is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a set of labels is selected; `value` returns a label's value by its key.
    pub fn matches<'l>(&self, value: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.test.holds(value(&requirement.key)))
    }

    /// Returns whether the labels of an object, as JSON, are selected.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Test::In(values), Some(value)) => values.iter().any(|known| known == value),
            (Test::NotIn(values), Some(value)) => values.iter().all(|known| known != value),
            (Test::NotIn(_) | Test::Absent, None) | (Test::Exists, Some(_)) => true,
            (Test::Above(limit), Some(value)) => value.parse().is_ok_and(|v: i64| v > *limit),
            (Test::Below(limit), Some(value)) => value.parse().is_ok_and(|v: i64| v < *limit),
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    NotEquals,
    In,
    NotIn,
    Exists,
    Absent,
    Above,
    Below,
}

/// Checks a requirement, like `labels.NewRequirement`: one message has all problems.
fn requirement(key: &str, operator: Operator, values: Vec<String>) -> Result<Requirement, Error> {
    let mut problems = Vec::new();
    let key_problems = names::label_key(key);
    if !key_problems.is_empty() {
        let reasons = key_problems.join("; ");
        problems.push(format!("key: Invalid value: {key:?}: {reasons}"));
    }
    if matches!(operator, Operator::In | Operator::NotIn) && values.is_empty() {
        let reason = "for 'in', 'notin' operators, values set can't be empty";
        problems.push(format!("values: Invalid value: []: {reason}"));
    }
    if matches!(operator, Operator::Exists | Operator::Absent) && !values.is_empty() {
        let reason = "values set must be empty for exists and does not exist";
        problems.push(format!(
            "values: Invalid value: {}: {reason}",
            Value::from(values.clone())
        ));
    }
    let mut limit = 0;
    if matches!(operator, Operator::Above | Operator::Below) {
        for (index, value) in values.iter().enumerate() {
            match value.parse() {
                Ok(number) => limit = number,
                Err(_) => problems.push(format!(
                    "values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                )),
            }
        }
    }
    for (index, value) in values.iter().enumerate() {
        let reasons = names::label_value(value);
        if !reasons.is_empty() {
            let reasons = reasons.join("; ");
            problems.push(format!(
                "values[{index}][{key}]: Invalid value: {value:?}: {reasons}"
            ));
        }
    }
    match problems.as_slice() {
        [] => {}
        [one] => return Err(one.clone().into()),
        many => return Err(format!("[{}]", many.join(", ")).into()),
    }
    let test = match operator {
        Operator::Equals | Operator::In => Test::In(values),
        Operator::NotEquals | Operator::NotIn => Test::NotIn(values),
        Operator::Exists => Test::Exists,
        Operator::Absent => Test::Absent,
        Operator::Above => Test::Above(limit),
        Operator::Below => Test::Below(limit),
    };
    Ok(Requirement {
        key: key.to_owned(),
        test,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Error,
    End,
    Close,
    Comma,
    Not,
    Identifier,
    Open,
    Binary(Operator),
}

/// A token with its characters.
type Token = (Kind, String);

fn kind_of(text: &str) -> Option<Kind> {
    Some(match text {
        ")" => Kind::Close,
        "," => Kind::Comma,
        "!" => Kind::Not,
        "(" => Kind::Open,
        "=" | "==" => Kind::Binary(Operator::Equals),
        "!=" => Kind::Binary(Operator::NotEquals),
        ">" => Kind::Binary(Operator::Above),
        "<" => Kind::Binary(Operator::Below),
        "in" => Kind::Binary(Operator::In),
        "notin" => Kind::Binary(Operator::NotIn),
        _ => return None,
    })
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// Splits a string into tokens; the last one is the end.
fn scan(text: &str) -> Vec<Token> {
    // The real lexer treats a zero byte as the end.
    let text = text.split('\0').next().unwrap_or_default();
    let mut out = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = if is_special(first) {
            scan_special(rest)
        } else {
            let length = rest
                .find(|c| is_special(c) || is_space(c))
                .unwrap_or(rest.len());
            (kind_of(&rest[..length]).unwrap_or(Kind::Identifier), length)
        };
        let word = match kind {
            Kind::Error => format!("error expected: keyword found '{}'", &rest[..length]),
            _ => rest[..length].to_owned(),
        };
        out.push((kind, word));
        rest = rest[length..].trim_start_matches(is_space);
    }
    out.push((Kind::End, String::new()));
    out
}

/// Finds the longest operator at the start of a string. All special characters are one byte long.
fn scan_special(text: &str) -> (Kind, usize) {
    let run = text.find(|c| !is_special(c)).unwrap_or(text.len());
    let mut found = (Kind::Error, run);
    for length in 1..=run {
        match kind_of(&text[..length]) {
            Some(kind) => found = (kind, length),
            None if found.0 != Kind::Error => break,
            None => {}
        }
    }
    found
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    /// Returns the next token; `in` and `notin` are identifiers where a value may occur.
    fn peek(&self) -> Token {
        let end = (Kind::End, String::new());
        let (kind, text) = self.tokens.get(self.at).cloned().unwrap_or(end);
        match kind {
            Kind::Binary(Operator::In | Operator::NotIn) => (Kind::Identifier, text),
            other => (other, text),
        }
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(mut self) -> Result<LabelSelector, Error> {
        let mut out = Vec::new();
        loop {
            let (kind, text) = self.peek();
            match kind {
                Kind::End => break,
                Kind::Identifier | Kind::Not => {}
                _ => {
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    )
                    .into());
                }
            }
            let requirement = self
                .requirement()
                .map_err(|error| format!("unable to parse requirement: {error}"))?;
            out.push(requirement);
            let (kind, text) = self.next();
            match kind {
                Kind::End => break,
                Kind::Comma => {
                    let (kind, text) = self.peek();
                    if !matches!(kind, Kind::Identifier | Kind::Not) {
                        return Err(
                            format!("found '{text}', expected: identifier after ','").into()
                        );
                    }
                }
                _ => {
                    return Err(format!("found '{text}', expected: ',' or 'end of string'").into());
                }
            }
        }
        out.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
        Ok(LabelSelector(out))
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let (mut kind, mut key) = self.next();
        let negated = kind == Kind::Not;
        if negated {
            (kind, key) = self.next();
        }
        if kind != Kind::Identifier {
            return Err(format!("found '{key}', expected: identifier").into());
        }
        let reasons = names::label_key(&key);
        if !reasons.is_empty() {
            let reasons = reasons.join("; ");
            return Err(format!("<nil>: Invalid value: {key:?}: {reasons}").into());
        }
        if negated {
            return requirement(&key, Operator::Absent, Vec::new());
        }
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return requirement(&key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        requirement(&key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some((Kind::Binary(operator), _)) => Ok(operator),
            other => {
                let text = other.map(|(_, text)| text).unwrap_or_default();
                Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt").into())
            }
        }
    }

    /// Reads `(a,b)`; `(a,)` contains the empty value.
    fn values(&mut self) -> Result<Vec<String>, Error> {
        let (kind, text) = self.next();
        if kind != Kind::Open {
            return Err(format!("found '{text}' expected: '('").into());
        }
        let (first, text) = self.peek();
        match first {
            Kind::Identifier | Kind::Comma => {
                let values = self.identifiers()?;
                if self.next().0 != Kind::Close {
                    return Err(format!("found '{text}', expected: ')'").into());
                }
                Ok(values)
            }
            Kind::Close => {
                self.next();
                Ok(vec![String::new()])
            }
            _ => Err(format!("found '{text}', expected: ',', ')' or identifier").into()),
        }
    }

    fn identifiers(&mut self) -> Result<Vec<String>, Error> {
        let mut found = std::collections::BTreeSet::new();
        loop {
            let (kind, text) = self.next();
            let (after, text_after) = self.peek();
            match kind {
                Kind::Identifier => {
                    found.insert(text);
                    match after {
                        Kind::Comma => {}
                        Kind::Close => break,
                        _ => {
                            return Err(
                                format!("found '{text_after}', expected: ',' or ')'").into()
                            );
                        }
                    }
                }
                Kind::Comma => {
                    if found.is_empty() || matches!(after, Kind::Close | Kind::Comma) {
                        found.insert(String::new());
                    }
                    if after == Kind::Close {
                        break;
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',', or identifier").into()),
            }
        }
        Ok(found.into_iter().collect())
    }

    fn value(&mut self) -> Result<String, Error> {
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        let (kind, text) = self.next();
        match kind {
            Kind::Identifier => Ok(text),
            _ => Err(format!("found '{text}', expected: identifier").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_matches_labels_as_in_kubernetes() {
        let labels = |key: &str| match key {
            "app" => Some("web"),
            "size" => Some("3"),
            _ => None,
        };
        for (selector, want) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!none", true),
            ("app=web,size==3", true),
            ("app != web", false),
            ("none!=x", true),
            ("app in (api, web)", true),
            ("app notin (api,web)", false),
            ("size > 2, size<4", true),
            ("in in (in)", false),
            ("app in (,web)", true),
            ("app=", false),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(labels), want, "{selector}");
        }
        for bad in [
            "a b",
            "app in web",
            "app,",
            "-x=1",
            "app in (a b)",
            "a/b/c",
            "app=a b",
            "size>x",
        ] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
    }
}
