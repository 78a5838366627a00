//! `replacements`: copies a value of one object into fields of others.

mod paths;

use crate::error::{Error, ErrorKind};
use crate::kustomization::{
    FieldOptions, Form, Replacement, ReplacementEntry, ReplacementSource, ReplacementTarget, shape,
};
use crate::loader::{Context, Loader};
use crate::node::{self, Node, Scalar};
use crate::resid::{Id, IdFilter};
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schema;
use crate::selector::Matcher;
use driftless_manifest::yaml::{self, Dialect};
use paths::Found;
use serde_json::Value as Json;

/// The replacements of one kustomization or plugin.
pub(crate) struct Replacements(Vec<Replacement>);

/// The field that is meant when none is given.
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
    /// An entry with both, or a file that holds no replacements.
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
                (Some(source), None) => source_value(map, source, &context.schema.borrow())?,
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

/// What is copied.
struct Value {
    node: Node,
    /// The field that it is, as object and path: when that is a target, too, later targets get what it has become.
    field: Option<(usize, Vec<String>)>,
}

impl Value {
    fn new(node: Node) -> Self {
        Self { node, field: None }
    }

    /// Reads the field again after a change of its object.
    fn follow(&mut self, at: usize, object: &Node) {
        let Some((_, path)) = self.field.as_ref().filter(|(own, _)| *own == at) else {
            return;
        };
        let parts = node::parts(path);
        if let Some(Ok(Some(now))) = parts.map(|parts| node::lookup(object, &parts)) {
            self.node.clone_from(now);
            node::unshare(&mut self.node);
        }
    }
}

/// The replacements in a file: one, or a list.
fn read(path: &str, loader: &Loader<'_>) -> Result<Vec<Replacement>, Error> {
    let file = loader.text(path, "replacements")?;
    let documents = yaml::documents(
        file.text.as_bytes(),
        file.path.as_str(),
        Dialect::V2,
        &loader.context.yaml_limits(),
    )?;
    let bad = |reason: String| fault(format!("'{path}': {reason}"));
    let list = match documents.into_iter().next() {
        Some(Json::Array(list)) => list,
        Some(one @ Json::Object(_)) => vec![one],
        _ => return Err(bad("expected a replacement or a list of them".to_owned())),
    };
    let one = |value: Json| {
        let value = shape(value, Form::Replacement).map_err(bad)?;
        serde_json::from_value(value).map_err(|error| bad(error.to_string()))
    };
    list.into_iter().map(one).collect()
}

fn source_value(map: &ResMap, source: &ReplacementSource, schema: &Schema) -> Result<Value, Error> {
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
    let mut node = value.clone();
    node::unshare(&mut node);
    Ok(Value {
        node,
        field: Some((at, path_parts)),
    })
}

