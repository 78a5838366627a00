//! Strategic merge: objects and patches, without the rest of a kustomization.

use super::{files, kustomization};
use driftless_manifest::FileTree;
use std::path::Path;

/// Divides the objects from the patches.
const MARK: &[u8] = b"\n%%\n";
const KUSTOMIZATION: &str = "resources: [objects.yaml]\npatches: [{path: patches.yaml}]\n";

/// Applies what follows the mark to what stands before it.
pub fn run(data: &[u8]) {
    let at = data.windows(MARK.len()).position(|window| window == MARK);
    let (objects, patches) = at.map_or((data, data), |at| (&data[..=at], &data[at + MARK.len()..]));
    let mut tree = FileTree::new();
    files::add(&mut tree, "kustomization.yaml", KUSTOMIZATION.into());
    files::add(&mut tree, "objects.yaml", objects.to_vec());
    files::add(&mut tree, "patches.yaml", patches.to_vec());
    kustomization::build(&tree);
}

/// What the cases of the corpus have as resources, patched by what stands beside it in a file of patches, or by itself.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    let all = files::below(&corpus.join("kustomize"));
    let objects = all.iter().filter(|(path, _)| path.ends_with("/r.yaml"));
    objects
        .flat_map(|(path, objects)| {
            let directory = path.trim_end_matches("r.yaml");
            let beside = all.iter().filter(move |(other, _)| {
                other.starts_with(directory)
                    && other.ends_with(".yaml")
                    && !other.ends_with("kustomization.yaml")
            });
            beside.map(|(_, patches)| [objects, MARK, patches].concat())
        })
        .collect()
}
