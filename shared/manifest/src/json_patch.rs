//! JSON patches with the semantics of `gopkg.in/evanphx/json-patch.v4` 4.13, which kustomize and
//! the API server use. They are laxer than RFC 6902: `replace` sets a missing field of a map,
//! indexes of lists may count from the end, `test` of a missing field against null passes, and an
//! operation without a value has the value null.

use crate::pointer;
use crate::value_cost::{check_depth, value_nodes};
use driftless_fuel::{Fuel, OutOfFuel};
use serde_json::Value;

/// The operations of a patch, in their order.
#[derive(Clone, Debug)]
pub struct JsonPatch(Vec<JsonPatchOperation>);

/// One operation. It is checked when it is applied.
#[derive(Clone, Debug)]
pub struct JsonPatchOperation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// The error of a patch that cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonPatchError {
    /// The patch is not a list of operations.
    #[error("a JSON patch must be a list of operations")]
    NotOperations,
    /// An operation lacks a field that it needs.
    #[error("operation '{operation}' has no {field}")]
    Lacks {
        /// The name of the operation.
        operation: String,
        /// The name of the field.
        field: &'static str,
    },
    /// An operation of this name does not exist.
    #[error("'{0}' is not an operation: use add, remove, replace, move, copy or test")]
    Unknown(String),
    /// The map or list with the last part of this path does not exist.
    #[error("path '{0}' does not exist")]
    NoPath(String),
    /// The last part of a path is not an index of its list.
    #[error("path '{path}': '{index}' is not a valid index of a list of length {length}")]
    Index {
        /// The path of the operation.
        path: String,
        /// The part that is not an index.
        index: String,
        /// The number of items of the list.
        length: usize,
    },
    /// The map of this path has no field to remove.
    #[error("path '{0}': the field to remove does not exist")]
    NoField(String),
    /// The whole object would be replaced by a value that is not a map.
    #[error("the whole object can only be replaced by a map")]
    Root,
    /// The value at this path is not the expected one.
    #[error("the test of '{0}' fails")]
    Test(String),
    /// An operation costs more fuel than is left.
    #[error(transparent)]
    OutOfFuel(#[from] OutOfFuel),
}

