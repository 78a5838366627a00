//! Compares help pages and the output of commands with snapshots.
//! `UPDATE_SNAPSHOTS=1 cargo test -p driftless` rewrites them.

use driftless_harness::command::run;
use std::path::Path;

pub fn is_snapshot(name: &str, text: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    let file = directory.join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(&directory).expect("make the directory");
        std::fs::write(&file, text).expect("write the snapshot");
    }
    let want = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        text, want,
        "{name}: UPDATE_SNAPSHOTS=1 accepts the new text"
    );
}

#[test]
fn help_of_every_command_of_a_hub() {
    let commands: [&[&str]; 40] = [
        &["app"],
        &["audit"],
        &["completion"],
        &["delete"],
        &["delete", "source", "git"],
        &["diff"],
        &["diff", "kustomization"],
        &["events"],
        &["export"],
        &["export", "source", "git"],
        &["history"],
        &["history", "kustomization"],
        &["logs"],
        &["man"],
        &["stats"],
        &["trace"],
        &["tree"],
        &["tree", "kustomization"],
        &["version"],
        &["worker"],
        &["bootstrap"],
        &["bootstrap", "github"],
        &["check"],
        &["create"],
        &["create", "kustomization"],
        &["demo"],
        &["doctor"],
        &["env"],
        &["fleet"],
        &["get"],
        &["get", "kustomizations"],
        &["get", "sources"],
        &["plan"],
        &["reconcile"],
        &["release-env"],
        &["tenant"],
        &["reconcile", "kustomization"],
        &["suspend"],
        &["resume"],
        &["serve"],
    ];
    for command in commands {
        let args = [command, &["--help"]].concat();
        let help = run(&args).ok();
        is_snapshot(&format!("{}.txt", command.join("-")), &help);
        if command.len() == 1 {
            for part in ["Examples:", "Exit codes: 0 "] {
                assert!(help.contains(part), "{command:?}: no {part}");
            }
        }
    }
}

#[test]
fn help_of_other_commands() {
    let help = run(&["--help"]).ok();
    for part in [
        "audit",
        "bootstrap",
        "build",
        "check",
        "create",
        "demo",
        "doctor",
        "diff",
        "events",
        "export",
        "get",
        "history",
        "logs",
        "reconcile",
        "resume",
        "serve",
        "stats",
        "suspend",
        "trace",
        "tree",
        "version",
        "Exit codes: 0",
    ] {
        assert!(help.contains(part), "{part} is not in:\n{help}");
    }
    assert!(run(&["--version"]).ok().starts_with("driftless "));
    let nothing = run(&[]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("Usage: driftless"), "{}", nothing.err);
}
