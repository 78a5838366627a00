//! `replacements`: copies a value of one object into fields of others.

mod paths;

use crate::budget::{Budget, KUSTOMIZATION};
use crate::error::{Error, ErrorKind};
use crate::kustomization::{
    FieldOptions, Replacement, ReplacementEntry, ReplacementSource, ReplacementTarget, read_config,
};
use crate::loader::{Context, Loader};
use crate::node::{self, Node, Scalar};
use crate::resid::{Id, IdFilter};
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schema;
use crate::selector::{Matcher, Selector};
use driftless_go::json;
use driftless_manifest::value_nodes;
use driftless_manifest::yaml::{self, Dialect};
use paths::{PathError, PathTarget, Visit};
use serde_json::Value as Json;

/// The replacements of one kustomization or plugin.
pub(crate) struct Replacements(Vec<Replacement>);

/// The steps that a byte of a rewritten string costs.
const STEPS_PER_BYTE: usize = 2;

/// The default field path.
const NAME: &str = "metadata.name";

fn fault(reason: String) -> Error {
    ErrorKind::Transform {
        transformer: "replacements",
        reason,
    }
    .into()
}

impl Replacements {
    /// Reads the entries and the files that they name.
    ///
    /// # Errors
    /// An entry with both, or a file without replacements.
    pub fn new(entries: &[ReplacementEntry], loader: &Loader<'_>) -> Result<Self, Error> {
        let mut all = Vec::new();
        for entry in entries {
            let inline = entry.replacement.source.is_some()
                || entry
                    .replacement
                    .targets
                    .as_ref()
                    .is_some_and(|t| !t.is_empty());
            match (entry.path.as_str(), inline) {
                ("", _) => all.push(entry.replacement.clone()),
                (_, true) => {
                    return Err(fault(
                        "an entry has both path and source: keep one".to_owned(),
                    ));
                }
                (path, false) => all.extend(read(path, loader)?),
            }
        }
        Ok(Self(all))
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        for replacement in &self.0 {
            let Some(targets) = &replacement.targets else {
                return Err(fault("an entry has no targets".to_owned()));
            };
            let mut value = match (&replacement.source, &replacement.source_value) {
                (Some(source), None) => source_value(map, source, context)?,
                (None, Some(text)) => Value::new(Node::Scalar(Scalar::plain(text.clone()))),
                (None, None) => {
                    return Err(fault(
                        "an entry has neither source nor sourceValue".to_owned(),
                    ));
                }
                (Some(_), Some(_)) => {
                    return Err(fault(
                        "an entry has both source and sourceValue: keep one".to_owned(),
                    ));
                }
            };
            for target in targets {
                apply_target(map, &mut value, target, context)?;
            }
        }
        map.drop_empty();
        Ok(())
    }
}

/// The value that is copied.
struct Value {
    node: Node,
    /// The field of the value, as object and path: if the field is also a target, later targets get
    /// its new value.
    field: Option<(usize, Vec<String>)>,
}

impl Value {
    fn new(node: Node) -> Self {
        Self { node, field: None }
    }

    /// Reads the field again after a change of its object.
    fn follow(&mut self, at: usize, object: &Node, budget: &Budget) -> Result<(), Error> {
        let Some((_, path)) = self.field.as_ref().filter(|(own, _)| *own == at) else {
            return Ok(());
        };
        let parts = node::parts(path);
        if let Some(Ok(Some(now))) = parts.map(|parts| node::lookup(object, &parts)) {
            budget.spend_steps(now.size())?;
            self.node.clone_from(now);
            node::unshare(&mut self.node);
        }
        Ok(())
    }
}

