//! The line of a file that an error is about, with a caret below the place; never from a file that
//! may have secret values.

use crate::check::{check, fleet, kustomization};
use crate::help::is_snapshot;
use driftless_harness::command::{Done, run_in};
use std::path::Path;

/// An object with a duplicate key in its seventh line.
const TWICE: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: hunter1\n  a: hunter2\n";

/// Builds a directory of these files; its path is not in the output.
fn build(files: &[(&str, &str)]) -> Done {
    let home = tempfile::tempdir().expect("a home");
    for (name, text) in files {
        std::fs::write(home.path().join(name), text).expect("write a file");
    }
    let place = home.path().to_str().expect("UTF-8").to_owned();
    let done = run_in(home.path(), &["build", &place], &[]);
    Done {
        err: masked(&done.err, home.path()),
        ..done
    }
}

/// Replaces the directory, which differs between two runs.
fn masked(text: &str, directory: &Path) -> String {
    let real = directory.canonicalize().expect("the directory");
    let real = real.display().to_string();
    text.replace(&real, "FLEET")
        .replace(real.trim_start_matches('/'), "FLEET")
}

#[test]
fn a_build_shows_the_line_with_a_caret() {
    let done = build(&[
        ("kustomization.yaml", "resources: [a.yaml]\n"),
        ("a.yaml", TWICE),
    ]);
    assert_eq!(done.code, 1, "{}", done.err);
    is_snapshot("excerpt-build.txt", &done.err);
}

#[test]
fn a_check_shows_the_line_with_a_caret_in_text_alone() {
    let place = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", "")),
        ("apps/a.yaml", TWICE.to_owned()),
    ]);
    let done = check(place.path(), &[]);
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    is_snapshot("excerpt-check.txt", &masked(&done.out, place.path()));
    for format in ["json", "github", "junit", "sarif"] {
        let done = check(place.path(), &["-o", format]);
        assert!(!done.out.contains("hunter"), "{format}: {}", done.out);
    }
}

#[test]
fn no_excerpt_has_a_value_of_a_secret() {
    let resources = "resources: [a.yaml]\n";
    let secret = TWICE.replace("ConfigMap", "Secret");
    let sops = format!("{TWICE}sops:\n  mac: x\n");
    let generator = "secretGenerator:\n- name: a\n  literals: [\"a=hunter1]\n";
    let patch =
        "resources: []\npatches:\n- target: {kind: Secret}\n  patch: hunter1\n  patch: hunter2\n";
    let values = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: \"hunter1}\n";
    for files in [
        &[("kustomization.yaml", resources), ("a.yaml", &secret)][..],
        &[("kustomization.yaml", resources), ("a.yaml", &sops)],
        &[("kustomization.yaml", resources), ("a.yaml", values)],
        &[("kustomization.yaml", generator)],
        &[("kustomization.yaml", patch)],
    ] {
        let done = build(files);
        assert_eq!(done.code, 1, "{}", done.err);
        assert!(done.err.contains(".yaml:"), "{}", done.err);
        assert!(!done.err.contains("-->"), "{}", done.err);
        assert!(!done.err.contains("hunter"), "{}", done.err);
    }
}
