//! kustomize build, natively: a file tree and a path in, Kubernetes objects out.
//!
//! The output is that of `kustomize build` v5.8.2, byte for byte. The stages of a build:
//!
//! ```text
//! Loader      directories and files, through the tree's Reader: it records every question
//!   -> Kustomization    the file, read as strictly as kustomize does
//!   -> Accumulator      bases, resources, generators, components, transformers, validators
//!   -> finish           name hashes, name references, vars, order, clean-up
//! ```
//!
//! [`Build`] is the entry point.
//!
//! Plugins other than the built-in ones are refused with a reason, because they run programs.
//! Remote resources and bases are also refused, unless [`Options::remote`] allows them: then the
//! caller fetches them ([`ErrorKind::Needs`]). Charts of the tree are rendered by the caller
//! ([`Charts`]).
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod budget;
mod build;
mod charts;
mod config;
mod declare;
mod error;
mod fieldspec;
mod generate;
mod kustomization;
mod loader;
mod merge;
mod node;
mod options;
mod remote;
mod remote_entry;
mod resid;
mod resmap;
mod resource;
mod scan;
mod schema;
mod selector;
mod stack;
mod transform;

pub use charts::{ChartCall, ChartFault, Charts, ValuesFile};
pub use error::{Error, ErrorKind};
pub use loader::FILE_NAMES;
pub use options::{Limits, LoadRestrictor, Options, Reorder};
pub use remote::{REMOTE_DIRECTORY, Remote};
pub use selector::{ObjectSelector, SelectorBudget, SelectorError};
pub use stack::on_large_stack;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use driftless_manifest::{Object, Reader, TreePath, yaml};
use serde_json::Value;

/// One build of a directory, with its options.
///
/// # Examples
///
/// ```
/// use driftless_kustomize::{Build, to_yaml};
/// use driftless_manifest::{FileTree, Reader, TreePath};
///
/// let tree = FileTree::from_files([
///     ("app/kustomization.yaml", "namePrefix: blue-\nresources: [config.yaml]\n"),
///     ("app/config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n"),
/// ])?;
/// let objects = Build::new(&Reader::new(&tree), &TreePath::new("app")?).objects()?;
/// assert_eq!(objects[0].name(), "blue-app");
/// assert!(to_yaml(&objects).starts_with("apiVersion: v1\nkind: ConfigMap\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct Build<'a, 't> {
    reader: &'a Reader<'t>,
    dir: &'a TreePath,
    options: Option<&'a Options>,
    kustomization: Option<&'a Value>,
    charts: Option<&'a dyn Charts>,
}

impl<'a, 't> Build<'a, 't> {
    /// Creates the build of the directory `dir`, like `kustomize build` without flags.
    pub fn new(reader: &'a Reader<'t>, dir: &'a TreePath) -> Self {
        Self {
            reader,
            dir,
            options: None,
            kustomization: None,
            charts: None,
        }
    }

    /// Sets the options of the build.
    pub fn options(mut self, options: &'a Options) -> Self {
        self.options = Some(options);
        self
    }

    /// Sets fields that are used instead of the directory's kustomization file.
    pub fn kustomization(mut self, fields: &'a Value) -> Self {
        self.kustomization = Some(fields);
        self
    }

    /// Sets the engine for `helmCharts`, which [`Options::enable_helm`] allows.
    pub fn charts(mut self, engine: &'a dyn Charts) -> Self {
        self.charts = Some(engine);
        self
    }

    /// Returns the objects, in the order of the output.
    ///
    /// # Errors
    /// Errors of `kustomize build`, features that are refused on purpose, a document that is not a
    /// complete object, or a budget that is used up. The error names the file.
    pub fn objects(self) -> Result<Vec<Object>, Error> {
        objects(self.documents()?)
    }

    /// Returns the documents, without the check that each is a complete object: kustomize prints
    /// objects without an `apiVersion`, which no cluster accepts.
    ///
    /// # Errors
    /// Like [`objects`](Self::objects), without that check; and, with
    /// [`kustomization`](Self::kustomization), a directory with more than one kustomization file.
    pub fn documents(self) -> Result<Vec<Value>, Error> {
        let default = Options::default();
        let options = self.options.unwrap_or(&default);
        build::build(
            self.reader,
            self.dir,
            self.kustomization,
            options,
            self.charts,
        )
    }
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

/// Returns the kustomization of a directory as Flux sees it (fluxcd/pkg/kustomize v1.44.0): the
/// fields of its file, or, without a file, one that lists all YAML files below it.
///
/// A directory below that has a kustomization file is listed as a whole. Unknown fields of a file
/// are dropped, as in Flux. A file without `resources` gets `buildMetadata: [originAnnotations]`,
/// and a directory without manifests the namespace `_placeholder`, both so that the build is not
/// refused as empty.
///
/// # Errors
/// A file that is not YAML, or a manifest with a document that is not a Kubernetes object; more
/// work than the limits of one build.
pub fn kustomization_of(
    reader: &Reader<'_>,
    dir: &TreePath,
    limits: &Limits,
) -> Result<Value, Error> {
    on_large_stack(|| scan::kustomization_of(reader, dir, limits))
}

/// Returns whether `kustomize create --autodetect` lists a file with this content as a resource:
/// all of its documents are Kubernetes objects, or it has none.
pub fn is_resource_file(text: &str) -> bool {
    on_large_stack(|| scan::is_resource_file(text))
}

/// Returns whether an entry of `resources` names a repository on another host.
pub fn is_remote_base(entry: &str) -> bool {
    matches!(
        Remote::of_entry(entry, "resources"),
        Ok(Some(Remote::Repository { .. }))
    )
}

/// Returns the output of the command line: documents joined by `---`.
pub fn to_yaml(objects: &[Object]) -> String {
    joined(
        objects
            .iter()
            .map(|object| yaml::to_string(&object.to_value())),
    )
}

/// Like [`to_yaml`], for the documents of [`Build::documents`].
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