impl JsonPatch {
    /// Parses a patch from a JSON value.
    ///
    /// # Errors
    /// [`JsonPatchError::NotOperations`].
    pub fn new(operations: Value) -> Result<Self, JsonPatchError> {
        let Value::Array(operations) = operations else {
            return Err(JsonPatchError::NotOperations);
        };
        operations
            .into_iter()
            .map(JsonPatchOperation::new)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the operations, in their order.
    pub fn operations(&self) -> &[JsonPatchOperation] {
        &self.0
    }

    /// Applies all operations to a document. After an error the document is partly changed.
    ///
    /// # Errors
    /// A path does not exist, a test fails, an operation is unknown, or the fuel has run out.
    ///
    /// ```
    /// use driftless_fuel::{Fuel, FuelLimits};
    /// use driftless_manifest::JsonPatch;
    /// use serde_json::json;
    ///
    /// let patch = JsonPatch::new(json!([{"op": "add", "path": "/ports/-1", "value": 2}]))?;
    /// let mut document = json!({"ports": [1, 3]});
    /// patch.apply(&mut document, &Fuel::new(FuelLimits::NONE))?;
    /// assert_eq!(document, json!({"ports": [1, 3, 2]}));
    /// # Ok::<(), driftless_manifest::JsonPatchError>(())
    /// ```
    pub fn apply(&self, document: &mut Value, fuel: &Fuel) -> Result<(), JsonPatchError> {
        self.0
            .iter()
            .try_for_each(|operation| operation.apply(document, fuel))
    }
}

impl JsonPatchOperation {
    fn new(value: Value) -> Result<Self, JsonPatchError> {
        let Value::Object(mut fields) = value else {
            return Err(JsonPatchError::NotOperations);
        };
        let text = |field: Option<&Value>| field.and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            op: text(fields.get("op")).unwrap_or_default(),
            path: text(fields.get("path")),
            from: text(fields.get("from")),
            value: fields.remove("value").unwrap_or(Value::Null),
        })
    }

    /// Returns whether the operation names the whole document, in `path` or `from`.
    pub fn names_root(&self) -> bool {
        let is_root = |path: &Option<String>| path.as_deref() == Some("");
        is_root(&self.path) || is_root(&self.from)
    }

    /// Returns the value that a `copy` copies; `None` for other operations, or if `from` does not
    /// exist.
    pub fn copied<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        let from = self.from.as_deref().filter(|_| self.op == "copy")?;
        document.pointer(from)
    }

    fn path(&self) -> Result<&str, JsonPatchError> {
        self.path.as_deref().ok_or_else(|| self.lacks("path"))
    }

    fn from(&self) -> Result<&str, JsonPatchError> {
        self.from.as_deref().ok_or_else(|| self.lacks("from"))
    }

    fn lacks(&self, field: &'static str) -> JsonPatchError {
        let operation = self.op.clone();
        JsonPatchError::Lacks { operation, field }
    }

    /// Applies the operation to a document.
    ///
    /// # Errors
    /// Those of [`JsonPatch::apply`].
    pub fn apply(&self, document: &mut Value, fuel: &Fuel) -> Result<(), JsonPatchError> {
        let path = self.path()?;
        let from = self.from.as_ref().map_or(0, String::len);
        fuel.steps(1 + (path.len() + from) / 8)?;
        let edit = Edit { fuel };
        match self.op.as_str() {
            "add" => edit.add(document, path, edit.copy(&self.value)?),
            "remove" => edit.remove(document, path).map(|_| ()),
            "replace" => edit.replace(document, path, edit.copy(&self.value)?),
            "move" => {
                let value = edit.remove(document, self.from()?)?;
                fuel.steps(value_nodes(&value))?;
                edit.add(document, path, value)
            }
            "copy" => {
                let value = match get(document, self.from()?)? {
                    Some(value) => edit.copy(value)?,
                    None => Value::Null,
                };
                edit.add(document, path, value)
            }
            "test" => {
                fuel.steps(value_nodes(&self.value))?;
                test(document, path, &self.value)
            }
            other => Err(JsonPatchError::Unknown(other.to_owned())),
        }
    }
}

/// Changes to a document, which are charged before they are made.
struct Edit<'f> {
    fuel: &'f Fuel,
}

/// Items of a list that can be moved in one step.
const ITEMS_PER_STEP: usize = 32;

