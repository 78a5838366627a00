//! The binaries under test, without debug information: the functions go through a deployment.

use driftless_harness::{command, process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A directory with `webhook`, `reconcile`, `drift`, `capsule` and `driftless`.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let built = command::programs();
        let directory = built.join("under-test");
        std::fs::create_dir_all(&directory).expect("a directory for the binaries");
        for name in ["webhook", "reconcile", "drift", "capsule", "driftless"] {
            let mut strip = Command::new("strip");
            strip
                .arg("--strip-debug")
                .arg("-o")
                .arg(directory.join(name))
                .arg(built.join(name));
            process::run(&mut strip);
        }
        directory
    })
}
