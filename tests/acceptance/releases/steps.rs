//! The steps of a release that need no GitHub: `infra/release`, with the commands of the
//! workflow.

use driftless_harness::aws::{lint, translate};
use driftless_harness::process;
use driftless_harness::tools::{self, HELM};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Returns the repository of Cargo.toml, as `OWNER/NAME`.
fn repository() -> String {
    let manifest = fs::read_to_string(tools::workspace().join("Cargo.toml")).expect("Cargo.toml");
    let lines = manifest.lines();
    let mut found =
        lines.filter_map(|line| line.strip_prefix("repository = \"https://github.com/"));
    let name = found.next().expect("a repository");
    name.trim_end_matches('"').to_owned()
}

/// Runs `infra/release` of the workspace.
fn release(arguments: &[&str]) -> Output {
    release_of(&tools::workspace(), arguments)
}

/// Runs `infra/release` of a copy of the workspace.
fn release_of(root: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(root.join("infra/release"));
    let output = command.args(arguments).output();
    output.expect("run infra/release")
}

fn out(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn error(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Returns a directory with the files that `check` and `notes` read, and this change log.
fn released(change_log: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    for name in ["infra/release", "infra/chart/Chart.yaml", "Cargo.toml"] {
        let path = copy.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
        fs::copy(tools::workspace().join(name), path).expect("copy a file");
    }
    fs::write(copy.path().join("CHANGELOG.md"), change_log).expect("write the change log");
    copy
}

const CHANGE_LOG: &str = concat!(
    "# Changelog\n\nThe format.\n\n## Unreleased\n\n- Later.\n\n## ",
    env!("CARGO_PKG_VERSION"),
    " - 2026-12-01\n\n### Added\n\n- First.\n\n\n- Second.\n\n## ",
    env!("CARGO_PKG_VERSION"),
    "-rc.9\n\n- Before.\n"
);

#[test]
fn notes_are_the_section_of_the_version() {
    let copy = released(CHANGE_LOG);
    let notes = |tag: &str| release_of(copy.path(), &["notes", tag]);
    assert_eq!(out(&notes(TAG)), "### Added\n\n- First.\n\n\n- Second.\n");
    assert_eq!(out(&notes(&format!("{TAG}-rc.9"))), "- Before.\n");
    let missing = error(&notes("v0.0"));
    assert!(missing.contains("no entries below '## 0.0'"), "{missing}");
}

#[test]
fn a_tag_must_match_the_commit() {
    let copy = released(CHANGE_LOG);
    let repository = repository();
    let check = |tag: &str, repository: &str| release_of(copy.path(), &["check", tag, repository]);
    assert_eq!(out(&check(TAG, &repository)), "");
    let version = error(&check("v99.0.0", &repository));
    assert!(
        version.contains(&format!("push the tag {TAG}")),
        "{version}"
    );
    let fork = error(&check(TAG, "acme/driftless"));
    assert!(
        fork.contains("acme/driftless is not the repository"),
        "{fork}"
    );
    fs::write(
        copy.path().join("CHANGELOG.md"),
        "## Unreleased\n\n- Later.\n",
    )
    .expect("write");
    let notes = error(&check(TAG, &repository));
    assert!(notes.contains("rename '## Unreleased'"), "{notes}");
}

/// `cargo binstall` downloads `pkg-url` and takes the program at `bin-dir`.
#[test]
fn the_archive_is_where_binstall_expects_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    fs::write(&program, "#!/bin/sh\necho driftless\n").expect("write a program");
    let manifest = fs::read_to_string(tools::workspace().join("functions/cli/Cargo.toml"));
    let manifest = manifest.expect("the manifest");
    let home = format!("https://github.com/{}", repository());
    for target in ["x86_64-unknown-linux-musl", "aarch64-apple-darwin"] {
        let files = directory.path().join("files");
        let archive = ["archive", TAG, target, text(&program), text(&files)];
        out(&release(&archive));
        let field = |name: &str| {
            let line = manifest.lines().find_map(|line| line.strip_prefix(name));
            let value = line.expect(name).trim_matches([' ', '=', '"']);
            [
                ("{ repo }", home.as_str()),
                ("{ version }", VERSION),
                ("{ name }", "driftless"),
                ("{ bin }", "driftless"),
                ("{ target }", target),
            ]
            .iter()
            .fold(value.to_owned(), |text, (from, to)| text.replace(from, to))
        };
        let url = field("pkg-url");
        let (place, name) = url.rsplit_once('/').expect("a URL");
        assert_eq!(place, format!("{home}/releases/download/{TAG}"));
        let packed = fs::read(files.join(name)).expect("the archive");
        process::run(
            Command::new("tar")
                .args(["-xzf", text(&files.join(name)), "-C"])
                .arg(directory.path()),
        );
        let installed = directory.path().join(field("bin-dir"));
        let ran = process::run(&mut Command::new(installed));
        assert_eq!(ran, "driftless\n");
        out(&release(&archive));
        let again = fs::read(files.join(name)).expect("the archive");
        assert!(packed == again, "the archive depends on the time");
    }
}

/// The template names the zips of its architecture, and SAM and its linter accept it.
#[test]
fn the_template_names_the_zips() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = out(&release(&["files", TAG]));
    for architecture in ["x86_64", "arm64"] {
        out(&release(&[
            "template",
            architecture,
            text(directory.path()),
        ]));
        let path = directory
            .path()
            .join(format!("template-{architecture}.yaml"));
        let template = fs::read_to_string(&path).expect("the template");
        let mut zips: Vec<&str> = template
            .lines()
            .filter_map(|line| line.trim().strip_prefix("CodeUri: "))
            .collect();
        assert!(zips.len() > 6, "{zips:?}");
        // The isolated function has the code of reconcile.
        zips.sort_unstable();
        zips.dedup();
        let mut expected: Vec<&str> = files
            .lines()
            .filter(|file| file.ends_with(&format!("-{architecture}.zip")))
            .collect();
        expected.sort_unstable();
        assert_eq!(zips, expected);
        let code: BTreeMap<String, String> = BTreeMap::new();
        let translated = translate(&path, &code);
        assert_eq!(
            translated["Parameters"]["Architecture"]["Default"],
            architecture
        );
        assert_eq!(lint(&translated), "");
    }
    let wrong = error(&release(&["template", "riscv64", text(directory.path())]));
    assert!(wrong.contains("x86_64 arm64"), "{wrong}");
}

