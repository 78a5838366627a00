//! The workflows and scripts pass actionlint and shellcheck.

use driftless_harness::process;
use driftless_harness::tools::{self, ACTIONLINT, SHELLCHECK};
use std::process::Command;

#[test]
fn workflows_pass_the_linter() {
    let workflows = [
        ".github/workflows/ci.yml",
        ".github/workflows/nightly.yml",
        ".github/workflows/release.yml",
    ];
    process::run(
        Command::new(ACTIONLINT.path())
            .current_dir(tools::workspace())
            .arg("-shellcheck")
            .arg(SHELLCHECK.path())
            .arg("-pyflakes=")
            .args(workflows),
    );
}

#[test]
fn scripts_pass_the_linter() {
    process::run(
        Command::new(SHELLCHECK.path())
            .current_dir(tools::workspace())
            .args(["infra/release", ".ci/run", ".ci/helm4"]),
    );
}

/// Without it, a linter that reads nothing would pass too.
#[test]
fn the_linter_reports_a_wrong_workflow() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("wrong.yml");
    let text = "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo ${{ github.no_such }} $unquoted\n";
    std::fs::write(&file, text).expect("write a workflow");
    let output = Command::new(ACTIONLINT.path())
        .arg("-shellcheck")
        .arg(SHELLCHECK.path())
        .arg(&file)
        .output()
        .expect("run actionlint");
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{found}");
    for rule in ["no_such", "SC2086"] {
        assert!(found.contains(rule), "{rule} is not in {found}");
    }
}
