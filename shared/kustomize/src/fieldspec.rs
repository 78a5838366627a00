//! Field specs: which field of which kind a transformer changes.

use crate::budget::Budget;
use crate::declare::{Declared, Type, declare};
use crate::error::{Error, ErrorKind};
use crate::node::{self, Node, Scalar, Style, Tag};
use crate::resid::GvkFilter;
use driftless_fuel::MAP_NODES;
use serde::Deserialize;
use std::borrow::Cow;

/// A field of a kind of object: `spec/template/metadata/labels` of Deployments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "FieldSpecFields")]
pub(crate) struct FieldSpec {
    pub gvk: GvkFilter,
    /// The names of fields with `/` between them; `\/` is a slash in a name.
    pub path: Cow<'static, str>,
    /// True if the field is created when it is missing.
    pub create: bool,
}

declare! {
    struct FieldSpecFields {
        "group" group: Cow<'static, str>,
        "version" version: Cow<'static, str>,
        "kind" kind: Cow<'static, str>,
        "path" path: Cow<'static, str>,
        "create" create: bool,
    }
}

impl Declared for FieldSpec {
    const TYPE: Type = FieldSpecFields::TYPE;
}

impl From<FieldSpecFields> for FieldSpec {
    fn from(written: FieldSpecFields) -> Self {
        let FieldSpecFields {
            group,
            version,
            kind,
            path,
            create,
        } = written;
        Self::new(
            GvkFilter {
                group,
                version,
                kind,
            },
            path,
            create,
        )
    }
}

/// The kind of node that is created at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateKind {
    Nothing,
    Scalar,
    Map,
}

impl FieldSpec {
    pub fn new(gvk: GvkFilter, path: impl Into<Cow<'static, str>>, create: bool) -> Self {
        let path = path.into();
        Self { gvk, path, create }
    }

    /// Calls `set` on every value that the path leads to, in every item of lists on the way.
    ///
    /// # Errors
    /// A scalar in the middle of the path, or an error of `set`.
    pub fn visit(
        &self,
        object: &mut Node,
        create: CreateKind,
        budget: &Budget,
        set: &mut dyn FnMut(&mut Node) -> Result<(), Error>,
    ) -> Result<(), Error> {
        budget.spend_steps(1 + self.path.len() / 64)?;
        budget.check_path_length(&self.path)?;
        let text = |field: &str| object.get(field).map_or("", Node::text);
        if !self.gvk.selects_object(text("apiVersion"), text("kind")) {
            return Ok(());
        }
        let create = if self.create {
            create
        } else {
            CreateKind::Nothing
        };
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        self.walk(object, Some(path), create, budget, set)
    }

    fn walk(
        &self,
        node: &mut Node,
        path: Option<&str>,
        create: CreateKind,
        budget: &Budget,
        set: &mut dyn FnMut(&mut Node) -> Result<(), Error>,
    ) -> Result<(), Error> {
        budget.spend_steps(1)?;
        let Some(left) = path else {
            return set(node);
        };
        if node.is_null() {
            return Ok(());
        }
        match node {
            Node::Seq(items) => items
                .iter_mut()
                .try_for_each(|item| self.walk(item, path, create, budget, set)),
            Node::Map(map) => {
                let (part, rest) = node::first_part(left, '/');
                let (name, is_list) = part
                    .strip_suffix("[]")
                    .map_or((&*part, false), |name| (name, true));
                if name.is_empty() {
                    return Err(self.fault("a part of the path is empty"));
                }
                // kyaml looks for an item of a list in this case, and refuses a map; it supports
                // wildcards nowhere.
                if name == "*" {
                    return Err(self.fault("a wildcard is not supported here"));
                }
                if name == "-" || node::is_list_item(name) {
                    return Err(self.fault(&format!("'{name}' is an item of a list, found a map")));
                }
                if create != CreateKind::Nothing && !is_list {
                    if map.get(name).is_none() {
                        budget.spend_field(name, "")?;
                        budget.spend_nodes(MAP_NODES)?;
                    }
                    prepare(
                        map,
                        name,
                        if rest.is_none() {
                            create
                        } else {
                            CreateKind::Map
                        },
                    );
                }
                if let (true, Some(field)) = (is_list, map.get_mut(name))
                    && field.is_null()
                {
                    *field = Node::Seq(Vec::new());
                }
                match map.get_mut(name) {
                    Some(field) => self.walk(field, rest, create, budget, set),
                    None => Ok(()),
                }
            }
            Node::Scalar(_) => Err(self.fault("expected a map or a list on the path")),
        }
    }

    fn fault(&self, reason: &str) -> Error {
        ErrorKind::Transform {
            transformer: "field path",
            reason: format!("'{}': {reason}", self.path),
        }
        .into()
    }
}

/// Creates a missing field, and converts a null one to its kind.
fn prepare(map: &mut node::Map, name: &str, create: CreateKind) {
    match (map.get_mut(name), create) {
        (None, CreateKind::Scalar) => map.insert(name, Node::str("")),
        (None, _) => map.insert(name, Node::map()),
        (Some(field), create) if field.is_null() => {
            *field = match create {
                CreateKind::Scalar => {
                    Node::Scalar(Scalar::new(Tag::Str, field.text(), Style::Plain))
                }
                _ => Node::map(),
            };
        }
        _ => {}
    }
}
