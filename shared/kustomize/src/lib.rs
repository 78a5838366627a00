//! kustomize build, natively: a file tree and a path in, Kubernetes objects out.
//!
//! The output is that of `kustomize build` v5.8.2, byte for byte. The way of a build:
//!
//! ```text
//! Loader      folders and files, through the tree's Reader: every question is recorded, nothing leaves the tree
//!   -> Kustomization    the file, read as strictly as kustomize does
//!   -> Accumulator      resources, then generators, components, transformers, validators; bases first
//!   -> finish           name hashes, name references, vars, order, clean-up
//! ```
//!
//! What runs something is refused with a reason: plugins other than the built-in ones. Remote resources and bases are
//! refused, too, unless [`Options::remote`] allows them: then whoever builds fetches them ([`ErrorKind::Needs`]). Charts of
//! the tree are rendered by whoever builds ([`Charts`]).

mod budget;
mod build;
mod charts;
mod config;
mod error;
mod fieldspec;
mod generate;
mod kustomization;
mod labels;
mod loader;
mod merge;
mod node;
mod options;
mod remote;
mod resid;
mod resmap;
mod resource;
mod scan;
mod schema;
mod selector;
mod stack;
mod transform;

pub use charts::{ChartCall, Charts, ValuesFile};
pub use error::{Error, ErrorKind};
pub use options::{Limits, LoadRestrictor, Options, Reorder};
pub use remote::{REMOTE_FOLDER, Remote};
pub use selector::{ObjectSelector, SelectorBudget};
pub use stack::on_large_stack;

use driftless_manifest::{Object, Reader, TreePath, yaml};
use serde_json::Value;

/// Renders the kustomization in `dir`.
///
/// # Errors
/// Whatever `kustomize build` fails on, what is refused on purpose, or a budget that is used up. The error names the file.
pub fn build(reader: &Reader<'_>, dir: &TreePath, options: &Options) -> Result<Vec<Object>, Error> {
    objects(build::build(reader, dir, None, options, None)?)
}

/// Renders `dir` as [`build`] does, without the check that each document is a whole object: kustomize prints objects
/// without an `apiVersion`, which no cluster takes.
///
/// # Errors
/// As [`build`].
pub fn build_documents(
    reader: &Reader<'_>,
    dir: &TreePath,
    options: &Options,
) -> Result<Vec<Value>, Error> {
    build::build(reader, dir, None, options, None)
}

/// Renders `dir` as [`build_documents`] does, with an engine for `helmCharts`, which [`Options::enable_helm`] allows.
///
/// # Errors
/// As [`build`].
pub fn build_documents_with_charts(
    reader: &Reader<'_>,
    dir: &TreePath,
    options: &Options,
    charts: &dyn Charts,
) -> Result<Vec<Value>, Error> {
    build::build(reader, dir, None, options, Some(charts))
}

/// Renders `dir` with `kustomization` in the place of its kustomization file: the fields that would stand there.
///
/// # Errors
/// As [`build`]; and a folder with more than one kustomization file.
pub fn build_with(
    reader: &Reader<'_>,
    dir: &TreePath,
    kustomization: &Value,
    options: &Options,
) -> Result<Vec<Object>, Error> {
    objects(build::build(
        reader,
        dir,
        Some(kustomization),
        options,
        None,
    )?)
}

fn objects(documents: Vec<Value>) -> Result<Vec<Object>, Error> {
    let object = |document: Value| {
        let text = |field: &str| {
            document
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or("?")
                .to_owned()
        };
        let name = document
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or("?")
            .to_owned();
        let shown = format!("{} {name}", text("kind"));
        Object::new(document).map_err(|error| ErrorKind::Object(format!("{shown}: {error}")).into())
    };
    documents.into_iter().map(object).collect()
}

/// The kustomization of a folder as Flux sees it (fluxcd/pkg/kustomize v1.44.0): the fields of its file, or, when there is
/// none, one that lists all YAML files below it.
///
/// A folder below that has a kustomization file of its own is listed as a whole. Unknown fields of a file are dropped, as
/// Flux drops them. A file without `resources` gets `buildMetadata: [originAnnotations]`, and a folder without manifests
/// the namespace `_placeholder`, both so that the build is not refused as empty.
///
/// # Errors
/// A file that is no YAML, or a manifest that holds something that is no Kubernetes object.
pub fn kustomization_of(reader: &Reader<'_>, dir: &TreePath) -> Result<Value, Error> {
    on_large_stack(|| scan::kustomization_of(reader, dir))
}

/// The output of the command line: documents joined by `---`.
pub fn to_yaml(objects: &[Object]) -> String {
    joined(
        objects
            .iter()
            .map(|object| yaml::to_string(&object.to_value())),
    )
}

/// As [`to_yaml`], of the documents of [`build_documents`].
pub fn documents_to_yaml(documents: &[Value]) -> String {
    joined(documents.iter().map(yaml::to_string))
}

fn joined(documents: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for (at, document) in documents.enumerate() {
        if at > 0 {
            text.push_str("---\n");
        }
        text.push_str(&document);
    }
    text
}
