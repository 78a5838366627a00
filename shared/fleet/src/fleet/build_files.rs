//! The files that a build reads, according to its kustomizations.

use super::files::Files;
use driftless_kustomize::FILE_NAMES;
use driftless_manifest::yaml::{Node, NodeKind};
use driftless_manifest::{TreeIndex, TreePath};
use std::collections::BTreeSet;

/// The fields of a kustomization that name files or directories: a list of paths, or of entries
/// with a `path`.
const FIELDS: [&str; 8] = [
    "resources",
    "bases",
    "components",
    "generators",
    "transformers",
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
];

/// The start of a build.
pub struct Build {
    /// The directory of the build.
    pub directory: TreePath,
    /// Components of the Flux object, relative to the directory.
    pub components: Vec<String>,
}

impl Build {
    /// Creates the build of a directory, or of the whole tree if the path is not valid.
    pub fn of(directory: &str) -> Self {
        Self {
            directory: TreePath::secure_join(directory).unwrap_or_else(|_| TreePath::root()),
            components: Vec::new(),
        }
    }
}

/// Returns the files that a build reads.
pub fn files(files: &Files, index: &TreeIndex, build: &Build) -> BTreeSet<TreePath> {
    let added = build.components.iter();
    let mut open: Vec<TreePath> = added
        .filter_map(|path| build.directory.join(path).ok())
        .collect();
    open.push(build.directory.clone());
    let mut read = BTreeSet::new();
    let mut directories = BTreeSet::new();
    while let Some(path) = open.pop() {
        if index.get(&path).is_some() {
            read.insert(path);
        } else if directories.insert(path.clone()) {
            let own = FILE_NAMES.iter().filter_map(|name| path.join(name).ok());
            let own: Vec<_> = own.filter(|file| index.get(file).is_some()).collect();
            if own.is_empty() {
                // Without a kustomization.yaml Flux includes every manifest below.
                let all = index.below(&path).map(|(file, _)| file);
                read.extend(all.filter(|file| is_manifest(file)).cloned());
            }
            for file in own {
                for document in files.documents(&file).iter() {
                    open.extend(entries(document).filter_map(|entry| path.join(entry).ok()));
                }
                read.insert(file);
            }
        }
    }
    read
}

/// Returns the files and directories that a kustomization includes.
pub fn entries(document: &Node) -> impl Iterator<Item = &str> {
    let lists = FIELDS.iter().filter_map(|field| document.get(field));
    let entries = lists.flat_map(|list| match &list.kind {
        NodeKind::Seq(entries) => entries.as_slice(),
        _ => &[],
    });
    entries.filter_map(|entry| entry.text().or_else(|| entry.get("path")?.text()))
}

/// Checks whether a file may contain objects.
pub fn is_manifest(path: &TreePath) -> bool {
    [".yaml", ".yml", ".json"]
        .iter()
        .any(|end| path.as_str().ends_with(end))
}
