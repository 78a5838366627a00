//! The targets of libFuzzer and of the smoke test: bytes in, without a panic, within a second and
//! 256 MiB.
//!
//! A target may also check a property of every input; it panics if the property does not hold.

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
    /// Returns the first inputs, made from the corpora in this directory (`tests/corpus`).
    pub seeds: fn(&std::path::Path) -> Vec<Vec<u8>>,
}

/// All targets of the directory `bin`.
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

/// The stack for the nesting that templates may have.
const STACK: usize = 256 << 20;

/// Runs `f` on a thread whose stack allows the nesting of templates; a panic is passed on to the
/// caller.
pub fn on_large_stack(f: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(f);
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}
