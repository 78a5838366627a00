//! The binaries under test, without debug information: the functions go through a deployment.

use driftless_harness::{command, process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The binaries of the functions that each stack has.
const FUNCTIONS: [&str; 4] = ["webhook", "reconcile", "drift", "capsule"];

/// Returns a directory with `webhook`, `reconcile`, `drift`, `capsule` and `driftless`.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let built = command::programs();
        let directory = built.join("under-test");
        std::fs::create_dir_all(&directory).expect("a directory for the binaries");
        for name in FUNCTIONS.into_iter().chain(["driftless"]) {
            strip(&built.join(name), &directory.join(name));
        }
        directory
    })
}

/// Returns the binary of a function that a stack has on request.
pub fn on_request(name: &str) -> PathBuf {
    let binary = directory().join(name);
    strip(&command::programs().join(name), &binary);
    binary
}

/// Copies a binary without its debug information.
fn strip(from: &Path, to: &Path) {
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg("-o").arg(to).arg(from);
    process::run(&mut strip);
}
