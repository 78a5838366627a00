//! Label and field selectors.

use serde_json::Value;

use crate::error::ApiError;
use crate::registry::Resource;

/// What a list or a watch is narrowed to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, String, bool)>,
}

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
    More(i64),
    Less(i64),
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// A selector that cannot be read, or a field that the resource cannot be selected by.
    pub fn parse(labels: &str, fields: &str, resource: &Resource) -> Result<Self, ApiError> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(fields, resource)?,
        })
    }

    /// Selects everything?
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Does an object belong?
    pub fn matches(&self, object: &Value) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.matches(object))
            && self
                .fields
                .iter()
                .all(|(path, value, equal)| (field_value(object, path) == *value) == *equal)
    }
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

impl Requirement {
    fn matches(&self, object: &Value) -> bool {
        let value = object["metadata"]["labels"]
            .get(&self.key)
            .and_then(Value::as_str);
        match (&self.test, value) {
            (Test::In(values), Some(value)) => values.iter().any(|known| known == value),
            (Test::NotIn(values), Some(value)) => values.iter().all(|known| known != value),
            (Test::NotIn(_) | Test::Absent, None) | (Test::Exists, Some(_)) => true,
            (Test::More(than), Some(value)) => value.parse().is_ok_and(|v: i64| v > *than),
            (Test::Less(than), Some(value)) => value.parse().is_ok_and(|v: i64| v < *than),
            _ => false,
        }
    }
}

fn bad(text: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement: {text}"))
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, ApiError> {
    let mut out = Vec::new();
    for part in split(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        out.push(parse_requirement(part)?);
    }
    Ok(out)
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out
}

fn parse_requirement(part: &str) -> Result<Requirement, ApiError> {
    if part.contains('(') && !part.contains(')') {
        return Err(bad("found '', expected: ',' or ')'"));
    }
    let one = |key: &str, test: Test| requirement(key.trim(), test);
    if let Some(key) = part.strip_prefix('!') {
        return one(key, Test::Absent);
    }
    for (operator, negative) in [
        (" notin ", true),
        (" in ", false),
        (" notin(", true),
        (" in(", false),
    ] {
        if let Some((key, values)) = part.split_once(operator) {
            let values = values.trim().trim_start_matches('(').trim_end_matches(')');
            let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
            let test = if negative {
                Test::NotIn(values)
            } else {
                Test::In(values)
            };
            return one(key, test);
        }
    }
    if let Some((key, value)) = part.split_once("!=") {
        return one(key, Test::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return one(key, Test::In(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once('>') {
        let number = value.trim().parse().map_err(|_| bad(part))?;
        return one(key, Test::More(number));
    }
    if let Some((key, value)) = part.split_once('<') {
        let number = value.trim().parse().map_err(|_| bad(part))?;
        return one(key, Test::Less(number));
    }
    one(part, Test::Exists)
}

fn requirement(key: &str, test: Test) -> Result<Requirement, ApiError> {
    if let Some(problem) = crate::names::label_key(key) {
        return Err(bad(&format!("<nil>: Invalid value: {key:?}: {problem}")));
    }
    if let Test::In(values) | Test::NotIn(values) = &test {
        for value in values {
            if let Some(problem) = crate::names::label_value(value) {
                return Err(bad(&format!(
                    "values[0][{key}]: Invalid value: {value:?}: {problem}"
                )));
            }
        }
    }
    Ok(Requirement {
        key: key.to_owned(),
        test,
    })
}

fn parse_fields(text: &str, resource: &Resource) -> Result<Vec<(String, String, bool)>, ApiError> {
    let mut out = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (path, value, true)
        } else {
            return Err(ApiError::bad_request(format!(
                "Unable to find {:?} that match label selector \"\", field selector {text:?}: invalid field selector: {part:?}; can't understand {part:?}",
                resource.kind
            )));
        };
        if !supported(resource, path) {
            let message = if resource.custom.is_some() {
                format!("field label not supported: {path}")
            } else {
                builtin_refusal(resource, path)
            };
            return Err(ApiError::bad_request(message));
        }
        out.push((path.to_owned(), value.to_owned(), equal));
    }
    Ok(out)
}

fn builtin_refusal(resource: &Resource, path: &str) -> String {
    let known = extra(resource);
    if known.is_empty() {
        format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {path}")
    }
}

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
