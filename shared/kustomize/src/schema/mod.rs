//! kustomize's schema of kinds: which lists merge by which keys, and which kinds have no namespace.
//!
//! The built-in table is generated from the documents of Kubernetes 1.21.2 that kustomize v5.8.2
//! carries. A kustomization may bring its own OpenAPI document (`openapi.path`), which takes its
//! place.

mod table;

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use driftless_manifest::value_nodes;
use driftless_manifest::yaml::{self, Dialect};
use serde_json::Value;
use std::cell::Cell;
use std::collections::HashMap;
use table::{DEFINITIONS, KINDS, NAMES};

/// The only version that kustomize v5.8.2 carries.
const BUILTIN_VERSION: &str = "v1.21.2";

/// A part of the built-in table.
enum Shape {
    /// A definition, by its number.
    D(u16),
    /// A map with these fields.
    I(&'static [(&'static str, Shape)]),
    /// A list that merges: its elements, and the keys that identify them.
    L(&'static Shape, &'static [&'static str]),
    /// A map or list without further details.
    O,
}

enum Scope {
    Cluster,
    Namespaced,
    Unknown,
}

struct Kind {
    api_version: &'static str,
    kind: &'static str,
    definition: Option<u16>,
    scope: Scope,
    /// True if the scope also holds with a document of the user.
    always: bool,
}

/// The schema of one build.
#[derive(Debug)]
pub(crate) struct Schema {
    /// True if a kustomization has chosen the schema: the first one wins, except against the top
    /// one.
    chosen: bool,
    builtin: bool,
    /// True if the built-in table was used before a document of the user was loaded: then both stay
    /// in use.
    used: Cell<bool>,
    custom: Option<Custom>,
}

/// An OpenAPI document of the user.
#[derive(Debug)]
struct Custom {
    document: Value,
    /// True if references may lead into the built-in table.
    with_builtin: bool,
    /// The name of the definition, by apiVersion and kind.
    kinds: HashMap<(String, String), String>,
    /// The scope, by apiVersion and kind: true if namespaced.
    namespaced: HashMap<(String, String), bool>,
}

/// The schema of one value.
#[derive(Clone, Copy)]
pub(crate) struct SchemaNode<'s>(Place<'s>);

#[derive(Clone, Copy)]
enum Place<'s> {
    Builtin(&'static Shape),
    Custom(&'s Custom, &'s Value),
}

impl Schema {
    pub fn new() -> Self {
        Self {
            chosen: false,
            builtin: true,
            used: Cell::new(false),
            custom: None,
        }
    }

    /// Applies the `openapi` field of a kustomization: `version`, or the content of the file at
    /// `path`.
    ///
    /// # Errors
    /// Both are set, an unknown version, or an invalid OpenAPI document.
    pub fn choose(
        &mut self,
        version: Option<&str>,
        document: Option<(&str, &str)>,
        keep_builtin: bool,
        top: bool,
        budget: &Budget,
    ) -> Result<(), Error> {
        if self.chosen && !top {
            return Ok(());
        }
        let fault = |reason: &str| ErrorKind::Kustomization(format!("openapi: {reason}"));
        if let Some((text, file)) = document {
            if version.is_some() {
                return Err(fault("both version and path are set: keep one").into());
            }
            self.builtin = keep_builtin || self.used.get();
            self.custom = Some(Custom::parse(text, file, self.builtin, budget)?);
            self.chosen = true;
            return Ok(());
        }
        match version {
            None | Some("") => Ok(()),
            Some(BUILTIN_VERSION) => {
                self.chosen = true;
                Ok(())
            }
            Some(_) => Err(fault("the only built-in version is v1.21.2").into()),
        }
    }

