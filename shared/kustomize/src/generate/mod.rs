//! `configMapGenerator`, `secretGenerator` and `helmCharts`, and the hash at the end of generated
//! names.

mod charts;
mod hash;
mod pairs;

pub(crate) use charts::chart;
pub(crate) use hash::add_hashes;

use crate::error::{Error, ErrorKind};
use crate::kustomization::{Generator, GeneratorOptions, Texts};
use crate::loader::Loader;
use crate::node::{Map, Node, Scalar, Style, Tag};
use crate::resmap::encode_base64;
use crate::resource::{Behavior, Resource, text_map};
use driftless_fuel::MAP_NODES;
use std::collections::BTreeMap;

/// Generates the ConfigMap that an entry describes.
///
/// # Errors
/// A missing name, a source that cannot be read, a duplicate key.
pub(crate) fn config_map(
    args: &Generator,
    globals: Option<&GeneratorOptions>,
    loader: &Loader<'_>,
) -> Result<Resource, Error> {
    let mut fields = base("ConfigMap", args)?;
    let (mut data, mut binary) = (BTreeMap::new(), BTreeMap::new());
    let pairs = pairs::load(args, loader)?;
    spend(&pairs, loader)?;
    for (key, bytes) in pairs {
        match String::from_utf8(bytes) {
            Ok(text) => data.insert(key, text),
            Err(error) => binary.insert(key, encode_base64(error.as_bytes())),
        };
    }
    for (field, values) in [("data", data), ("binaryData", binary)] {
        if !values.is_empty() {
            fields.insert(field, text_map(values));
        }
    }
    Ok(finish(fields, args, globals))
}

/// Generates the Secret that an entry describes.
///
/// # Errors
/// Like [`config_map`].
pub(crate) fn secret(
    args: &Generator,
    globals: Option<&GeneratorOptions>,
    loader: &Loader<'_>,
) -> Result<Resource, Error> {
    let mut fields = base("Secret", args)?;
    let kind = if args.secret_type.is_empty() {
        "Opaque"
    } else {
        &args.secret_type
    };
    fields.insert("type", Node::str(kind));
    let pairs = pairs::load(args, loader)?;
    spend(&pairs, loader)?;
    let data = pairs
        .into_iter()
        .map(|(key, bytes)| (key, encode_base64(&bytes)))
        .collect();
    fields.insert("data", text_map(data));
    Ok(finish(fields, args, globals))
}

/// Counts the data of an object that is about to be created; in base64 it is a third longer.
fn spend(pairs: &BTreeMap<String, Vec<u8>>, loader: &Loader<'_>) -> Result<(), Error> {
    let budget = &loader.context.budget;
    budget.spend_nodes(2 * (1 + MAP_NODES))?;
    pairs
        .iter()
        .try_for_each(|(key, bytes)| budget.spend_text(key.len() + bytes.len() + bytes.len() / 2))
}

fn base(kind: &str, args: &Generator) -> Result<Map, Error> {
    if args.name.is_empty() {
        let reason = "the field name is missing".to_owned();
        return Err(ErrorKind::Generator {
            name: kind.to_owned(),
            reason,
        }
        .into());
    }
    let mut meta = Map::default();
    meta.insert("name", Node::str(args.name.clone()));
    if !args.namespace.is_empty() {
        meta.insert("namespace", Node::str(args.namespace.clone()));
    }
    let mut fields = Map::default();
    fields.insert("apiVersion", Node::str("v1"));
    fields.insert("kind", Node::str(kind));
    fields.insert("metadata", Node::Map(meta));
    Ok(fields)
}

fn finish(fields: Map, args: &Generator, globals: Option<&GeneratorOptions>) -> Resource {
    let options = merge_options(args.options.as_ref(), globals);
    let mut resource = Resource::new(Node::Map(fields));
    for (field, texts) in [
        ("labels", options.labels),
        ("annotations", options.annotations),
    ] {
        if let (false, Some(meta)) = (texts.is_empty(), resource.meta_mut()) {
            meta.insert(field, text_map(texts));
        }
    }
    if let (true, Node::Map(map)) = (options.immutable, &mut resource.node) {
        map.insert(
            "immutable",
            Node::Scalar(Scalar::new(Tag::Bool, "true", Style::Plain)),
        );
    }
    resource.generated = true;
    resource.needs_hash = !options.disable_name_suffix_hash;
    resource.behavior = Behavior::new(&args.behavior);
    resource
}

/// Returns the entry's options, completed by `generatorOptions`: strings that are not set, and
/// switches that are on.
fn merge_options(
    own: Option<&GeneratorOptions>,
    globals: Option<&GeneratorOptions>,
) -> GeneratorOptions {
    let mut options = own.cloned().unwrap_or_default();
    let Some(globals) = globals else {
        return options;
    };
    let add = |mine: &mut Texts, more: &Texts| {
        for (key, value) in more {
            mine.entry(key.clone()).or_insert_with(|| value.clone());
        }
    };
    add(&mut options.labels, &globals.labels);
    add(&mut options.annotations, &globals.annotations);
    options.disable_name_suffix_hash |= globals.disable_name_suffix_hash;
    options.immutable |= globals.immutable;
    options
}
