//! A whole build: the kustomization, its files, bases, everything that a tenant can write.

use super::files;
use driftless_kustomize::{Build, documents_to_yaml};
use driftless_manifest::yaml::{self, Dialect, Limits};
use driftless_manifest::{FileTree, Reader, TreePath};
use std::path::Path;

/// Builds the files at `overlay`, or at the root without an overlay.
pub fn run(data: &[u8]) {
    build(&files::tree(data));
}

/// Builds; the output must be valid YAML.
pub fn build(tree: &FileTree) {
    let overlay = TreePath::new("overlay").expect("a path");
    let dir = if tree.index().is_dir(&overlay) {
        overlay
    } else {
        TreePath::root()
    };
    let Ok(documents) = Build::new(&Reader::new(tree), &dir).documents() else {
        return;
    };
    let text = documents_to_yaml(&documents);
    let limits = Limits {
        bytes: usize::MAX,
        nodes: usize::MAX,
        ..Limits::default()
    };
    let again = yaml::documents(text.as_bytes(), "output", Dialect::V2, &limits)
        .unwrap_or_else(|error| panic!("the output is not valid YAML: {error}"));
    assert_eq!(again, documents, "the output, read again");
}

/// Returns every case of the corpus.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    let cases = std::fs::read_dir(corpus.join("kustomize")).expect("list the cases");
    let mut inputs: Vec<_> = cases
        .map(|case| case.expect("a case").path().join("in"))
        .filter(|case| case.is_dir())
        .map(|case| files::input(&files::below(&case)))
        .collect();
    inputs.sort();
    inputs
}
