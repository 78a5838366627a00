//! `fieldsV1` of `metadata.managedFields`: which fields a manager owns.
//!
//! A key is `f:NAME` for a field, `k:{…}` for the list item with these key fields, `v:VALUE` for an
//! item of a set, `i:N` for an item by index, and `.` for the value itself. `{}` is a value without
//! owned parts.

use driftless_manifest::{Object, pointer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// A field of a map.
    Field(String),
    /// An item of a list, by its key fields in order of name; values are JSON.
    Key(Vec<(String, String)>),
    /// An item of a set, as JSON.
    Value(String),
    /// An item of a list by its index.
    Index(String),
}

/// The owned fields below a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// True if the value itself is owned.
    pub itself: bool,
    /// The owned parts.
    pub parts: BTreeMap<Step, FieldSet>,
}

/// The error for an invalid `fieldsV1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Maximum depth of a set; the API server allows less.
const MAX_DEPTH: usize = 200;

impl FieldSet {
    /// Parses the value of `fieldsV1`.
    pub(super) fn parse(fields: &Value) -> Result<Self, Malformed> {
        let mut set = Self::read(fields, MAX_DEPTH)?;
        // `{}` at the top owns nothing.
        set.itself = false;
        Ok(set)
    }

    fn read(fields: &Value, depth: usize) -> Result<Self, Malformed> {
        let map = fields.as_object().ok_or(Malformed)?;
        let depth = depth.checked_sub(1).ok_or(Malformed)?;
        let mut set = Self {
            itself: map.is_empty(),
            parts: BTreeMap::new(),
        };
        for (key, below) in map {
            if key == "." {
                set.itself = true;
            } else {
                set.parts
                    .insert(Step::parse(key)?, Self::read(below, depth)?);
            }
        }
        Ok(set)
    }

    /// Converts the set to a value of `fieldsV1`.
    pub(super) fn to_value(&self) -> Value {
        let mut map = Map::new();
        if self.itself && !self.parts.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (step, below) in &self.parts {
            map.insert(step.to_key(), below.to_value());
        }
        Value::Object(map)
    }

    /// Adds all of another set.
    pub(super) fn unite(&mut self, other: &Self) {
        self.itself |= other.itself;
        for (step, below) in &other.parts {
            self.parts.entry(step.clone()).or_default().unite(below);
        }
    }

    /// Returns the owned part at a field.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.parts.get(&Step::Field(name.to_owned()))
    }

    /// Returns the owned part at an item of a list.
    pub(super) fn item(&self, at: usize, item: &Value) -> Option<&Self> {
        let index = at.to_string();
        let mut parts = self.parts.iter();
        let found = parts.find(|(step, _)| step.is_of(&index, Some(item)));
        found.map(|(_, below)| below)
    }

    /// Checks whether the set has the field of a JSON pointer into the live object, or parts of the
    /// field.
    pub(super) fn has(&self, pointer: &str, live: &Object) -> bool {
        let names = pointer.split('/').skip(1);
        let mut names = names.map(pointer::unescape);
        let Some(first) = names.next() else {
            return false;
        };
        let (mut set, mut value) = (self.field(&first), live.as_map().get(&*first));
        for name in names {
            let Some(here) = set else {
                return false;
            };
            match value {
                Some(Value::Array(items)) => {
                    value = name.parse().ok().and_then(|at: usize| items.get(at));
                    let mut parts = here.parts.iter();
                    let found = parts.find(|(step, _)| step.is_of(&name, value));
                    set = found.map(|(_, below)| below);
                }
                other => {
                    value = other.and_then(|value| value.get(&*name));
                    set = here.field(&name);
                }
            }
        }
        set.is_some()
    }

    /// Checks whether the value is owned as a whole, without parts.
    pub(super) fn is_leaf(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Step {
    fn parse(key: &str) -> Result<Self, Malformed> {
        let (form, rest) = key.split_once(':').ok_or(Malformed)?;
        let json = || serde_json::from_str::<Value>(rest).map_err(|_| Malformed);
        match form {
            "f" => Ok(Self::Field(rest.to_owned())),
            "k" => match json()? {
                Value::Object(map) => {
                    let mut fields: Vec<_> =
                        map.iter().map(|(k, v)| (k.clone(), canonical(v))).collect();
                    fields.sort();
                    Ok(Self::Key(fields))
                }
                _ => Err(Malformed),
            },
            "v" => Ok(Self::Value(canonical(&json()?))),
            "i" if rest.parse::<i64>().is_ok() => Ok(Self::Index(rest.to_owned())),
            _ => Err(Malformed),
        }
    }

    /// Checks whether this is the step to an item of a list.
    fn is_of(&self, index: &str, item: Option<&Value>) -> bool {
        match (self, item) {
            (Self::Index(own), _) => own == index,
            (Self::Value(own), Some(item)) => *own == canonical(item),
            (Self::Key(fields), Some(item)) => fields
                .iter()
                .all(|(name, own)| item.get(name).is_some_and(|one| canonical(one) == *own)),
            _ => false,
        }
    }

    fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// Renders a value as JSON, with `1.0` as `1`.
pub(super) fn canonical(value: &Value) -> String {
    match value.as_f64() {
        Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            format!("{float:.0}")
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_writes_unites() {
        let a = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}});
        let b = json!({"f:metadata": {"f:finalizers": {"v:\"x/y\"": {}}}, "f:spec": {"f:list": {"i:0": {}}, "f:ports": {}}});
        let mut set = FieldSet::parse(&a).unwrap();
        assert_eq!(set.to_value(), a);
        let other = FieldSet::parse(&b).unwrap();
        assert_eq!(other.to_value(), b);
        set.unite(&other);
        assert_eq!(
            set.to_value(),
            json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
                "f:spec": {"f:list": {"i:0": {}},
                    "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}})
        );
    }

    #[test]
    fn invalid_field_sets_are_refused() {
        for odd in [
            json!([]),
            json!({"x": {}}),
            json!({"f:a": 1}),
            json!({"k:[1]": {}}),
            json!({"v:{": {}}),
            json!({"i:x": {}}),
        ] {
            assert_eq!(FieldSet::parse(&odd), Err(Malformed), "{odd}");
        }
        let mut deep = json!({});
        for _ in 0..300 {
            deep = json!({"f:a": deep});
        }
        assert_eq!(FieldSet::parse(&deep), Err(Malformed));
    }
}
