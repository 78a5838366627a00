//! Strategic merge: objects and patches, without the rest of a kustomization.

use super::{files, kustomization};
use driftless_manifest::FileTree;
use std::path::Path;

/// The separator of objects and patches.
const MARK: &[u8] = b"\n%%\n";
const KUSTOMIZATION: &str = "resources: [objects.yaml]\npatches: [{path: patches.yaml}]\n";

/// Applies the patches after the mark to the objects before it.
pub fn run(data: &[u8]) {
    let at = data.windows(MARK.len()).position(|window| window == MARK);
    let (objects, patches) = at.map_or((data, data), |at| (&data[..=at], &data[at + MARK.len()..]));
    let mut tree = FileTree::new();
    files::add(&mut tree, "kustomization.yaml", KUSTOMIZATION.into());
    files::add(&mut tree, "objects.yaml", objects.to_vec());
    files::add(&mut tree, "patches.yaml", patches.to_vec());
    kustomization::build(&tree);
}

/// Returns the resources of the corpus's cases, each with another file of its directory, or itself,
/// as the patch.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    let all = files::below(&corpus.join("kustomize"));
    let objects = all.iter().filter(|(path, _)| path.ends_with("/r.yaml"));
    objects
        .flat_map(|(path, objects)| {
            let directory = path.trim_end_matches("r.yaml");
            let others = all.iter().filter(move |(other, _)| {
                other.starts_with(directory)
                    && other.ends_with(".yaml")
                    && !other.ends_with("kustomization.yaml")
            });
            others.map(|(_, patch)| [objects, MARK, patch].concat())
        })
        .collect()
}
