//! Completions of shells, and manual pages.

use driftless_harness::command::{Done, run, run_in};
use std::process::Command;

#[test]
fn completions_have_every_command() {
    for (shell, words) in [
        ("bash", "complete -F _driftless"),
        ("zsh", "#compdef driftless"),
        ("fish", "complete -c driftless"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let text = run(&["completion", shell]).ok();
        for word in [words, "kustomization", "events", "with-credentials"] {
            assert!(text.contains(word), "{shell}: no {word}");
        }
    }
    run(&["completion", "tcsh"]).refused(2, &["invalid value 'tcsh'", "bash"]);
}

/// The completion works in a real shell, where one is installed.
#[test]
fn bash_completes_commands() {
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join("completion");
    std::fs::write(&file, run(&["completion", "bash"]).ok()).expect("write");
    let script = format!(
        "source {}; COMP_WORDS=(driftless tr); COMP_CWORD=1; _driftless driftless tr driftless; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let Ok(output) = Command::new("bash").args(["-c", &script]).output() else {
        return driftless_harness::skip::skip("bash is not installed");
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        text.trim(),
        "trace tree",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn manual_pages_are_written() {
    let home = tempfile::tempdir().expect("a home");
    let page = run(&["man"]).ok();
    assert!(page.contains(".TH driftless 1"), "{page}");
    let missing: Done = run_in(home.path(), &["man", "--directory", "missing"], &[]);
    missing.refused(2, &["missing is not a directory", "mkdir -p missing"]);
    let directory = home.path().to_str().expect("UTF-8");
    let done = run(&["man", "--directory", directory]);
    assert_eq!(done.code, 0, "{}", done.err);
    for name in [
        "driftless",
        "driftless-get",
        "driftless-get-sources-git",
        "driftless-delete-source-oci",
    ] {
        let text = std::fs::read_to_string(home.path().join(format!("{name}.1")));
        let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(&format!(".TH {name} 1")), "{name}: {text}");
        assert!(text.contains(".SH SYNOPSIS"), "{name}");
    }
    let count = std::fs::read_dir(home.path()).expect("list").count();
    assert!(
        done.err.contains(&format!("{count} pages written")),
        "{}",
        done.err
    );
}
