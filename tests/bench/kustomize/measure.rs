//! Measures the fastest of several runs, in seconds.

use crate::cases::Case;
use crate::common::{self, RENDER_TIME};
use driftless_harness::{library::Library, tools};
use driftless_kustomize::{Build, Error, documents_to_yaml};
use driftless_manifest::{FileTree, Reader, TreePath};
use serde_json::json;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

/// Renders with the engine's whole work: from files to the YAML of all documents.
pub fn render(tree: &FileTree, dir: &TreePath) -> Result<String, Error> {
    let documents = Build::new(&Reader::new(tree), dir).documents()?;
    Ok(documents_to_yaml(&documents))
}

/// Measures the engine.
pub fn engine(case: &Case) -> f64 {
    common::repeat(|| {
        black_box(case.render()).expect("the case renders");
    })
}

/// Measures the real library.
pub fn library(real: &mut Library, case: &Case) -> f64 {
    real.ask(&json!({"files": case.files, "dir": case.dir, "seconds": RENDER_TIME.as_secs_f64()}));
    let answer = real.answer();
    let time = answer
        .get("nanoseconds")
        .and_then(serde_json::Value::as_f64);
    time.unwrap_or_else(|| panic!("{}: {answer}", case.name)) / 1e9
}

/// Measures the real command line, and `driftless`.
pub fn process(case: &Case, driftless: &Path) -> (f64, f64) {
    let driftless = std::path::absolute(driftless).expect("the path of the binary");
    (run(case, &tools::KUSTOMIZE.path()), run(case, &driftless))
}

fn run(case: &Case, program: &Path) -> f64 {
    common::process(|| {
        let mut build = Command::new(program);
        build.arg("build").arg(&case.dir).current_dir(&case.root);
        build
    })
}
