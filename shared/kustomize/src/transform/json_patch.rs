//! JSON patches as evanphx/json-patch v4 applies them, which kustomize uses. It is laxer than RFC 6902: `replace` sets a
//! map's field that is missing, array indexes may count from the end, `test` of a missing field passes against null.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::node::{self, MAP_VALUES, Node, Scalar, Style, value_size as size};
use driftless_manifest::yaml::{self, Dialect};
use serde_json::Value;

/// The operations of a patch.
#[derive(Clone, Debug)]
pub(crate) struct JsonPatch(Vec<Operation>);

#[derive(Clone, Debug)]
struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

fn fault(reason: String) -> Error {
    ErrorKind::Patch(reason).into()
}

impl JsonPatch {
    /// Reads a patch: YAML or JSON, of which the first document counts.
    ///
    /// # Errors
    /// Empty, not a list of maps, or more than is left of the budget.
    pub fn parse(text: &str, file: &str, budget: &Budget) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(fault("it is empty".to_owned()));
        }
        // Text that starts like JSON must be JSON; only what does not is read as YAML.
        let document = if text.starts_with('[') {
            budget.check_room(json_size(text))?;
            let parsed = serde_json::from_str(text);
            Some(parsed.map_err(|error| {
                fault(format!(
                    "a patch that starts with '[' must be JSON: {error}"
                ))
            })?)
        } else {
            let limits = yaml::Limits::default();
            let documents = budget.reading(|fuel| {
                yaml::documents_within(text.as_bytes(), file, Dialect::V2, &limits, fuel)
            })?;
            documents.into_iter().next()
        };
        budget.spend_nodes(document.as_ref().map_or(0, size))?;
        let operations = match document {
            Some(Value::Array(operations)) => operations,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                return Err(fault(
                    "a JSON patch must be a list of operations".to_owned(),
                ));
            }
        };
        operations
            .into_iter()
            .map(Operation::new)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the operations to an object.
    ///
    /// # Errors
    /// A path that leads nowhere, a test that fails, or an operation that costs more than is left of the budget.
    pub fn apply(&self, object: Node, budget: &Budget) -> Result<Node, Error> {
        budget.spend_steps(object.size())?;
        let mut value = node::into_value(object)?;
        for operation in &self.0 {
            operation.apply(&mut value, budget)?;
        }
        Ok(from_json(value))
    }
}

impl Operation {
    fn new(value: Value) -> Result<Self, Error> {
        let Value::Object(mut fields) = value else {
            return Err(fault(
                "a JSON patch must be a list of operations".to_owned(),
            ));
        };
        let text = |field: Option<&Value>| field.and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            op: text(fields.get("op")).unwrap_or_default(),
            path: text(fields.get("path")),
            from: text(fields.get("from")),
            value: fields.remove("value").unwrap_or(Value::Null),
        })
    }

    fn path(&self) -> Result<&str, String> {
        self.path
            .as_deref()
            .ok_or_else(|| format!("operation '{}' has no path", self.op))
    }

    fn from(&self) -> Result<&str, String> {
        self.from
            .as_deref()
            .ok_or_else(|| format!("operation '{}' has no from", self.op))
    }

    fn apply(&self, document: &mut Value, budget: &Budget) -> Result<(), Error> {
        let path = self.path().map_err(fault)?;
        let from = self.from.as_ref().map_or(0, String::len);
        budget.spend_steps(1 + (path.len() + from) / 8)?;
        let edit = Edit { budget };
        match self.op.as_str() {
            "add" => edit.add(document, path, edit.copy(&self.value)?),
            "remove" => edit.remove(document, path).map(|_| ()),
            "replace" => edit.replace(document, path, edit.copy(&self.value)?),
            "move" => {
                let value = edit.remove(document, self.from().map_err(fault)?)?;
                budget.spend_steps(size(&value))?;
                edit.add(document, path, value)
            }
            "copy" => {
                let from = self.from().map_err(fault)?;
                let value = match get(document, from).map_err(fault)? {
                    Some(value) => edit.copy(value)?,
                    None => Value::Null,
                };
                edit.add(document, path, value)
            }
            "test" => {
                budget.spend_steps(size(&self.value))?;
                test(document, path, &self.value).map_err(fault)
            }
            other => Err(fault(format!(
                "'{other}' is not an operation: use add, remove, replace, move, copy or test"
            ))),
        }
    }
}

