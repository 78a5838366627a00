//! The binaries under test, built as this test was: same profile, same target folder.

use driftless_tests::{process, tools};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A folder with `webhook`, `reconcile`, `drift` and `driftless`, without debug information: the functions go through a
/// deployment.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let names = ["webhook", "reconcile", "drift", "driftless"];
        // The folder of this test's own binary, TARGET/PROFILE/deps, tells where the others go.
        let own = std::env::current_exe().expect("the test's own path");
        let target = own.ancestors().nth(2).expect("TARGET/PROFILE").to_owned();
        eprintln!("building {}", names.join(", "));
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(tools::workspace())
            .args(["build", "--quiet", "--workspace", "--bins"]);
        if target.file_name().is_some_and(|name| name == "release") {
            cargo.arg("--release");
        }
        if let Some(folder) = target.parent() {
            cargo.arg("--target-dir").arg(folder);
        }
        process::run(&mut cargo);
        let folder = target.join("under-test");
        std::fs::create_dir_all(&folder).expect("a folder for the binaries");
        for name in names {
            let mut strip = Command::new("strip");
            strip
                .arg("--strip-debug")
                .arg("-o")
                .arg(folder.join(name))
                .arg(target.join(name));
            process::run(&mut strip);
        }
        folder
    })
}