/// Reads the replacements of a file: one, or a list.
fn read(path: &str, loader: &Loader<'_>) -> Result<Vec<Replacement>, Error> {
    let file = loader.text(path, "replacements")?;
    let documents = loader.context.budget.reading(|fuel| {
        let (text, name) = (file.text.as_bytes(), file.path.as_str());
        yaml::documents_within(text, name, Dialect::V2, &KUSTOMIZATION, fuel)
    })?;
    let bad = |reason: String| fault(format!("'{path}': {reason}"));
    let list = match documents.into_iter().next() {
        Some(value @ (Json::Array(_) | Json::Object(_))) => {
            loader.context.budget.spend_nodes(value_nodes(&value))?;
            match value {
                Json::Array(list) => list,
                one => vec![one],
            }
        }
        _ => return Err(bad("expected a replacement or a list of them".to_owned())),
    };
    let one = |value: Json| read_config(value, false).map_err(|error| bad(error.to_string()));
    list.into_iter().map(one).collect()
}

fn source_value(
    map: &ResMap,
    source: &ReplacementSource,
    context: &Context<'_, '_>,
) -> Result<Value, Error> {
    let schema = &context.schema.borrow();
    let budget = &context.budget;
    budget.spend_steps(map.list().len() + source.field_path.len())?;
    let wanted = IdFilter {
        gvk: source.gvk.clone(),
        name: source.name.clone(),
        namespace: source.namespace.clone(),
    };
    let shown = wanted.id(schema).to_string();
    let is_meant = |(_, resource): &(usize, &Resource)| {
        wanted.selects(&resource.id(schema), schema)
            || resource
                .previous_ids()
                .any(|id| wanted.selects(&id, schema))
    };
    let mut found = map.list().iter().enumerate().filter(is_meant);
    let (at, resource) = match (found.next(), found.next()) {
        (Some(one), None) => one,
        (None, _) => return Err(fault(format!("no object is {shown}"))),
        _ => return Err(fault(format!("more than one object is {shown}"))),
    };
    let path = if source.field_path.is_empty() {
        NAME
    } else {
        &source.field_path
    };
    let missing = || {
        fault(format!(
            "{} {} has no field '{path}'",
            resource.kind(),
            resource.name()
        ))
    };
    let path_parts = node::smart_split(path);
    let parts = node::parts(&path_parts).ok_or_else(missing)?;
    let value = node::lookup(&resource.node, &parts).map_err(|wrong| {
        fault(format!(
            "{} {}: '{path}' goes through {}",
            resource.kind(),
            resource.name(),
            wrong.found
        ))
    })?;
    let value = value
        .filter(|value| !value.is_empty())
        .ok_or_else(missing)?;
    let options = source.options.as_ref();
    if let Some(options) = options.filter(|options| !options.delimiter.is_empty()) {
        return refine(value, options).map(Value::new);
    }
    budget.spend_tree(value)?;
    let mut node = value.clone();
    node::unshare(&mut node);
    Ok(Value {
        node,
        field: Some((at, path_parts)),
    })
}

/// Returns the part of a string that `delimiter` and `index` select.
fn refine(value: &Node, options: &FieldOptions) -> Result<Node, Error> {
    let Node::Scalar(scalar) = value else {
        return Err(fault("delimiter is for strings only".to_owned()));
    };
    let parts: Vec<&str> = scalar.text.split(&options.delimiter).collect();
    let part = usize::try_from(options.index)
        .ok()
        .and_then(|index| parts.get(index));
    let part =
        part.ok_or_else(|| fault(format!("options.index {} is out of bounds", options.index)))?;
    Ok(Node::Scalar(Scalar {
        text: (*part).to_owned(),
        share: 0,
        ..scalar.clone()
    }))
}

