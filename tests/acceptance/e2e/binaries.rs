//! The binaries under test, without debug information: the functions go through a deployment.

use driftless_harness::{command, process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A folder with `webhook`, `reconcile`, `drift`, `capsule` and `driftless`.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let built = command::programs();
        let folder = built.join("under-test");
        std::fs::create_dir_all(&folder).expect("a folder for the binaries");
        for name in ["webhook", "reconcile", "drift", "capsule", "driftless"] {
            let mut strip = Command::new("strip");
            strip
                .arg("--strip-debug")
                .arg("-o")
                .arg(folder.join(name))
                .arg(built.join(name));
            process::run(&mut strip);
        }
        folder
    })
}
