//! Objects as Flux 2.9's command line makes and writes them.

use crate::error::Error;
use crate::term;
use driftless_manifest::yaml;
use serde_json::{Map, Value, json};

/// What a command makes.
pub struct Made {
    /// The object.
    pub object: Value,
    /// What it is called in messages.
    pub noun: &'static str,
    /// When it is done.
    pub end: End,
}

/// When an object that was applied is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A source: it is ready and has an artifact.
    Fetched,
    /// It is ready, and says what it applied.
    Applied,
    /// At once: nobody reconciles it.
    Stored,
}

/// A field map that leaves out what is absent.
#[derive(Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Sets a field, if there is a value: null is none.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        if !value.is_null() {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// Sets a field where it is true.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.set(name, value.then_some(Value::Bool(true)))
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Self {
        Self::Object(fields.0)
    }
}

/// `metadata`; without a namespace for objects of the whole cluster.
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

/// An object with a spec.
pub fn object(api_version: &str, kind: &str, metadata: Map<String, Value>, spec: Fields) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": Value::from(spec)})
}

/// Writes an object to stdout as a document of its own.
pub fn export(object: &Value) -> Result<(), Error> {
    term::result(&format!("---\n{}\n", yaml::to_string(object).trim()))
}
