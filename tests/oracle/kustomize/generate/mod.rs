//! Random but mostly valid kustomizations: layers of bases, overlays and components over objects
//! that refer to each other.

mod layers;
mod objects;
mod patches;
mod yaml;

use driftless_harness::random::Random;
use std::collections::BTreeMap;
pub use yaml::Yaml;

/// A file of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    Documents(Vec<Yaml>),
    Text(String),
}

impl File {
    /// Returns the content of the file.
    pub fn text(&self) -> String {
        match self {
            File::Text(text) => text.clone(),
            File::Documents(documents) => {
                let documents: Vec<String> = documents.iter().map(Yaml::document).collect();
                documents.join("---\n")
            }
        }
    }
}

/// A directory to build, with all files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub files: BTreeMap<String, File>,
    pub dir: String,
}

/// Returns the case of a seed.
pub fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let mut layers = layers::Layers::new(&mut random);
    let dir = layers.tree();
    Case {
        files: layers.into_files(),
        dir,
    }
}
