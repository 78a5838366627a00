//! Kubernetes objects as JSON maps, with their ids.

use crate::pointer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// A Kubernetes object: a JSON map with `apiVersion`, `kind` and `metadata.name`. Keys are sorted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Object(Map<String, Value>);

/// The error of a document that is not a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidObject {
    /// The document is not a map.
    #[error("the document is not a map")]
    NotAMap,
    /// A required field is missing.
    #[error("the object has no {0}")]
    Missing(&'static str),
}

/// The group, version and kind of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gvk {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `ConfigMap`.
    pub kind: String,
}

impl Gvk {
    /// Returns the group, version and kind of an `apiVersion` and a kind.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// Returns the `apiVersion`: `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The identity of an object: group, kind, namespace and name, without the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind of the object.
    pub kind: String,
}

impl ObjectId {
    /// Formats the id for Flux's inventory: `namespace_name_group_kind`, with the colons of RBAC
    /// names written as `__` (cli-utils `object.ObjMetadata.String`).
    pub fn inventory_id(&self) -> String {
        let name = if self.is_rbac() {
            self.name.replace(':', "__")
        } else {
            self.name.clone()
        };
        format!("{}_{name}_{}_{}", self.namespace, self.group, self.kind)
    }

    /// Returns whether names of the kind may have colons.
    fn is_rbac(&self) -> bool {
        self.group == "rbac.authorization.k8s.io"
            && matches!(
                self.kind.as_str(),
                "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding"
            )
    }

    /// Parses an id of Flux's inventory.
    pub fn from_inventory_id(text: &str) -> Option<Self> {
        let (namespace, rest) = text.split_once('_')?;
        let (rest, kind) = rest.rsplit_once('_')?;
        let (name, group) = rest.rsplit_once('_')?;
        if name.is_empty() || kind.is_empty() {
            return None;
        }
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.replace("__", ":"),
            group: group.to_owned(),
            kind: kind.to_owned(),
        })
    }
}

/// Formats the id as `Kind/namespace/name`, like Flux's messages.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
        }
    }
}

impl Object {
    /// Converts a document to an object.
    ///
    /// # Errors
    /// The document is not a map, or has no `apiVersion`, `kind` or `metadata.name`.
    pub fn new(document: Value) -> Result<Self, InvalidObject> {
        let Value::Object(map) = document else {
            return Err(InvalidObject::NotAMap);
        };
        let object = Self(map);
        for (field, text) in [
            ("apiVersion", object.api_version()),
            ("kind", object.kind()),
            ("metadata.name", object.name()),
        ] {
            if text.is_empty() {
                return Err(InvalidObject::Missing(field));
            }
        }
        Ok(object)
    }

    /// Returns the `apiVersion`.
    pub fn api_version(&self) -> &str {
        self.0
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the field `kind`; empty if it is missing or not a string.
    pub fn kind(&self) -> &str {
        self.0
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the `metadata.name`.
    pub fn name(&self) -> &str {
        self.meta("name")
    }

    /// Returns the `metadata.namespace`; empty if absent.
    pub fn namespace(&self) -> &str {
        self.meta("namespace")
    }

    /// Returns the group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(self.api_version(), self.kind())
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version()
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Returns the identity of the object.
    pub fn id(&self) -> ObjectId {
        ObjectId {
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            group: self.group().to_owned(),
            kind: self.kind().to_owned(),
        }
    }

    /// Returns a string field of `metadata`; empty if absent.
    pub fn meta(&self, field: &str) -> &str {
        self.0
            .get("metadata")
            .and_then(|meta| meta.get(field))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta_map("labels")?.get(key)?.as_str()
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta_map("annotations")?.get(key)?.as_str()
    }

    /// Returns `metadata.labels` or `metadata.annotations`.
    pub fn meta_map(&self, field: &str) -> Option<&Map<String, Value>> {
        self.0.get("metadata")?.get(field)?.as_object()
    }

    /// Sets the value of a label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set_meta("labels", key, value);
    }

    /// Sets the value of an annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.set_meta("annotations", key, value);
    }

    /// Sets the field `metadata.namespace`.
    pub fn set_namespace(&mut self, namespace: &str) {
        entry_map(&mut self.0, "metadata").insert("namespace".to_owned(), namespace.into());
    }

    /// Returns the value at a JSON pointer.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let (first, rest) = pointer
            .strip_prefix('/')?
            .split_at(pointer[1..].find('/').unwrap_or(pointer.len() - 1));
        let value = self.0.get(&*pointer::unescape(first))?;
        if rest.is_empty() {
            Some(value)
        } else {
            value.pointer(rest)
        }
    }

    /// Returns the fields of the object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the fields of the object, for changes.
    pub fn as_map_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    /// Converts the object to a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Returns a copy of the object as a JSON value.
    pub fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    fn set_meta(&mut self, field: &str, key: &str, value: &str) {
        let metadata = entry_map(&mut self.0, "metadata");
        entry_map(metadata, field).insert(key.to_owned(), value.into());
    }
}

/// Returns the map at `key`; replaces an absent value, or one of another type, by an empty map.
fn entry_map<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    let slot = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made a map just above"),
    }
}

impl TryFrom<Value> for Object {
    type Error = InvalidObject;
    fn try_from(value: Value) -> Result<Self, InvalidObject> {
        Self::new(value)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Value {
        object.into_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn inventory_ids_of_cli_utils() {
        for (text, namespace, name, group, kind) in [
            (
                "apps_dev_apps_Deployment",
                "apps",
                "dev",
                "apps",
                "Deployment",
            ),
            ("_apps__Namespace", "", "apps", "", "Namespace"),
            (
                "_system__node_rbac.authorization.k8s.io_ClusterRole",
                "",
                "system:node",
                "rbac.authorization.k8s.io",
                "ClusterRole",
            ),
        ] {
            let id = ObjectId::from_inventory_id(text).unwrap();
            assert_eq!(
                (&*id.namespace, &*id.name, &*id.group, &*id.kind),
                (namespace, name, group, kind)
            );
            assert_eq!(id.inventory_id(), text);
        }
        assert!(ObjectId::from_inventory_id("nothing").is_none());
    }

    #[test]
    fn pointers() {
        let object = Object::new(
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "spec": {"a": [1]}, "a/b~c": 2}),
        )
        .unwrap();
        assert_eq!(object.pointer("/spec/a/0"), Some(&json!(1)));
        assert_eq!(object.pointer("/kind"), Some(&json!("X")));
        assert_eq!(object.pointer("/none/x"), None);
        assert_eq!(object.pointer("/a~1b~0c"), Some(&json!(2)));
    }
}
