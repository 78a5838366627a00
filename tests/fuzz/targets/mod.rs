//! What libFuzzer and the smoke test feed: bytes in, and no panic, no second and no 256 MiB.
//!
//! A target may also check what must hold of any input; it panics when that does not.

pub mod archive;
pub mod chart;
pub mod files;
pub mod functions;
pub mod kustomization;
pub mod strategic_merge;
pub mod template;
pub mod values;
pub mod yaml;

/// A target, by the name of its program.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Inputs to begin with, made of the corpora of `tests/corpus`, which is the path that is given.
    pub seeds: fn(&std::path::Path) -> Vec<Vec<u8>>,
}

/// All targets.
pub const ALL: [Target; 8] = [
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
    Target {
        name: "template",
        run: template::run,
        seeds: template::seeds,
    },
    Target {
        name: "chart",
        run: chart::run,
        seeds: chart::seeds,
    },
    Target {
        name: "archive",
        run: archive::run,
        seeds: archive::seeds,
    },
    Target {
        name: "values",
        run: values::run,
        seeds: values::seeds,
    },
    Target {
        name: "functions",
        run: functions::run,
        seeds: functions::seeds,
    },
];

/// The stack for what templates may nest.
const STACK: usize = 256 << 20;

/// Runs `f` on a thread whose stack holds what templates may nest; its panic is that of the caller.
pub fn on_large_stack(f: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(f);
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}
