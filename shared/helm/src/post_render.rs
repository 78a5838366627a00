//! The post-renderer, which sees rendered documents before they are split into hooks and manifests,
//! like in Helm 4.3.

use crate::compat::Compat;
use crate::error::HelmError;
use crate::manifests::{self, Manifest};
use driftless_fuel::{Fuel, FuelLimits, Tank};
use driftless_manifest::yaml::{self, Dialect, Limits};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// The documents that a post-renderer sees, and their grouping: Flux's `postRenderStrategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostRenderStrategy {
    /// Hooks and manifests together.
    #[default]
    Combined,
    /// Manifests only, as in Helm 3; hooks stay unchanged.
    NoHooks,
    /// Hooks, and then manifests, in separate calls.
    Separate,
}

/// A function over a release's documents, in the order of their templates.
///
/// Each document carries the annotation `postrenderer.helm.sh/postrender-filename`, which is
/// removed afterwards: it names the template whose position a returned document takes. A new
/// document without it gets a separate position.
#[derive(Clone, Copy)]
pub struct PostRenderer<'f> {
    /// The documents that it sees.
    pub strategy: PostRenderStrategy,
    /// The function; its error becomes the render's.
    pub run: &'f (dyn Fn(Vec<Json>) -> Result<Vec<Json>, PostRenderFault> + Sync),
}

/// The error of a post-renderer.
pub type PostRenderFault = Box<dyn std::error::Error + Send + Sync>;

const FILE: &str = "postrenderer.helm.sh/postrender-filename";

/// The rendered texts by template.
type Files = BTreeMap<String, Vec<u8>>;

/// Runs the post-renderer over rendered texts.
///
/// # Errors
/// Invalid YAML, or the post-renderer's error.
pub(crate) fn apply(
    files: Files,
    post: &PostRenderer<'_>,
    compat: Compat,
    step: &Tank,
) -> Result<Files, HelmError> {
    if post.strategy == PostRenderStrategy::Combined {
        return through(&files, None, post, compat, step);
    }
    let (manifests, hooks) = manifests::sort(&files, compat, step)?;
    let hooks = grouped(hooks.into_iter().map(|hook| hook.manifest));
    let mut out = match post.strategy {
        PostRenderStrategy::Separate => through(&hooks, Some("hooks"), post, compat, step)?,
        _ => hooks,
    };
    let manifests = grouped(manifests.into_iter());
    for (name, text) in through(&manifests, Some("manifests"), post, compat, step)? {
        append(&mut out, name, &text);
    }
    Ok(out)
}

fn grouped(documents: impl Iterator<Item = Manifest>) -> Files {
    let mut out = Files::new();
    for document in documents {
        append(&mut out, document.source, document.content.as_bytes());
    }
    out
}

fn append(files: &mut Files, name: String, text: &[u8]) {
    let file = files.entry(name).or_default();
    if !file.is_empty() {
        let break_before: &[u8] = if file.ends_with(b"\n") { b"" } else { b"\n" };
        file.extend_from_slice(break_before);
        file.extend_from_slice(b"---\n");
    }
    file.extend_from_slice(text);
}

/// The maximal values of all documents passed to a post-renderer, including copies for aliases.
const MAX_NODES: usize = 1_000_000;

/// Passes the documents of all files through the function, and back into files.
fn through(
    files: &Files,
    group: Option<&str>,
    post: &PostRenderer<'_>,
    compat: Compat,
    step: &Tank,
) -> Result<Files, HelmError> {
    if files.is_empty() {
        return Ok(Files::new());
    }
    let mut documents = Vec::new();
    let fuel = step.part(FuelLimits {
        nodes: MAX_NODES,
        ..manifests::RENDERED
    });
    for (name, text) in files {
        for text in manifests::split(&String::from_utf8_lossy(text), compat) {
            read(name, &text, &fuel, &mut documents)?;
        }
    }
    let count = documents.len();
    let changed = (post.run)(documents).map_err(|error| {
        let subject = group.map(|g| format!(" on {g}")).unwrap_or_default();
        HelmError::render(format!(
            "post-render{subject} of {count} documents: {error}"
        ))
    })?;
    let mut out = Files::new();
    for (i, mut document) in changed.into_iter().enumerate() {
        let name = take_origin(&mut document).unwrap_or_else(|| match group {
            Some(group) => format!("generated-by-postrender-{group}-{i}.yaml"),
            None => format!("generated-by-postrender-{i}.yaml"),
        });
        append(&mut out, name, yaml::to_string(&document).as_bytes());
    }
    Ok(out)
}

/// Reads the documents of a template like kustomize, and annotates each with its origin.
fn read(name: &str, text: &str, fuel: &Fuel, out: &mut Vec<Json>) -> Result<(), HelmError> {
    let fail = |message: String| HelmError::Manifest {
        file: name.to_owned(),
        message,
        span: None,
    };
    let nodes = yaml::parse_within(text.as_bytes(), name, &Limits::default(), fuel)
        .map_err(|e| fail(format!("line {}: {}", e.span.line, e.kind)))?;
    for node in &nodes {
        let document = yaml::node_to_value(node, name, Dialect::V3)
            .map_err(|e| fail(format!("line {}: {}", e.span.line, e.kind)))?;
        match document {
            Json::Null => {}
            Json::Object(mut map) => {
                let annotations = table(&mut map, "metadata")
                    .and_then(|metadata| table(metadata, "annotations"))
                    .ok_or_else(|| fail("metadata.annotations must be a mapping".to_owned()))?;
                annotations.insert(FILE.to_owned(), name.into());
                out.push(Json::Object(map));
            }
            _ => return Err(fail("a document must be a mapping".to_owned())),
        }
    }
    Ok(())
}

/// Returns the table under a key, created if it is missing.
fn table<'m>(map: &'m mut Map<String, Json>, key: &str) -> Option<&'m mut Map<String, Json>> {
    let value = map.entry(key).or_insert(Json::Null);
    if value.is_null() {
        *value = Json::Object(Map::new());
    }
    value.as_object_mut()
}

/// Removes the annotation and returns the template that it named.
fn take_origin(document: &mut Json) -> Option<String> {
    let metadata = document.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let name = annotations.remove(FILE)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    match name {
        Json::String(name) if !name.is_empty() => Some(name),
        _ => None,
    }
}