    /// Checks whether objects of a kind are known to have no namespace.
    pub fn is_cluster_scoped(&self, api_version: &str, kind: &str) -> bool {
        let entry = builtin(api_version, kind);
        if let Some(Kind {
            always: true,
            scope,
            ..
        }) = entry
        {
            return matches!(scope, Scope::Cluster);
        }
        self.used.set(true);
        if let Some(custom) = &self.custom
            && let Some(namespaced) = custom
                .namespaced
                .get(&(api_version.to_owned(), kind.to_owned()))
        {
            return !namespaced;
        }
        self.builtin
            && matches!(
                entry,
                Some(Kind {
                    scope: Scope::Cluster,
                    ..
                })
            )
    }

    /// Returns the schema of a kind.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<SchemaNode<'_>> {
        self.used.set(true);
        if let Some(custom) = &self.custom
            && let Some(name) = custom.kinds.get(&(api_version.to_owned(), kind.to_owned()))
        {
            let definition = custom.document.get("definitions")?.get(name)?;
            return Some(SchemaNode(Place::Custom(custom, definition)));
        }
        if !self.builtin {
            return None;
        }
        let entry = builtin(api_version, kind)?;
        entry.definition.and_then(SchemaNode::builtin)
    }
}

/// A shape for each number, to refer to definitions.
static SHAPES: [Shape; 512] = definitions();

const fn definitions() -> [Shape; 512] {
    let mut shapes = [const { Shape::O }; 512];
    let mut number = 0;
    while number < 512 {
        shapes[number] = Shape::D(number as u16);
        number += 1;
    }
    shapes
}

fn builtin(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let at = KINDS
        .binary_search_by(|entry| (entry.api_version, entry.kind).cmp(&(api_version, kind)))
        .ok()?;
    KINDS.get(at)
}

impl<'s> SchemaNode<'s> {
    fn builtin(number: u16) -> Option<Self> {
        Some(SchemaNode(Place::Builtin(SHAPES.get(usize::from(number))?)))
    }

    /// Returns the schema of a field.
    pub fn field(self, name: &str) -> Option<SchemaNode<'s>> {
        match self.0 {
            Place::Builtin(shape) => {
                let rows = match shape {
                    Shape::D(number) => DEFINITIONS.get(usize::from(*number)).copied()?,
                    Shape::I(rows) => rows,
                    Shape::L(..) | Shape::O => return None,
                };
                let find = |name| rows.binary_search_by(|(row, _)| (*row).cmp(name)).ok();
                let (_, shape) = rows.get(find(name).or_else(|| find("*"))?)?;
                Some(SchemaNode(Place::Builtin(shape)))
            }
            Place::Custom(custom, schema) => {
                let field = schema.get("properties").and_then(|fields| fields.get(name));
                let field = field.or_else(|| {
                    schema
                        .get("additionalProperties")
                        .filter(|extra| extra.is_object())
                })?;
                custom.resolve(field)
            }
        }
    }

    /// Returns the schema of a list's elements.
    pub fn elements(self) -> Option<SchemaNode<'s>> {
        match self.0 {
            Place::Builtin(Shape::L(element, _)) => Some(SchemaNode(Place::Builtin(element))),
            Place::Builtin(_) => None,
            Place::Custom(custom, schema) => {
                if schema.get("type").and_then(Value::as_str) != Some("array") {
                    return None;
                }
                custom.resolve(schema.get("items")?)
            }
        }
    }

    /// Returns the keys of a list that merges; empty if its elements are identified by their own
    /// value.
    pub fn merge_keys(self) -> Option<Vec<&'s str>> {
        match self.0 {
            Place::Builtin(Shape::L(_, keys)) => Some(keys.to_vec()),
            Place::Builtin(_) => None,
            Place::Custom(_, schema) => {
                let strategy = schema.get("x-kubernetes-patch-strategy")?.as_str()?;
                if !strategy.split(',').any(|word| word == "merge") {
                    return None;
                }
                if let Some(keys) = schema
                    .get("x-kubernetes-list-map-keys")
                    .and_then(Value::as_array)
                {
                    return Some(keys.iter().filter_map(Value::as_str).collect());
                }
                Some(
                    schema
                        .get("x-kubernetes-patch-merge-key")
                        .and_then(Value::as_str)
                        .into_iter()
                        .collect(),
                )
            }
        }
    }
}

