//! Objects in the form in which the command line of Flux 2.9 writes them.

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

/// A field map that leaves out what is absent.
#[derive(Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Sets a field, unless the value is null.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        if !value.is_null() {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// Sets a field to true, or leaves it out.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.set(name, value.then_some(Value::Bool(true)))
    }

    /// Returns whether no field is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Self {
        Self::Object(fields.0)
    }
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

/// Returns an object with these metadata and spec.
pub fn object(api_version: &str, kind: &str, metadata: Map<String, Value>, spec: Fields) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": Value::from(spec)})
}