/// Changes of a document, paid for before they are made.
struct Edit<'b> {
    budget: &'b Budget,
}

/// Items of a list that are moved for a step.
const MOVED: usize = 32;

impl Edit<'_> {
    fn copy(&self, value: &Value) -> Result<Value, Error> {
        let size = size(value);
        self.budget.spend_steps(size)?;
        self.budget.spend_nodes(size)?;
        Ok(value.clone())
    }

    fn add(&self, document: &mut Value, path: &str, value: Value) -> Result<(), Error> {
        self.budget
            .check_levels(path.matches('/').count(), &value)?;
        let (parent, key) = parent(document, path).map_err(fault)?;
        match parent {
            Value::Array(items) if key == "-" => items.push(value),
            Value::Array(items) => {
                let at = index(&key, items.len(), items.len() + 1)
                    .map_err(|reason| fault(format!("path '{path}': {reason}")))?;
                self.budget.spend_steps((items.len() - at) / MOVED)?;
                items.insert(at, value);
            }
            Value::Object(map) => {
                map.insert(key, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn remove(&self, document: &mut Value, path: &str) -> Result<Value, Error> {
        let (parent, key) = parent(document, path).map_err(fault)?;
        match parent {
            Value::Array(items) => {
                let at = index(&key, items.len(), items.len())
                    .map_err(|reason| fault(format!("path '{path}': {reason}")))?;
                self.budget.spend_steps((items.len() - at) / MOVED)?;
                Ok(items.remove(at))
            }
            Value::Object(map) => map
                .remove(&key)
                .ok_or_else(|| fault(format!("path '{path}': the field to remove does not exist"))),
            _ => Ok(Value::Null),
        }
    }

    fn replace(&self, document: &mut Value, path: &str, value: Value) -> Result<(), Error> {
        self.budget
            .check_levels(path.matches('/').count(), &value)?;
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(fault(
                    "the whole object can only be replaced by a map".to_owned(),
                ));
            }
            *document = value;
            return Ok(());
        }
        let (parent, key) = parent(document, path).map_err(fault)?;
        match parent {
            Value::Array(items) => {
                let at = index(&key, items.len(), items.len())
                    .map_err(|reason| fault(format!("path '{path}': {reason}")))?;
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

/// As many values as a JSON text has at most.
fn json_size(text: &str) -> usize {
    let weight = |byte: u8| match byte {
        b'{' => 1 + MAP_VALUES,
        b',' | b'[' => 1,
        _ => 0,
    };
    node::text_size(text.len()) + text.bytes().map(weight).sum::<usize>()
}

/// The map or list that holds the last part of a path, and that part.
fn parent<'v>(document: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), String> {
    let missing = || format!("path '{path}' leads nowhere");
    let mut parts = path
        .split('/')
        .skip(1)
        .map(|part| part.replace("~1", "/").replace("~0", "~"));
    let mut last = parts.next().ok_or_else(missing)?;
    let mut at = document;
    for part in parts {
        at = match at {
            Value::Object(map) => map.get_mut(&last),
            Value::Array(items) => index(&last, items.len(), items.len())
                .ok()
                .and_then(|at| items.get_mut(at)),
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

/// An index, which may count from the end; `limit` is the first one that is too high.
fn index(text: &str, length: usize, limit: usize) -> Result<usize, String> {
    let fault = || format!("'{text}' is not a valid index of a list of length {length}");
    let number: i64 = text.parse().map_err(|_| fault())?;
    let at = match usize::try_from(number) {
        Ok(at) => at,
        Err(_) => usize::try_from(number.unsigned_abs())
            .ok()
            .and_then(|back| limit.checked_sub(back))
            .ok_or_else(fault)?,
    };
    if at < limit { Ok(at) } else { Err(fault()) }
}

fn get<'v>(document: &'v mut Value, path: &str) -> Result<Option<&'v Value>, String> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Array(items) => {
            let at = index(&key, items.len(), items.len())
                .map_err(|reason| format!("path '{path}': {reason}"))?;
            Ok(items.get(at))
        }
        Value::Object(map) => Ok(map.get(&key)),
        _ => Ok(None),
    }
}

fn test(document: &mut Value, path: &str, wanted: &Value) -> Result<(), String> {
    let found = if path.is_empty() {
        Some(&*document)
    } else {
        get(document, path)?
    };
    if found.unwrap_or(&Value::Null) == wanted {
        Ok(())
    } else {
        Err(format!("the test of '{path}' fails"))
    }
}

/// The patched object as kyaml reads it back: every number has become a float and is written so, and texts have quotes
/// only where they need them.
fn from_json(value: Value) -> Node {
    match value {
        Value::Number(number) => {
            let text = number.as_f64().map_or_else(|| number.to_string(), go_float);
            Node::Scalar(Scalar::typed(text))
        }
        Value::String(text) => {
            let style = if is_bare(&text) {
                Style::Plain
            } else {
                Style::Quoted
            };
            Node::Scalar(Scalar {
                style,
                ..Scalar::str(text)
            })
        }
        Value::Array(items) => Node::Seq(items.into_iter().map(from_json).collect()),
        Value::Object(map) => Node::Map(
            map.into_iter()
                .map(|(key, value)| (key, from_json(value)))
                .collect(),
        ),
        other => node::from_value(&other),
    }
}

/// Whether YAML's writer puts no quotes around a text and makes no block of it.
fn is_bare(text: &str) -> bool {
    let written = yaml::to_string(&Value::String(text.to_owned()));
    !written.starts_with(['"', '\'', '|', '>'])
}

/// Go's `strconv.FormatFloat(f, 'g', -1, 64)`.
fn go_float(float: f64) -> String {
    let short = format!("{float:e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Limits;
    use serde_json::json;

    fn apply(patch: &str, value: Value) -> Result<Value, String> {
        let budget = Budget::new(Limits::default());
        let patch = JsonPatch::parse(&format!(" {patch}"), "patch.yaml", &budget)
            .map_err(|e| e.to_string())?;
        let patched = patch
            .apply(node::from_value(&value), &budget)
            .map_err(|error| error.to_string())?;
        node::to_value(&patched).map_err(|error| error.to_string())
    }

    #[test]
    fn applies_as_evanphx() {
        let value = json!({"a": {"b": [1, 2]}, "n": 8080});
        for (patch, want) in [
            (
                "[{op: replace, path: /new, value: 1}]",
                json!({"a": {"b": [1, 2]}, "n": 8080, "new": 1}),
            ),
            (
                "[{op: add, path: /a/b/-, value: 3}]",
                json!({"a": {"b": [1, 2, 3]}, "n": 8080}),
            ),
            (
                "[{op: add, path: /a/b/-1, value: 3}]",
                json!({"a": {"b": [1, 2, 3]}, "n": 8080}),
            ),
            (
                "[{op: remove, path: /a/b/-1}]",
                json!({"a": {"b": [1]}, "n": 8080}),
            ),
            ("[{op: test, path: /none, value: null}]", value.clone()),
            (
                "[{op: move, from: /n, path: /a/~0~1}]",
                json!({"a": {"b": [1, 2], "~/": 8080}}),
            ),
        ] {
            assert_eq!(apply(patch, value.clone()).unwrap(), want, "{patch}");
        }
        for patch in [
            "[{op: remove, path: /none}]",
            "[{op: add, path: /none/x, value: 1}]",
            "[{op: add, path: /a/b/9, value: 1}]",
            "[{op: test, path: /n, value: 1}]",
            "[{op: frob, path: /n}]",
            "{op: add}",
        ] {
            assert!(apply(patch, value.clone()).is_err(), "{patch}");
        }
    }

    #[test]
    fn floats_are_written_as_go_does() {
        for (float, want) in [
            (8080.0, "8080"),
            (1.5, "1.5"),
            (1e21, "1e+21"),
            (1e-5, "1e-05"),
            (123456789.0, "1.23456789e+08"),
        ] {
            assert_eq!(go_float(float), want);
        }
    }
}