impl Edit<'_> {
    fn copy(&self, value: &Value) -> Result<Value, JsonPatchError> {
        let size = value_nodes(value);
        self.fuel.steps(size)?;
        self.fuel.nodes(size)?;
        Ok(value.clone())
    }

    fn add(&self, document: &mut Value, path: &str, value: Value) -> Result<(), JsonPatchError> {
        check_depth(self.fuel, path.matches('/').count(), &value)?;
        let (parent, key) = parent(document, path)?;
        match parent {
            Value::Array(items) if key == "-" => items.push(value),
            Value::Array(items) => {
                let at = index(&key, items.len() + 1)
                    .ok_or_else(|| no_index(path, &key, items.len()))?;
                self.fuel.steps((items.len() - at) / ITEMS_PER_STEP)?;
                items.insert(at, value);
            }
            Value::Object(map) => {
                map.insert(key, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn remove(&self, document: &mut Value, path: &str) -> Result<Value, JsonPatchError> {
        let (parent, key) = parent(document, path)?;
        match parent {
            Value::Array(items) => {
                let at =
                    index(&key, items.len()).ok_or_else(|| no_index(path, &key, items.len()))?;
                self.fuel.steps((items.len() - at) / ITEMS_PER_STEP)?;
                Ok(items.remove(at))
            }
            Value::Object(map) => {
                let removed = map.remove(&key);
                removed.ok_or_else(|| JsonPatchError::NoField(path.to_owned()))
            }
            _ => Ok(Value::Null),
        }
    }

    fn replace(
        &self,
        document: &mut Value,
        path: &str,
        value: Value,
    ) -> Result<(), JsonPatchError> {
        check_depth(self.fuel, path.matches('/').count(), &value)?;
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(JsonPatchError::Root);
            }
            *document = value;
            return Ok(());
        }
        let (parent, key) = parent(document, path)?;
        match parent {
            Value::Array(items) => {
                let at =
                    index(&key, items.len()).ok_or_else(|| no_index(path, &key, items.len()))?;
                items[at] = value;
            }
            Value::Object(map) => {
                map.insert(key, value);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Finds the map or list that contains the last part of a path; returns it with that part.
fn parent<'v>(
    document: &'v mut Value,
    path: &str,
) -> Result<(&'v mut Value, String), JsonPatchError> {
    let missing = || JsonPatchError::NoPath(path.to_owned());
    let mut parts = path
        .split('/')
        .skip(1)
        .map(|part| pointer::unescape(part).into_owned());
    let mut last = parts.next().ok_or_else(missing)?;
    let mut at = document;
    for part in parts {
        at = match at {
            Value::Object(map) => map.get_mut(&last),
            Value::Array(items) => index(&last, items.len()).and_then(|at| items.get_mut(at)),
            _ => None,
        }
        .ok_or_else(missing)?;
        last = part;
    }
    match at {
        Value::Object(_) | Value::Array(_) => Ok((at, last)),
        _ => Err(missing()),
    }
}

/// Parses an index, which may count from the end; `limit` is the first one that is too high.
fn index(text: &str, limit: usize) -> Option<usize> {
    let number: i64 = text.parse().ok()?;
    let at = match usize::try_from(number) {
        Ok(at) => at,
        Err(_) => limit.checked_sub(usize::try_from(number.unsigned_abs()).ok()?)?,
    };
    (at < limit).then_some(at)
}

fn no_index(path: &str, index: &str, length: usize) -> JsonPatchError {
    JsonPatchError::Index {
        path: path.to_owned(),
        index: index.to_owned(),
        length,
    }
}

fn get<'v>(document: &'v mut Value, path: &str) -> Result<Option<&'v Value>, JsonPatchError> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Array(items) => {
            let at = index(&key, items.len());
            let at = at.ok_or_else(|| no_index(path, &key, items.len()))?;
            Ok(items.get(at))
        }
        Value::Object(map) => Ok(map.get(&key)),
        _ => Ok(None),
    }
}

fn test(document: &mut Value, path: &str, expected: &Value) -> Result<(), JsonPatchError> {
    let found = if path.is_empty() {
        Some(&*document)
    } else {
        get(document, path)?
    };
    if found.unwrap_or(&Value::Null) == expected {
        Ok(())
    } else {
        Err(JsonPatchError::Test(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_fuel::FuelLimits;
    use serde_json::json;

    fn apply(patch: Value, mut document: Value) -> Result<Value, JsonPatchError> {
        JsonPatch::new(patch)?.apply(&mut document, &Fuel::new(FuelLimits::NONE))?;
        Ok(document)
    }

    #[test]
    fn applies_as_evanphx() {
        let document = json!({"a": {"b": [1, 2]}, "n": 8080});
        for (patch, want) in [
            (
                json!([{"op": "replace", "path": "/new", "value": 1}]),
                json!({"a": {"b": [1, 2]}, "n": 8080, "new": 1}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/-", "value": 3}]),
                json!({"a": {"b": [1, 2, 3]}, "n": 8080}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/-1", "value": 3}]),
                json!({"a": {"b": [1, 2, 3]}, "n": 8080}),
            ),
            (
                json!([{"op": "remove", "path": "/a/b/-1"}]),
                json!({"a": {"b": [1]}, "n": 8080}),
            ),
            (
                json!([{"op": "test", "path": "/none", "value": null}]),
                document.clone(),
            ),
            (
                json!([{"op": "move", "from": "/n", "path": "/a/~0~1"}]),
                json!({"a": {"b": [1, 2], "~/": 8080}}),
            ),
        ] {
            assert_eq!(
                apply(patch.clone(), document.clone()).unwrap(),
                want,
                "{patch}"
            );
        }
        for patch in [
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "add", "path": "/none/x", "value": 1}]),
            json!([{"op": "add", "path": "/a/b/9", "value": 1}]),
            json!([{"op": "test", "path": "/n", "value": 1}]),
            json!([{"op": "frob", "path": "/n"}]),
            json!({"op": "add"}),
        ] {
            assert!(apply(patch.clone(), document.clone()).is_err(), "{patch}");
        }
    }
}