fn apply_target(
    map: &mut ResMap,
    value: &mut Value,
    target: &ReplacementTarget,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    let Some(select) = &target.select else {
        return Err(fault("a target has no select".to_owned()));
    };
    let compiled = |selector: &Selector| selector.compile(&context.patterns, &context.budget);
    let select = compiled(select)?;
    let reject = target
        .reject
        .iter()
        .map(compiled)
        .collect::<Result<Vec<_>, _>>()?;
    let paths = target_paths(target, &context.budget)?;
    for (at, resource) in map.list_mut().iter_mut().enumerate() {
        for matcher in reject.iter().chain([&select]) {
            matcher.spend(resource, &context.budget)?;
        }
        if !is_target(resource, &select, &reject, &context.schema.borrow()) {
            continue;
        }
        for path in &paths {
            let copy = Copy {
                value: &value.node,
                options: target.options.as_ref(),
                context,
                levels: path.len(),
            };
            copy.write_to(resource, path)?;
            if replaces_annotations(path) {
                resource.forget_history();
            }
            resource.shares.sync(&mut resource.node, &context.budget)?;
            value.follow(at, &resource.node, &context.budget)?;
        }
    }
    Ok(())
}

/// Returns the fields of a target, split into parts.
fn target_paths(target: &ReplacementTarget, budget: &Budget) -> Result<Vec<Vec<String>>, Error> {
    let mut paths = Vec::with_capacity(target.field_paths.len().max(1));
    for path in &target.field_paths {
        budget.spend_steps(path.len())?;
        let path = node::smart_split(path);
        budget.check_path(path.len())?;
        budget.spend_nodes(path.len())?;
        paths.push(path);
    }
    if paths.is_empty() {
        paths.push(node::smart_split(NAME));
    }
    Ok(paths)
}

/// Checks whether a value at `path` replaces all annotations of an object.
fn replaces_annotations(path: &[String]) -> bool {
    matches!(path, [metadata] if metadata == "metadata")
        || matches!(path, [metadata, field] if metadata == "metadata" && field == "annotations")
}

fn is_target(resource: &Resource, select: &Matcher, reject: &[Matcher], schema: &Schema) -> bool {
    let has_marks =
        |matcher: &&Matcher| !matcher.annotations.is_empty() || !matcher.labels.is_empty();
    if !select.matches_metadata(resource)
        || reject
            .iter()
            .filter(has_marks)
            .any(|matcher| matcher.matches_metadata(resource))
    {
        return false;
    }
    let ids: Vec<Id<'_>> = std::iter::once(resource.id(schema))
        .chain(resource.previous_ids())
        .collect();
    let rejected = reject
        .iter()
        .filter(|matcher| !matcher.no_id)
        .any(|matcher| ids.iter().any(|id| matcher.id(id)));
    !rejected && ids.iter().any(|id| select.id(id))
}

/// A value that is copied into fields.
struct Copy<'c> {
    value: &'c Node,
    options: Option<&'c FieldOptions>,
    context: &'c Context<'c, 'c>,
    /// The levels of an object above the destination.
    levels: usize,
}

