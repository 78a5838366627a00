//! The steps at the end of a build: hashes, name references, vars, order, clean-up.

use super::{Accumulator, Target};
use crate::error::{Error, ErrorKind};
use crate::node;
use crate::options::Reorder;
use crate::resource::{ORIGIN, Resource, TRANSFORMATIONS};
use crate::transform::{self, Transformer};
use driftless_fuel::MAP_NODES;
use serde_json::Value;
use std::collections::HashSet;

/// The label and value that kustomize sets for `managedByLabel`.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kustomize-v5.8.2");
const LOCAL: &str = "config.kubernetes.io/local-config";

/// Runs the final steps of a build: hashes, references, vars, order, clean-up.
pub(crate) fn finish(mut all: Accumulator, top: &Target<'_>) -> Result<Vec<Value>, Error> {
    let context = top.loader.context;
    let budget = &context.budget;
    Transformer::Hash.apply(&mut all.map, context)?;
    transform::fix_references(&mut all.map, &all.config.name_reference, context)?;
    transform::resolve_vars(&mut all.map, &all.vars, &all.config.var_reference, context)?;
    drop_local(&mut all, &context.schema.borrow())?;
    let order = match (&top.kustomization.sort_options, context.options.reorder) {
        (Some(options), _) => Some(transform::Order::of_options(options)?),
        (None, Reorder::None) => None,
        (None, Reorder::Legacy | Reorder::Unspecified) => Some(transform::Order::legacy()),
    };
    if let Some(order) = order {
        order.sort(&mut all.map);
    }
    if context.options.managed_by_label || top.kustomization.has_build_metadata("managedByLabel") {
        let labels = 1 + MAP_NODES;
        budget.spend_nodes(labels * all.map.list().len())?;
        all.map.list_mut().iter_mut().try_for_each(add_managed_by)?;
    }
    let keep = (
        top.kustomization.has_build_metadata("originAnnotations"),
        top.kustomization
            .has_build_metadata("transformerAnnotations"),
    );
    let mut output = 0;
    let printed = |resource| {
        let document = document(resource, keep)?;
        budget.check_levels(0, &document)?;
        output += written_length(&document, 0);
        budget.check_output(output)?;
        Ok(document)
    };
    all.map.into_list().into_iter().map(printed).collect()
}

/// Returns the approximate bytes of a value in YAML, with the indentation of each of its lines.
fn written_length(value: &Value, level: usize) -> usize {
    const INDENT: usize = 2;
    let line = INDENT * level + 2;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => line,
        Value::String(text) => {
            let lines = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
            text.len() + lines.saturating_mul(line)
        }
        Value::Array(items) => {
            let inner = items.iter().map(|item| written_length(item, level + 1));
            line + inner.sum::<usize>()
        }
        Value::Object(map) => {
            let field =
                |(key, value): (&String, &Value)| key.len() + written_length(value, level + 1);
            line + map.iter().map(field).sum::<usize>()
        }
    }
}

/// Drops objects that are only for local use.
fn drop_local(all: &mut Accumulator, schema: &crate::schema::Schema) -> Result<(), Error> {
    let named =
        |resource: &Resource| !resource.name().is_empty() || resource.kind().ends_with("List");
    if let Some(broken) = all
        .map
        .list()
        .iter()
        .find(|resource| resource.kind().is_empty() || !named(resource))
    {
        return Err(ErrorKind::Object(format!(
            "{} no longer has a kind or a name",
            broken.id(schema)
        ))
        .into());
    }
    let local = |resource: &Resource| {
        resource
            .annotation(LOCAL)
            .is_some_and(|value| value != "false")
    };
    if all.map.list().iter().any(local) {
        // kustomize drops by id: it does not distinguish a local object from another one with its
        // id, and does not accept both.
        let id = |resource: &Resource| {
            let parts = [
                resource.api_version(),
                resource.kind(),
                resource.name(),
                resource.namespace(),
            ];
            parts.map(str::to_owned)
        };
        let others: HashSet<_> = all
            .map
            .list()
            .iter()
            .filter(|resource| !local(resource))
            .map(id)
            .collect();
        let kept = |resource: &Resource| !local(resource) || others.contains(&id(resource));
        let mut dropped = HashSet::new();
        let twin = all
            .map
            .list()
            .iter()
            .find(|resource| !kept(resource) && !dropped.insert(id(resource)));
        if let Some(twin) = twin {
            return Err(ErrorKind::Duplicate(twin.id(schema).to_string()).into());
        }
        all.map.list_mut().retain(kept);
    }
    all.map.check_ids(schema)
}

fn add_managed_by(resource: &mut Resource) -> Result<(), Error> {
    let (key, value) = MANAGED_BY;
    match resource.meta_mut().and_then(|meta| meta.map_at("labels")) {
        Some(labels) => labels.set(key, node::Node::str(value)),
        None => {
            let shown = format!("{} {}", resource.kind(), resource.name());
            return Err(ErrorKind::Object(format!("{shown}: its labels are not a map")).into());
        }
    }
    Ok(())
}

/// Returns the object in its printed form: annotations as strings, without those that were not
/// requested.
fn document(
    mut resource: Resource,
    (origins, transformations): (bool, bool),
) -> Result<Value, Error> {
    let mut annotations = resource.texts("annotations");
    annotations.retain(|key, _| {
        !((key == ORIGIN && !origins)
            || (key == TRANSFORMATIONS && !transformations)
            || is_internal(key))
    });
    resource.set_texts("annotations", annotations);
    node::into_value(resource.node)
}

/// Checks whether kustomize uses an annotation only internally and removes it from its output.
fn is_internal(key: &str) -> bool {
    const INTERNAL_ANNOTATIONS: [&str; 16] = [
        "previousKinds",
        "previousNames",
        "prefixes",
        "suffixes",
        "previousNamespaces",
        "allowNameChange",
        "allowKindChange",
        "refBy",
        "generatorBehavior",
        "needsHashSuffix",
        "path",
        "index",
        "helm-generated",
        "seqindent",
        "id",
        "annotations-migration-resource-id",
    ];
    const LEGACY: [&str; 3] = [
        "config.kubernetes.io/path",
        "config.kubernetes.io/index",
        "config.k8s.io/id",
    ];
    match key.strip_prefix("internal.config.kubernetes.io/") {
        Some(name) => INTERNAL_ANNOTATIONS.contains(&name),
        None => LEGACY.contains(&key),
    }
}
