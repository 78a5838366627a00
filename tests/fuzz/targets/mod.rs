//! What libFuzzer and the smoke test feed: bytes in, and no panic, no second and no 256 MiB.
//!
//! A target may also check what must hold of any input; it panics when that does not.

pub mod files;
pub mod kustomization;
pub mod strategic_merge;
pub mod yaml;

/// A target, by the name of its program.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Inputs to begin with, made of the corpora of `tests/corpus`, which is the path that is given.
    pub seeds: fn(&std::path::Path) -> Vec<Vec<u8>>,
}

/// All targets.
pub const ALL: [Target; 3] = [
    Target {
        name: "yaml",
        run: yaml::run,
        seeds: yaml::seeds,
    },
    Target {
        name: "kustomization",
        run: kustomization::run,
        seeds: kustomization::seeds,
    },
    Target {
        name: "strategic-merge",
        run: strategic_merge::run,
        seeds: strategic_merge::seeds,
    },
];