impl Copy<'_> {
    /// Writes the value to every field that the path leads to.
    fn write_to(&self, resource: &mut Resource, path: &[String]) -> Result<(), Error> {
        let done = match self.replace_in_text(&mut resource.node, path) {
            // The path may continue in a string with YAML or JSON.
            Ok(count) => Ok(count),
            Err(PathError::Spent(error)) => return Err(error),
            Err(PathError::Reason(_)) => self.replace_in_fields(&mut resource.node, path),
        };
        match done {
            Ok(0) if self.creates() => {
                self.missed(resource, path, "the field cannot be found or created")
            }
            Ok(0) => self.missed(resource, path, "the field does not exist"),
            Ok(_) => Ok(()),
            Err(PathError::Spent(error)) => Err(error),
            Err(PathError::Reason(reason)) => self.missed(resource, path, &reason),
        }
    }

    fn missed(&self, resource: &Resource, path: &[String], reason: &str) -> Result<(), Error> {
        let (kind, name) = (resource.kind(), resource.name());
        let path = path.join(".");
        Err(fault(format!("{kind} {name}: '{path}': {reason}")))
    }

    fn creates(&self) -> bool {
        self.options.is_some_and(|options| options.create)
    }

    /// Sets every field that the path leads to; returns how many there were.
    fn replace_in_fields(&self, node: &mut Node, path: &[String]) -> Result<usize, PathError> {
        let mut count = 0;
        let visit = Visit {
            make: self.creates().then_some(self.value),
            context: self.context,
        };
        visit.path(node, path, &mut |found| {
            count += 1;
            match found {
                PathTarget::Node(node) => self.set(node),
                // A value within a string is changed in a copy that is discarded.
                PathTarget::InText => Ok(()),
            }
        })?;
        Ok(count)
    }

    fn set(&self, node: &mut Node) -> Result<(), PathError> {
        let budget = &self.context.budget;
        let value = self.value;
        let options = self.options.filter(|options| !options.delimiter.is_empty());
        match (node, options) {
            // Only the value: the field keeps its type.
            (Node::Scalar(old), None) => {
                let text = value.text();
                budget.spend_field("", text)?;
                text.clone_into(&mut old.text);
            }
            (Node::Scalar(old), Some(options)) => {
                budget.spend_steps(old.text.len())?;
                budget.spend_field(&old.text, value.text())?;
                old.text = splice(&old.text, value, options);
            }
            (node, None) => {
                budget.spend_tree(value)?;
                budget.check_node_levels(self.levels, value)?;
                *node = value.clone();
            }
            (_, Some(_)) => {
                return Err(PathError::Reason(
                    "delimiter is for strings only".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Follows the path to a string that holds YAML or JSON, changes a value in it and rewrites the
    /// string.
    fn replace_in_text(&self, object: &mut Node, path: &[String]) -> Result<usize, PathError> {
        let none = || PathError::Reason("a value on the path is not a string".to_owned());
        let mut text = None;
        for length in 1..path.len() {
            let Some(parts) = node::parts(&path[..length]) else {
                continue;
            };
            self.context.budget.spend_steps(length)?;
            if let Ok(Some(Node::Scalar(scalar))) = node::lookup(object, &parts)
                && let Some(inner) = self.context.embedded(&scalar.text)?
            {
                text = Some((parts, length, inner));
                break;
            }
        }
        let (parts, length, mut inner) = text.ok_or_else(none)?;
        let Ok(Some(Node::Scalar(scalar))) = node::lookup_mut(object, &parts) else {
            return Err(none());
        };
        if self.replace_in_fields(&mut inner, &path[length..])? == 0 {
            return Err(none());
        }
        let budget = &self.context.budget;
        budget.spend_steps(STEPS_PER_BYTE.saturating_mul(scalar.text.len()))?;
        let written = write_text(&inner, &scalar.text).ok_or_else(none)?;
        budget.spend_text(written.len().saturating_sub(scalar.text.len()))?;
        scalar.text = written;
        Ok(1)
    }
}

/// Returns a string with the value in place of one of its parts, or before or after them. A map or
/// list counts as an empty string.
fn splice(old: &str, value: &Node, options: &FieldOptions) -> String {
    let text = if value.is_null() { "" } else { value.text() };
    let mut parts: Vec<&str> = old.split(&options.delimiter).collect();
    match usize::try_from(options.index) {
        Err(_) => parts.insert(0, text),
        Ok(index) => match parts.get_mut(index) {
            Some(part) => *part = text,
            None => parts.push(text),
        },
    }
    parts.join(&options.delimiter)
}

/// Returns the string with the value in it: JSON stays JSON, with or without indentation; anything
/// else is YAML.
fn write_text(inner: &Node, old: &str) -> Option<String> {
    if !old.trim_start().starts_with(['{', '[']) {
        node::to_value(inner).ok()?;
        return Some(node::to_text(inner).trim().to_owned());
    }
    let value = node::to_value(inner).ok()?;
    if old.contains('\n') && old.contains("  ") {
        json::to_string_indent(&value, "  ").ok()
    } else {
        json::to_string(&value).ok()
    }
}
