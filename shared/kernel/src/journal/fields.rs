//! The fields in which two versions of an object differ.

use crate::ports::PartsDigest;
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The most fields of one object.
const MAX_FIELDS: usize = 20;
/// The most bytes of a path, and of a value.
const MAX_TEXT: usize = 160;
/// The fields of the metadata that the API server sets.
const SERVER_FIELDS: [&str; 7] = [
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// A field of an object that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The path, such as `spec.template.spec.containers[name=web].image`.
    pub path: String,
    /// The earlier value, if it may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The new value, if it may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Returns the fields in which two versions of an object differ, except for those that the API
/// server sets and the status. Values are only numbers, booleans and images, and only with
/// `with_values`; a Secret has none.
pub fn changed(before: &Object, after: &Object, with_values: bool) -> Vec<FieldChange> {
    let mut walk = Walk::new(with_values, after);
    walk.maps(&mut String::new(), before.as_map(), after.as_map());
    walk.found
}

/// Returns the digest of the difference between two versions of an object, `sha256:...`: of all
/// paths that [`changed`] compares, each with its new value. Without `with_values`, and of a
/// Secret, it is of the paths only, so that no value can be guessed from it. An earlier value is
/// never part of it. An object without an earlier version differs in all its fields.
pub fn digest(before: Option<&Object>, after: &Object, with_values: bool) -> String {
    let mut walk = Walk::new(with_values, after);
    let mut digest = PartsDigest::default();
    digest.part(match walk.with_values {
        true => b"values",
        false => b"paths",
    });
    walk.digest = Some(digest);
    let none = Map::new();
    let before = before.map_or(&none, Object::as_map);
    walk.maps(&mut String::new(), before, after.as_map());
    format!("sha256:{}", walk.digest.unwrap_or_default().hex())
}

/// Checks whether the server writes the field `key` below a path.
fn is_of_server(path: &str, key: &str) -> bool {
    match path {
        "" => key == "status",
        "metadata" => SERVER_FIELDS.contains(&key),
        _ => false,
    }
}

struct Walk {
    with_values: bool,
    found: Vec<FieldChange>,
    /// The digest that differences are added to, in place of `found`.
    digest: Option<PartsDigest>,
}

impl Walk {
    fn new(with_values: bool, after: &Object) -> Self {
        Self {
            with_values: with_values && after.kind() != "Secret",
            found: Vec::new(),
            digest: None,
        }
    }

    fn values(&mut self, path: &mut String, before: &Value, after: &Value) {
        if before == after || self.found.len() >= MAX_FIELDS {
            return;
        }
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.maps(path, before, after),
            (Value::Array(before), Value::Array(after)) => self.lists(path, before, after),
            // The digest has each field of a new or removed map: the names of all keys of a Secret.
            (Value::Null, Value::Object(after)) if self.digest.is_some() => {
                self.maps(path, &Map::new(), after);
            }
            (Value::Object(before), Value::Null) if self.digest.is_some() => {
                self.maps(path, before, &Map::new());
            }
            _ => self.report(path, before, after),
        }
    }

    fn maps(&mut self, path: &mut String, before: &Map<String, Value>, after: &Map<String, Value>) {
        let keys = before.keys().chain(after.keys());
        let keys: BTreeSet<&String> = keys.filter(|key| !is_of_server(path, key)).collect();
        for key in keys {
            let part = match key.contains(['.', '/', '[']) {
                true => format!("[{key}]"),
                false if path.is_empty() => key.clone(),
                false => format!(".{key}"),
            };
            let none = Value::Null;
            let old = before.get(key).unwrap_or(&none);
            let new = after.get(key).unwrap_or(&none);
            self.below(path, &part, old, new);
        }
    }

    /// Compares the entries of lists: by their names if all have one, else by their positions.
    fn lists(&mut self, path: &mut String, before: &[Value], after: &[Value]) {
        let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
        let all: Option<Vec<String>> = before.iter().chain(after).map(name).collect();
        let none = Value::Null;
        match all {
            Some(names) => {
                let names: BTreeSet<String> = names.into_iter().collect();
                let find = |list: &[Value], wanted: &str| {
                    let found = list.iter().find(|one| one["name"] == *wanted);
                    found.cloned().unwrap_or_default()
                };
                for wanted in names {
                    let (old, new) = (find(before, &wanted), find(after, &wanted));
                    self.below(path, &format!("[name={wanted}]"), &old, &new);
                }
            }
            None => {
                for at in 0..before.len().max(after.len()) {
                    let old = before.get(at).unwrap_or(&none);
                    let new = after.get(at).unwrap_or(&none);
                    self.below(path, &format!("[{at}]"), old, new);
                }
            }
        }
    }

    fn below(&mut self, path: &mut String, part: &str, old: &Value, new: &Value) {
        let length = path.len();
        path.push_str(part);
        self.values(path, old, new);
        path.truncate(length);
    }

    fn report(&mut self, path: &str, before: &Value, after: &Value) {
        if let Some(digest) = &mut self.digest {
            digest.part(path.as_bytes());
            if self.with_values {
                digest.part(after.to_string().as_bytes());
            }
            return;
        }
        let shown = |value: &Value| match value {
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            Value::String(text) if path.ends_with(".image") => Some(short(text)),
            _ => None,
        };
        let (from, to) = match self.with_values {
            true => (shown(before), shown(after)),
            false => (None, None),
        };
        self.found.push(FieldChange {
            path: short(path),
            from,
            to,
        });
    }
}

fn short(text: &str) -> String {
    driftless_flux::shorten(text, MAX_TEXT)
}