/// The part of a text that `delimiter` and `index` ask for.
fn refine(value: &Node, options: &FieldOptions) -> Result<Node, Error> {
    let Node::Scalar(scalar) = value else {
        return Err(fault("delimiter is for texts only".to_owned()));
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
    let select = select.compile()?;
    let reject = target
        .reject
        .iter()
        .map(|selector| selector.compile())
        .collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<Vec<String>> = match target.field_paths.as_slice() {
        [] => vec![node::smart_split(NAME)],
        paths => paths.iter().map(|path| node::smart_split(path)).collect(),
    };
    for (at, resource) in map.list_mut().iter_mut().enumerate() {
        if !is_target(resource, &select, &reject, &context.schema.borrow()) {
            continue;
        }
        for path in &paths {
            let size = value.node.size();
            context.spend_steps(size)?;
            let before = resource.node.size();
            let copied = copy(
                &mut resource.node,
                &value.node,
                path,
                target.options.as_ref(),
            );
            let copied = copied.map_err(|reason| {
                fault(format!(
                    "{} {}: '{}': {reason}",
                    resource.kind(),
                    resource.name(),
                    path.join(".")
                ))
            })?;
            resource.shares.level(&mut resource.node);
            value.follow(at, &resource.node);
            context.spend_nodes(copied.saturating_mul(size))?;
            context.spend_nodes(resource.node.size().saturating_sub(before))?;
        }
    }
    Ok(())
}

fn is_target(resource: &Resource, select: &Matcher, reject: &[Matcher], schema: &Schema) -> bool {
    let has_marks =
        |matcher: &&Matcher| !matcher.annotations.is_empty() || !matcher.labels.is_empty();
    if !select.marks(resource)
        || reject
            .iter()
            .filter(has_marks)
            .any(|matcher| matcher.marks(resource))
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

/// Writes the value to wherever the path leads; how many places that were.
fn copy(
    object: &mut Node,
    value: &Node,
    path: &[String],
    options: Option<&FieldOptions>,
) -> Result<usize, String> {
    let create = options.is_some_and(|options| options.create);
    // A text with YAML or JSON in it can be gone into.
    if let Ok(count) = copy_into_text(object, value, path, options) {
        return Ok(count);
    }
    let mut count = 0;
    paths::visit(object, path, create.then_some(value), &mut |found| {
        count += 1;
        match found {
            Found::Node(node) => set(node, value, options),
            // What is inside of a text is changed in a copy that nobody keeps.
            Found::InText => Ok(()),
        }
    })?;
    if count == 0 {
        return Err(if create {
            "it cannot be found or made"
        } else {
            "there is no such field"
        }
        .to_owned());
    }
    Ok(count)
}

fn set(node: &mut Node, value: &Node, options: Option<&FieldOptions>) -> Result<(), String> {
    let options = options.filter(|options| !options.delimiter.is_empty());
    match (node, options) {
        // Only the text: the field keeps its type.
        (Node::Scalar(old), None) => value.text().clone_into(&mut old.text),
        (Node::Scalar(old), Some(options)) => old.text = splice(&old.text, value, options),
        (node, None) => *node = value.clone(),
        (_, Some(_)) => return Err("delimiter is for texts only".to_owned()),
    }
    Ok(())
}

/// A text with the value in the place of one of its parts, or before or behind them. A map or list counts as an empty text.
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

/// Goes along the path to a text that holds YAML or JSON, changes a value in it and writes the text anew.
fn copy_into_text(
    object: &mut Node,
    value: &Node,
    path: &[String],
    options: Option<&FieldOptions>,
) -> Result<usize, String> {
    let none = || "no text on the way".to_owned();
    let mut at = None;
    for length in 1..path.len() {
        let Some(parts) = node::parts(&path[..length]) else {
            continue;
        };
        if let Ok(Some(Node::Scalar(scalar))) = node::lookup(object, &parts)
            && parse_text(&scalar.text).is_some()
        {
            at = Some((parts, length));
            break;
        }
    }
    let (parts, length) = at.ok_or_else(none)?;
    let Ok(Some(Node::Scalar(scalar))) = node::lookup_mut(object, &parts) else {
        return Err(none());
    };
    let mut inner = parse_text(&scalar.text).ok_or_else(none)?;
    let create = options.is_some_and(|options| options.create);
    let mut count = 0;
    paths::visit(
        &mut inner,
        &path[length..],
        create.then_some(value),
        &mut |found| {
            count += 1;
            match found {
                Found::Node(node) => set(node, value, options),
                Found::InText => Ok(()),
            }
        },
    )?;
    if count == 0 {
        return Err(none());
    }
    scalar.text = write_text(&inner, &scalar.text).ok_or_else(none)?;
    Ok(count)
}

fn parse_text(text: &str) -> Option<Node> {
    node::first_document(text, &yaml::Limits::default())
}

/// The text with the value in it: JSON stays JSON, with or without indentation; anything else is YAML.
fn write_text(inner: &Node, old: &str) -> Option<String> {
    let value = node::to_value(inner).ok()?;
    if !old.trim_start().starts_with(['{', '[']) {
        return Some(node::to_text(inner).trim().to_owned());
    }
    let indented = old.contains('\n') && old.contains("  ");
    let json = if indented {
        serde_json::to_string_pretty(&value).ok()?
    } else {
        value.to_string()
    };
    Some(node::escape_as_go(&json))
}
