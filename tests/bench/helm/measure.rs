//! Measures the fastest of several runs, in seconds.

use crate::cases::Case;
use crate::shared::{self, RENDER_TIME};
use driftless_harness::library::Library;
use driftless_harness::tools;
use driftless_helm::{Compat, manifest_text};
use serde_json::json;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

/// Measures the engine's whole work: from files to the manifest.
pub fn engine(case: &Case) -> f64 {
    shared::repeat(|| {
        let rendered = case.input.render(Compat::Helm3);
        black_box(manifest_text(&rendered.expect("the chart renders"), true));
    })
}

/// Measures the real library.
pub fn library(real: &mut Library, case: &Case) -> f64 {
    let mut question = case.question.clone();
    question["seconds"] = json!(RENDER_TIME.as_secs_f64());
    real.ask(&question);
    let answer = real.answer();
    let time = answer["nanoseconds"].as_f64();
    time.unwrap_or_else(|| panic!("{}: {}", case.name, answer["got"])) / 1e9
}

/// Measures the real command line, and `driftless`.
pub fn process(arguments: &[String], driftless: &Path) -> (f64, f64) {
    let time = |program: &Path| {
        shared::process(|| {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        })
    };
    (time(&tools::HELM.path()), time(driftless))
}
