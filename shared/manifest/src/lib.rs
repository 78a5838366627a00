//! Files and objects, in the form that every engine of driftless uses.
//!
//! - [`FileTree`]: the files of one revision, in memory. A [`Reader`] is one build's view of it: it
//!   follows links that stay inside, refuses other links, and records every read in a [`ReadSet`].
//! - [`yaml`]: YAML, read and written compatibly with Go's `sigs.k8s.io/yaml` and kyaml.
//! - [`value_nodes`] and [`check_depth`]: what a JSON value costs of the
//!   [`Fuel`](driftless_fuel::Fuel) of its caller.
//! - [`Object`], [`ObjectId`]: a Kubernetes object as JSON, and its identity; [`names`] and
//!   [`labels`]: Kubernetes' rules for names, and label selectors; [`JsonPatch`], and
//!   [`pointer`](mod@pointer): the keys in its paths.
//!
//! Nothing here touches a disk, a clock or a network.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod git_tree;
mod json_patch;
pub mod labels;
pub mod names;
mod object;
mod path;
pub mod pointer;
mod reader;
mod tree;
mod value_cost;
pub mod yaml;

pub use git_tree::git_tree_id;
pub use json_patch::{JsonPatch, JsonPatchError, JsonPatchOperation};
pub use object::{Gvk, InvalidObject, Object, ObjectId};
pub use path::{PathError, TreePath};
pub use reader::{Fingerprint, Kind, ReadError, ReadFilter, ReadSet, Reader};
pub use tree::{BlobId, Entry, EntryKind, FileTree, TreeError, TreeIndex, git_object_id};
pub use value_cost::{check_depth, value_nodes};

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
