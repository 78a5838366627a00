//! `driftless kustomize create`, compared with the recorded answers of kustomize. The acceptance
//! tests compare the record with the real tool.

use crate::help::is_snapshot;
use driftless_harness::command::{Done, driftless, run};
use driftless_harness::kustomize_create::{answer, cases};
use std::fs;
use std::path::Path;

#[test]
fn files_and_errors_are_those_of_kustomize() {
    let mut wrong = Vec::new();
    let cases = cases();
    for case in &cases {
        let home = tempfile::tempdir().expect("a home");
        let mut ours = driftless(home.path());
        ours.args(["kustomize", "create"]);
        let answer = answer(ours, case);
        if answer != case.expected {
            wrong.push(format!(
                "== {}\n{}\nkustomize:\n{}",
                case.title, answer, case.expected
            ));
        }
    }
    assert!(cases.len() > 70, "{} cases", cases.len());
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n\n")
    );
}

fn create(directory: &Path, args: &[&str]) -> Done {
    let mut command = driftless(directory);
    command.args(["kustomize", "create"]).args(args);
    Done::of(command.current_dir(directory))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("list the directory");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        name.into_string().expect("UTF-8")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn the_file_can_be_built_and_an_error_changes_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let app = home.path().join("app");
    fs::create_dir(&app).expect("make a directory");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map\n";
    fs::write(app.join("map.yaml"), map).expect("write");
    for (args, code, words) in [
        (&["app", "--labels", ":a"][..], 1, "Next: give --labels"),
        (&["app", "--resources", "nope"], 1, "Next: name files"),
        (&["app", "--resources", "["], 1, "Next: write '['"),
        (&["app", "--bogus"], 2, "--bogus"),
        (&["app", "--autodetect=maybe"], 2, "true or false"),
        (&["nope"], 1, "the directory nope: no such file"),
        (&["app/map.yaml"], 1, "app/map.yaml: not a directory"),
    ] {
        create(home.path(), args).refused(code, &[words]);
        assert_eq!(names(&app), ["map.yaml"], "{args:?}");
    }
    // Entries begin at the directory of the kustomization.
    let done = create(
        home.path(),
        &["app", "--resources", "*.yaml", "--nameprefix", "blue-"],
    );
    assert_eq!((done.code, done.out.as_str()), (0, ""), "{}", done.err);
    assert!(
        done.err
            .contains("app/kustomization.yaml written with 1 resource")
    );
    let path = app.to_str().expect("UTF-8");
    let built = run(&["build", path]).ok();
    assert_eq!(built, map.replace("name: map", "name: blue-map"));
    let before = fs::read(app.join("kustomization.yaml")).expect("read");
    create(&app, &["--autodetect"]).refused(
        1,
        &[
            "kustomization file already exists",
            "Next: edit kustomization.yaml, or remove it",
        ],
    );
    assert_eq!(
        fs::read(app.join("kustomization.yaml")).expect("read"),
        before
    );
    // kustomize overwrites the first of two files.
    fs::write(app.join("Kustomization"), "").expect("write");
    create(&app, &[]).refused(
        1,
        &["Found multiple kustomization file: [kustomization.yaml Kustomization]"],
    );
    assert_eq!(
        fs::read(app.join("kustomization.yaml")).expect("read"),
        before
    );
}

#[test]
fn a_remote_base_is_written_without_a_check() {
    let home = tempfile::tempdir().expect("a directory");
    let base = "https://github.com/acme/fleet//base?ref=v1";
    create(home.path(), &["--resources", base]).ok();
    let text = fs::read_to_string(home.path().join("kustomization.yaml")).expect("read");
    assert!(text.ends_with(&format!("resources:\n- {base}\n")), "{text}");
}

#[test]
fn the_group_names_its_commands() {
    is_snapshot(
        "kustomize-create.txt",
        &run(&["kustomize", "create", "--help"]).ok(),
    );
    run(&["kustomize", "build", "."]).refused(2, &["Next: driftless build"]);
    run(&["kustomize", "edit"]).refused(2, &["Next: edit the kustomization.yaml by hand"]);
    run(&["kustomize", "fix"]).refused(2, &["Next: give one of: create"]);
}
