//! JSON patches on nodes: kustomize's parsing of patches, and kyaml's parsing of the patched
//! object. The operations are those of [`driftless_manifest::JsonPatch`].

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::node::{self, Node, Scalar, Style};
use driftless_fuel::{MAP_NODES, text_nodes};
use driftless_go::float;
use driftless_manifest::value_nodes;
use driftless_manifest::yaml::{self, Dialect};
use driftless_manifest::{JsonPatch as Operations, JsonPatchError};
use serde_json::Value;

/// The operations of a patch.
#[derive(Clone, Debug)]
pub(crate) struct JsonPatch(Operations);

fn fault(reason: String) -> Error {
    ErrorKind::Patch(reason).into()
}

fn refused(error: JsonPatchError) -> Error {
    match error {
        JsonPatchError::OutOfFuel(out) => out.into(),
        other => fault(other.to_string()),
    }
}

impl JsonPatch {
    /// Reads a patch: YAML or JSON, of which the first document counts.
    ///
    /// # Errors
    /// An empty patch, one that is not a list of maps, or more than is left of the budget.
    pub fn parse(text: &str, file: &str, budget: &Budget) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(fault("the patch is empty".to_owned()));
        }
        // A patch that starts like JSON must be JSON; only others are parsed as YAML.
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
        budget.spend_nodes(document.as_ref().map_or(0, value_nodes))?;
        let operations = document.filter(|value| !value.is_null());
        Operations::new(operations.unwrap_or_else(|| Value::Array(Vec::new())))
            .map(Self)
            .map_err(refused)
    }

    pub fn is_empty(&self) -> bool {
        self.0.operations().is_empty()
    }

    /// Applies the operations to an object.
    ///
    /// # Errors
    /// A path that leads nowhere, a test that fails, or an operation that costs more than is left
    /// of the budget.
    pub fn apply(&self, object: Node, budget: &Budget) -> Result<Node, Error> {
        budget.spend_steps(object.size())?;
        let mut value = node::into_value(object)?;
        budget.patch(&self.0, &mut value).map_err(refused)?;
        Ok(from_json(value))
    }
}

/// Returns the maximal number of values of a JSON text.
fn json_size(text: &str) -> usize {
    let weight = |byte: u8| match byte {
        b'{' => 1 + MAP_NODES,
        b',' | b'[' => 1,
        _ => 0,
    };
    text_nodes(text.len()) + text.bytes().map(weight).sum::<usize>()
}

/// Converts the patched object like kyaml: every number has become a float and is written as such,
/// and strings have quotes only where they need them.
fn from_json(value: Value) -> Node {
    match value {
        Value::Number(number) => {
            let text = number
                .as_f64()
                .map_or_else(|| number.to_string(), |f| float::format(f, 'g', None));
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

/// Checks whether YAML's writer neither quotes a string nor makes it a block.
fn is_bare(text: &str) -> bool {
    let written = yaml::to_string(&Value::String(text.to_owned()));
    !written.starts_with(['"', '\'', '|', '>'])
}
