//! The objects of a build, in order, with unique ids.

use crate::error::{Error, ErrorKind};
use crate::node::Node;
use crate::resid::Id;
use crate::resource::{Behavior, Resource, text_map};
use crate::schema::Schema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::{BTreeMap, HashSet};

/// The objects of a build, in order. No two have the same id when they are added; transformers may
/// violate that temporarily.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResMap {
    list: Vec<Resource>,
    /// The ids of `list`, cached while objects are only added.
    ids: Option<HashSet<String>>,
}

impl ResMap {
    pub fn list(&self) -> &[Resource] {
        &self.list
    }

    /// Returns the mutable objects.
    pub fn list_mut(&mut self) -> &mut Vec<Resource> {
        self.ids = None;
        &mut self.list
    }

    pub fn into_list(self) -> Vec<Resource> {
        self.list
    }

    /// Adds an object.
    ///
    /// # Errors
    /// An object with its id exists.
    pub fn append(&mut self, resource: Resource, schema: &Schema) -> Result<(), Error> {
        let list = &self.list;
        let ids = self.ids.get_or_insert_with(|| {
            list.iter()
                .map(|resource| resource.id(schema).key())
                .collect()
        });
        let id = resource.id(schema);
        if !ids.insert(id.key()) {
            return Err(ErrorKind::Duplicate(id.to_string()).into());
        }
        self.list.push(resource);
        Ok(())
    }

    /// Adds objects.
    ///
    /// # Errors
    /// A duplicate id.
    pub fn append_all(&mut self, resources: Vec<Resource>, schema: &Schema) -> Result<(), Error> {
        resources
            .into_iter()
            .try_for_each(|resource| self.append(resource, schema))
    }

    /// Returns the indices of the objects that have or had an id.
    pub fn with_any_id(&self, id: &Id<'_>, schema: &Schema) -> Vec<usize> {
        let found = |(_, resource): &(usize, &Resource)| {
            !resource.node.is_empty() && resource.has_id(id, schema)
        };
        self.list
            .iter()
            .enumerate()
            .filter(found)
            .map(|(at, _)| at)
            .collect()
    }

    /// Fails if two objects have one id.
    pub fn check_ids(&self, schema: &Schema) -> Result<(), Error> {
        let mut seen = HashSet::with_capacity(self.list.len());
        for resource in &self.list {
            let id = resource.id(schema);
            if !seen.insert(id.key()) {
                return Err(ErrorKind::Duplicate(id.to_string()).into());
            }
        }
        Ok(())
    }

    /// Drops objects that a patch has emptied.
    pub fn drop_empty(&mut self) {
        if self.list.iter().any(|resource| resource.node.is_empty()) {
            self.list_mut().retain(|resource| !resource.node.is_empty());
        }
    }

    /// Adds a generated object, or lets it replace or change the existing one that it names.
    ///
    /// # Errors
    /// The behavior is `create` and the object exists, or another behavior and it does not exist.
    pub fn absorb(&mut self, mut resource: Resource, schema: &Schema) -> Result<(), Error> {
        let id = resource.id(schema).to_string();
        let fault = |reason: String| ErrorKind::Generator {
            name: id.clone(),
            reason,
        };
        let found = self.with_any_id(&resource.id(schema), schema);
        let (at, behavior) = match (found.as_slice(), resource.behavior) {
            ([], Behavior::Create) => return self.append(resource, schema),
            ([], _) => {
                return Err(fault(
                    "no object of this name exists to merge with or to replace".to_owned(),
                )
                .into());
            }
            ([_], Behavior::Create) => {
                return Err(fault(
                    "the object already exists: set behavior to merge or replace".to_owned(),
                )
                .into());
            }
            ([at], behavior) => (*at, behavior),
            (many, _) => return Err(fault(format!("{} objects fit", many.len())).into()),
        };
        let old = &self.list[at];
        let (mut data, binary) = (texts(&old.node, "data"), texts(&old.node, "binaryData"));
        if behavior == Behavior::Merge
            && resource.api_version() == "v1"
            && resource.kind() == "Secret"
        {
            add_string_data(&old.node, &mut data).map_err(|error| fault(error.to_string()))?;
        }
        resource.take_identity_of(old);
        // A transformer may have changed the kind of the existing object.
        if !old.id(schema).is(&resource.id(schema)) {
            return Err(fault(
                "the object of this name was replaced by one of another kind".to_owned(),
            )
            .into());
        }
        if behavior == Behavior::Merge {
            let origin = old.annotation(crate::resource::ORIGIN).map(str::to_owned);
            merge_data(&mut resource.node, "data", data);
            merge_data(&mut resource.node, "binaryData", binary);
            if let Some(origin) = origin {
                resource.set_annotation(crate::resource::ORIGIN, &origin);
            }
        }
        self.list_mut()[at] = resource;
        Ok(())
    }
}

fn texts(node: &Node, field: &str) -> BTreeMap<String, String> {
    let value = |node: &Node| {
        if node.is_null() {
            String::new()
        } else {
            node.text().to_owned()
        }
    };
    let map = node.get(field).and_then(Node::as_map);
    map.map_or_else(BTreeMap::new, |map| {
        map.fields()
            .iter()
            .map(|(key, node)| (key.clone(), value(node)))
            .collect()
    })
}

/// The error of a value of `stringData` that is not a string.
#[derive(Debug, thiserror::Error)]
#[error("stringData value of '{key}' in the Secret is {found}, expected a string")]
struct StringDataError {
    key: String,
    found: &'static str,
}

/// Encodes `stringData` into `data`, where it takes precedence, like the API server.
///
/// # Errors
/// A value is not a string.
fn add_string_data(old: &Node, data: &mut BTreeMap<String, String>) -> Result<(), StringDataError> {
    let Some(map) = old.get("stringData").and_then(Node::as_map) else {
        return Ok(());
    };
    for (key, value) in map.fields() {
        if !matches!(value, Node::Scalar(_)) {
            return Err(StringDataError {
                key: key.clone(),
                found: value.description(),
            });
        }
        let text = if value.is_null() { "" } else { value.text() };
        data.insert(key.clone(), encode_base64(text.as_bytes()));
    }
    Ok(())
}

fn merge_data(node: &mut Node, field: &str, mut data: BTreeMap<String, String>) {
    data.extend(texts(node, field));
    let Some(map) = node.as_map_mut() else { return };
    map.remove(field);
    if !data.is_empty() {
        map.insert(field, text_map(data));
    }
}

/// Encodes base64 like kustomize: in lines of 70 characters if there is more than one line.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    const LINE: usize = 70;
    let encoded = STANDARD.encode(bytes);
    if encoded.len() < LINE {
        return encoded;
    }
    let mut lines = String::with_capacity(encoded.len() + encoded.len() / LINE + 1);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        lines.push_str(line);
        lines.push('\n');
        rest = more;
    }
    lines
}