#[test]
fn checksums_are_of_all_files_and_no_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = text(directory.path());
    let files = out(&release(&["files", TAG]));
    for file in files.lines().skip(1) {
        fs::write(directory.path().join(file), file).expect("write a file");
    }
    fs::write(directory.path().join("other"), "").expect("write a file");
    let wrong = error(&release(&["checksums", TAG, place]));
    let first = files.lines().next().expect("a file");
    assert!(wrong.ends_with(&format!("< {first}\n> other\n")), "{wrong}");
    assert!(!directory.path().join("SHA256SUMS").exists());

    fs::remove_file(directory.path().join("other")).expect("remove a file");
    fs::write(directory.path().join(first), first).expect("write a file");
    out(&release(&["checksums", TAG, place]));
    // Run again, the file itself is not one of the files.
    out(&release(&["checksums", TAG, place]));
    let checked = process::run(
        Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(directory.path()),
    );
    assert_eq!(checked.lines().count(), files.lines().count());
}

/// The chart is packed under the name that the release lists.
#[test]
fn the_chart_is_packed() {
    let directory = tempfile::tempdir().expect("a directory");
    process::run(
        Command::new(HELM.path())
            .env("HOME", directory.path())
            .args(["package", "infra/chart", "--destination"])
            .arg(directory.path())
            .current_dir(tools::workspace()),
    );
    let files = out(&release(&["files", TAG]));
    let chart = files.lines().find(|file| file.ends_with(".tgz"));
    assert!(directory.path().join(chart.expect("a chart")).is_file());
}
