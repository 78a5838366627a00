//! A Secret that a command creates.

use super::Common;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// A new Secret.
pub struct Secret {
    /// The name of the Secret.
    pub name: String,
    metadata: Map<String, Value>,
    secret_type: Option<&'static str>,
    data: Map<String, Value>,
}

impl Secret {
    /// Returns an empty Secret without a type.
    pub(super) fn new(name: &str, common: &Common, labels: Map<String, Value>) -> Self {
        Self {
            name: name.to_owned(),
            metadata: super::object::metadata(name, &common.scope.namespace, labels),
            secret_type: None,
            data: Map::new(),
        }
    }

    /// Returns an empty Secret without a type and labels.
    pub fn empty(name: &str, namespace: &str) -> Self {
        Self {
            name: name.to_owned(),
            metadata: super::object::metadata(name, namespace, Map::new()),
            secret_type: None,
            data: Map::new(),
        }
    }

    /// Sets the type.
    pub fn with_type(self, secret_type: &'static str) -> Self {
        Self {
            secret_type: Some(secret_type),
            ..self
        }
    }

    /// Sets the value of a key.
    pub fn set(&mut self, key: &str, value: impl Into<String>) -> &mut Self {
        self.data.insert(key.to_owned(), value.into().into());
        self
    }

    /// Sets an annotation, and removes all others.
    pub fn annotate(&mut self, key: &str, value: &str) {
        let annotations = json!({ key: value });
        self.metadata.insert("annotations".to_owned(), annotations);
    }

    /// Returns whether the Secret has no keys.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.data.get(key).and_then(Value::as_str)
    }

    fn object(&self, field: &str, data: Map<String, Value>) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": self.metadata});
        if !data.is_empty() {
            object[field] = data.into();
        }
        if let Some(secret_type) = self.secret_type {
            object["type"] = secret_type.into();
        }
        object
    }

    /// Returns the manifest as Flux writes it, with `stringData`.
    pub(super) fn exported(&self) -> Value {
        self.object("stringData", self.data.clone())
    }

    /// Returns the object to apply, with `data`: unlike with `stringData`, keys that a later
    /// command leaves out are removed.
    pub fn stored(&self) -> Value {
        let encoded = |value: &Value| STANDARD.encode(value.as_str().unwrap_or_default());
        let data = self.data.iter();
        let data = data.map(|(key, value)| (key.clone(), encoded(value).into()));
        self.object("data", data.collect())
    }
}
