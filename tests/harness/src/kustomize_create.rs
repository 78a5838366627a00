//! Cases of `kustomize create`: argument lists, the trees in which they run, and the answers of the
//! real tool, which `driftless kustomize create` also has to give.

use crate::command::words;
use crate::tools;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// A run of `create` in a copy of a tree.
pub struct Case {
    /// The name of the tree, and the arguments as in a shell.
    pub title: String,
    /// The recorded answer; see [`answer`].
    pub expected: String,
}

fn directory() -> PathBuf {
    tools::workspace().join("functions/cli/tests/cli/kustomize_create")
}

/// Returns the file of the cases.
pub fn file() -> PathBuf {
    directory().join("cases.txt")
}

/// Returns the recorded cases.
///
/// # Panics
///
/// Panics if the file cannot be read.
pub fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(file()).expect("read the cases");
    let parts = text.split("\n== ").skip(1);
    let case = |part: &str| {
        let (title, expected) = part.split_once('\n').unwrap_or((part, ""));
        Case {
            title: title.to_owned(),
            expected: expected.trim_end().to_owned(),
        }
    };
    parts.map(case).collect()
}

/// Writes the cases with new answers; the head of the file stays.
///
/// # Panics
///
/// Panics if the file cannot be read or written.
pub fn record(answers: &[(Case, String)]) {
    let text = std::fs::read_to_string(file()).expect("read the cases");
    let mut text = text.split("\n== ").next().unwrap_or_default().to_owned();
    for (case, answer) in answers {
        write!(text, "\n== {}\n{answer}\n", case.title).expect("write to a string");
    }
    std::fs::write(file(), text).expect("write the cases");
}

/// Runs the tool in a copy of the case's tree. Returns the kustomization, or `! ` and the first
/// line of the error, with `DIR` in place of the directory.
///
/// # Panics
///
/// Panics if the tree does not exist, or if a tool that fails has written to stdout.
pub fn answer(mut tool: Command, case: &Case) -> String {
    let (tree, args) = case.title.split_once(": ").unwrap_or((&case.title, ""));
    let tree = tree.trim_end_matches(':');
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path().canonicalize().expect("a directory");
    let copy = home.join("tree");
    let mut copied = Command::new("cp");
    copied.arg("-a").arg(directory().join("trees").join(tree));
    assert!(
        copied.arg(&copy).status().expect("run cp").success(),
        "{tree}"
    );
    let output = tool
        .args(words(args))
        .current_dir(&copy)
        .env("PWD", &copy)
        .output()
        .expect("run the tool");
    if output.status.success() {
        return std::fs::read_to_string(copy.join("kustomization.yaml"))
            .expect("read the kustomization")
            .trim_end()
            .to_owned();
    }
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = error.lines().find_map(|line| line.strip_prefix("Error: "));
    let line = line.unwrap_or(error.as_str());
    format!("! {}", line.replace(&copy.display().to_string(), "DIR"))
}
