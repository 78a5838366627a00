//! The fastest of several runs, in seconds.

use crate::cases::Case;
use crate::library::Library;
use driftless_kustomize::{Error, Options, build_documents, documents_to_yaml};
use driftless_manifest::{FileTree, Reader, TreePath};
use driftless_tests::tools;
use serde_json::json;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long one case is built again and again in-process.
const SPELL: Duration = Duration::from_millis(30);
/// Runs of a process.
const RUNS: usize = 3;

/// The engine's whole work: from files to the text of all documents.
pub fn render(tree: &FileTree, dir: &TreePath) -> Result<String, Error> {
    let documents = build_documents(&Reader::new(tree), dir, &Options::default())?;
    Ok(documents_to_yaml(&documents))
}

/// The engine.
pub fn engine(case: &Case) -> f64 {
    let until = Instant::now() + SPELL;
    fastest(3, || {
        black_box(case.render()).expect("the case renders");
        Instant::now() < until
    })
}

/// The real library.
pub fn library(real: &mut Library, case: &Case) -> f64 {
    real.ask(&json!({"files": case.files, "dir": case.dir, "seconds": SPELL.as_secs_f64()}));
    let answer = real
        .answer()
        .unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let time = answer
        .get("nanoseconds")
        .and_then(serde_json::Value::as_f64);
    time.expect("the library's time") / 1e9
}

/// The real command line, and `driftless`.
pub fn process(case: &Case, driftless: &Path) -> (f64, f64) {
    let driftless = std::path::absolute(driftless).expect("the path of the binary");
    (run(case, &tools::KUSTOMIZE.path()), run(case, &driftless))
}

fn run(case: &Case, program: &Path) -> f64 {
    let mut left = RUNS;
    fastest(1, || {
        let mut build = Command::new(program);
        build.arg("build").arg(&case.dir).current_dir(&case.root);
        let done = build
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "{} builds {}",
            program.display(),
            case.name
        );
        left -= 1;
        left > 0
    })
}

/// Runs until `work` says that it is enough, at least so many times.
fn fastest(least: usize, mut work: impl FnMut() -> bool) -> f64 {
    let mut best = f64::INFINITY;
    let mut runs = 0;
    loop {
        let start = Instant::now();
        let more = work();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
        if !more && runs >= least {
            return best;
        }
    }
}
