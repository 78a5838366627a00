//! Objects in the form in which the command line of Flux 2.9 writes them.

use crate::error::Error;
use driftless_flux::FluxKind;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// An object that a command creates.
pub struct NewObject {
    /// The object itself.
    pub object: Value,
    /// The name of its kind in messages.
    pub noun: &'static str,
    /// The state that the command waits for.
    pub end: AwaitedState,
}

/// The state of an applied object that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedState {
    /// A source that is ready and has an artifact.
    Fetched,
    /// An object that is ready and has applied a revision.
    Applied,
    /// A Receiver that is ready and has the path of its webhook.
    Opened,
    /// An object that is stored: nothing reconciles it.
    Stored,
}

/// Returns `metadata`; an empty namespace, as of cluster-scoped objects, is left out.
pub fn metadata(name: &str, namespace: &str, labels: Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    if !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), labels.into());
    }
    metadata
}

/// The fields that Flux's command line writes also if they are false or empty.
const ALWAYS: [&str; 5] = ["prune", "name", "kind", "issuer", "subject"];
/// The field whose fields are all left out if they are empty.
const REFERENCE: &str = "ref";
/// The field with the content of the user's files, which is written unchanged.
const UNCHANGED: &str = "values";

/// Returns an object of the newest version of a kind. Absent fields of the spec are left out, as
/// Flux's command line leaves them out.
///
/// # Errors
/// The spec is not a map of JSON.
pub fn object(
    kind: FluxKind,
    metadata: Map<String, Value>,
    spec: &impl Serialize,
) -> Result<Value, Error> {
    let version = kind.versions().first().copied().unwrap_or_default();
    let spec = serde_json::to_value(spec).map_err(Error::caused_by)?;
    Ok(json!({
        "apiVersion": format!("{}/{version}", kind.group()),
        "kind": kind.as_str(),
        "metadata": metadata,
        "spec": without_absent("spec", spec),
    }))
}

/// Removes the fields of a field that are null, false or empty, at any depth.
fn without_absent(parent: &str, value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let written = fields.into_iter().filter_map(|(name, value)| {
                if name == UNCHANGED {
                    return (!value.is_null()).then_some((name, value));
                }
                let value = without_absent(&name, value);
                let is_always = !value.is_null() && parent != REFERENCE && ALWAYS.contains(&&*name);
                (is_always || !is_absent(&value)).then_some((name, value))
            });
            Value::Object(written.collect())
        }
        Value::Array(entries) => {
            let entries = entries.into_iter();
            entries.map(|entry| without_absent(parent, entry)).collect()
        }
        other => other,
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_left_out() {
        let spec = json!({
            "a": null, "b": false, "c": "", "d": [], "e": {"f": null}, "prune": false,
            "g": [{"name": "", "namespace": null}], "h": 0, "ref": {"name": "", "tag": "v1"},
            "values": {"a": null, "b": false, "c": {}},
        });
        let new = object(FluxKind::HelmRelease, Map::new(), &spec).unwrap();
        let want = json!({
            "prune": false, "g": [{"name": ""}], "h": 0, "ref": {"tag": "v1"},
            "values": {"a": null, "b": false, "c": {}},
        });
        assert_eq!(new["spec"], want);
        assert_eq!(new["apiVersion"], "helm.toolkit.fluxcd.io/v2");
    }
}
