//! Field selectors: the parser, which follows `fields.ParseSelector` of apimachinery 0.36, and the
//! fields that a kind can be selected by.

use driftless_go::Error as GoError;
use serde_json::Value;

use crate::resources::Resource;

/// The terms of one selector, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Vec<Term>);

#[derive(Clone, Debug, PartialEq)]
struct Term {
    path: String,
    value: String,
    equal: bool,
}

impl Fields {
    /// Parses a selector such as `metadata.name=a,status.phase!=Running`. Commas, equals signs and
    /// backslashes in values are escaped with a backslash.
    ///
    /// # Errors
    /// The API server's message for a string that is not a selector.
    pub fn parse(text: &str) -> Result<Self, GoError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut out = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let (path, equal, value) = split_term(term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let value = unescape(value)?;
            // An empty term selects everything.
            if !path.is_empty() || !value.is_empty() {
                out.push(Term {
                    path: path.to_owned(),
                    value,
                    equal,
                });
            }
        }
        Ok(Self(out))
    }

    /// Returns the selector of one object by its name.
    pub fn of_name(name: &str) -> Self {
        Self(vec![Term {
            path: "metadata.name".to_owned(),
            value: name.to_owned(),
            equal: true,
        }])
    }

    /// Refuses fields that objects of a resource cannot be selected by.
    ///
    /// # Errors
    /// The API server's message about the first such field.
    pub fn check(&self, resource: &Resource) -> Result<(), GoError> {
        match self.0.iter().find(|term| !supported(resource, &term.path)) {
            None => Ok(()),
            Some(Term { path, .. }) if resource.custom.is_none() && extra(resource).is_empty() => {
                Err(format!(
                    "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                ).into())
            }
            Some(Term { path, .. }) => Err(format!("field label not supported: {path}").into()),
        }
    }

    /// Returns whether the selector selects every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name that objects must have; `None` if the selector does not require one.
    pub fn name(&self) -> Option<&str> {
        let of_name = |term: &&Term| term.equal && term.path == "metadata.name";
        self.0.iter().find(of_name).map(|term| term.value.as_str())
    }

    /// Returns whether the selector selects an object.
    pub fn matches(&self, object: &Value) -> bool {
        let fits = |term: &Term| (field_value(object, &term.path) == term.value) == term.equal;
        self.0.iter().all(fits)
    }
}

/// Returns the terms between commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

/// Splits a term into the path, whether the operator is `=` or `==` and not `!=`, and the escaped
/// value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (path, rest) = term.split_at(at);
        let operators = [("!=", false), ("==", true), ("=", true)];
        operators
            .into_iter()
            .find_map(|(text, equal)| Some((path, equal, rest.strip_prefix(text)?)))
    })
}

fn unescape(value: &str) -> Result<String, GoError> {
    let refused = |sequence: &str| {
        Err(format!("invalid field selector: invalid escape sequence: {sequence}").into())
    };
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(other) => return refused(&format!("\\{other}")),
                None => return refused("\\"),
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )
                .into());
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn field_value(object: &Value, path: &str) -> String {
    let pointer = format!("/{}", path.replace('.', "/"));
    match object.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Returns the fields of a kind besides its name and namespace.
fn extra(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        _ => &[],
    }
}

fn supported(resource: &Resource, path: &str) -> bool {
    path == "metadata.name"
        || (path == "metadata.namespace" && (resource.namespaced || resource.custom.is_none()))
        || extra(resource).contains(&path)
        || resource
            .custom
            .as_ref()
            .is_some_and(|custom| custom.selectable.iter().any(|known| known == path))
}