impl Custom {
    /// Follows `$ref`, a bounded number of times; also into the built-in table, if it is in use.
    fn resolve<'s>(&'s self, schema: &'s Value) -> Option<SchemaNode<'s>> {
        const MAX_REFS: usize = 32;
        let mut at = schema;
        for _ in 0..MAX_REFS {
            let Some(reference) = at.get("$ref").and_then(Value::as_str) else {
                return Some(SchemaNode(Place::Custom(self, at)));
            };
            match self.document.pointer(reference.strip_prefix('#')?) {
                Some(target) => at = target,
                None if self.with_builtin => {
                    let name = reference.strip_prefix("#/definitions/")?;
                    let place = NAMES
                        .binary_search_by(|(known, _)| (*known).cmp(name))
                        .ok()?;
                    return SchemaNode::builtin(NAMES.get(place)?.1);
                }
                None => return None,
            }
        }
        None
    }

    fn parse(text: &str, file: &str, with_builtin: bool, budget: &Budget) -> Result<Self, Error> {
        let limits = budget.schema_limits();
        let documents = budget.reading(|fuel| {
            yaml::documents_within(text.as_bytes(), file, Dialect::V2, &limits, fuel)
        })?;
        let document = documents.into_iter().next().unwrap_or(Value::Null);
        budget.spend_nodes(value_nodes(&document))?;
        if !document.is_object() {
            return Err(ErrorKind::Kustomization(format!(
                "openapi: '{file}' is not an OpenAPI document"
            ))
            .into());
        }
        let mut kinds = HashMap::new();
        for (name, definition) in document
            .get("definitions")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let names = definition.get(GVK).and_then(Value::as_array);
            for key in names.into_iter().flatten().filter_map(kind_key) {
                kinds.insert(key, name.clone());
            }
        }
        let mut namespaced = HashMap::new();
        for (path, item) in document
            .get("paths")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let Some(key) = item
                .get("get")
                .and_then(|get| get.get(GVK))
                .and_then(kind_key)
            else {
                continue;
            };
            if path.contains("namespaces/{namespace}") {
                namespaced.insert(key, true);
            } else {
                namespaced.entry(key).or_insert(false);
            }
        }
        Ok(Self {
            document,
            with_builtin,
            kinds,
            namespaced,
        })
    }
}

const GVK: &str = "x-kubernetes-group-version-kind";

fn kind_key(gvk: &Value) -> Option<(String, String)> {
    let text = |field: &str| gvk.get(field).and_then(Value::as_str);
    let version = text("version")?;
    let api_version = match text("group") {
        None | Some("") => version.to_owned(),
        Some(group) => format!("{group}/{version}"),
    };
    Some((api_version, text("kind")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_knows_pods() {
        assert!(
            KINDS
                .windows(2)
                .all(|pair| (pair[0].api_version, pair[0].kind)
                    < (pair[1].api_version, pair[1].kind))
        );
        assert!(
            DEFINITIONS
                .iter()
                .all(|rows| rows.windows(2).all(|pair| pair[0].0 < pair[1].0))
        );
        assert!(DEFINITIONS.len() < 512);
        let schema = Schema::new();
        let deployment = schema.of_kind("apps/v1", "Deployment").unwrap();
        let path = ["spec", "template", "spec", "containers"];
        let containers = path
            .iter()
            .fold(deployment, |at, field| at.field(field).unwrap());
        assert_eq!(containers.merge_keys().unwrap(), ["name"]);
        let ports = containers.elements().unwrap().field("ports").unwrap();
        assert_eq!(ports.merge_keys().unwrap(), ["containerPort", "protocol"]);
        assert!(schema.is_cluster_scoped("v1", "Namespace"));
        assert!(!schema.is_cluster_scoped("v1", "ConfigMap"));
        assert!(!schema.is_cluster_scoped("example.com/v1", "Namespace"));
    }
}
