//! The hash suffix of generated objects' names.

use crate::error::{Error, ErrorKind};
use crate::loader::Context;
use crate::node::{self, Node};
use crate::resmap::ResMap;
use driftless_go::json;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// Appends the hash of their content to the names of generated objects.
///
/// # Errors
/// Content that JSON cannot represent.
pub(crate) fn add_hashes(map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
    let schema = &context.schema.borrow();
    for resource in map
        .list_mut()
        .iter_mut()
        .filter(|resource| resource.needs_hash)
    {
        context.budget.spend_steps(resource.node.size())?;
        let hash = hash(&resource.node, resource.kind())?;
        resource.remember_id(schema, &context.budget)?;
        let name = format!("{}-{hash}", resource.name());
        resource.set_name(&name);
    }
    Ok(())
}

fn hash(node: &Node, kind: &str) -> Result<String, Error> {
    if !["ConfigMap", "Secret"].contains(&kind) {
        // kustomize hashes the memory of its YAML library in this case, including lines and
        // columns.
        return Err(ErrorKind::Unsupported {
            field: format!("the hash of a generated object that a patch made a {kind}"),
            reason: "set disableNameSuffixHash for it".to_owned(),
        }
        .into());
    }
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), kind.into());
    // kustomize looks for a field named `metadata/name`, which never exists.
    fields.insert("name".to_owned(), "".into());
    let mut take = |field: &str, needed: bool| -> Result<(), Error> {
        let value = match node.get(field) {
            Some(Node::Scalar(scalar)) => Value::String(scalar.text.clone()),
            Some(value) => node::to_value(value)?,
            None => Value::String(String::new()),
        };
        if needed || value.is_object() {
            fields.insert(field.to_owned(), value);
        }
        Ok(())
    };
    take("data", true)?;
    match kind {
        "Secret" => {
            take("type", true)?;
            take("stringData", false)?;
        }
        _ => take("binaryData", false)?,
    }
    let mut digest = HashWriter(Sha256::new());
    json::to_writer(&mut digest, &Value::Object(fields))
        .map_err(|error| ErrorKind::Object(format!("a {kind} cannot be hashed: {error}")))?;
    let digest = hex::encode(digest.0.finalize());
    Ok(digest.chars().take(10).map(readable).collect())
}

/// A writer that feeds the hash and keeps nothing.
struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Maps a digit to a character that cannot form words.
fn readable(digit: char) -> char {
    match digit {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    }
}
