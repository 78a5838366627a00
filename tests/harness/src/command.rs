//! Runs the `driftless` command and captures its exit code and output.

use crate::{process, tools};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Returns the directory TARGET/PROFILE of the running test, with all programs of the workspace's
/// default members, built with the same profile into the same target directory. For the tests of
/// the command's own package, Cargo has built them; for others this function builds them once in
/// each process.
///
/// # Panics
///
/// Panics if the build fails.
pub fn programs() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let own = std::env::current_exe().expect("the test's own path");
        let directory = own.ancestors().nth(2).expect("TARGET/PROFILE").to_owned();
        if std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == "driftless") {
            return directory;
        }
        eprintln!("building the programs of the workspace");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(tools::workspace())
            .args(["build", "--quiet", "--bins"]);
        if directory.file_name().is_some_and(|name| name == "release") {
            cargo.arg("--release");
        }
        if let Some(target) = directory.parent() {
            cargo.arg("--target-dir").arg(target);
        }
        process::run(&mut cargo);
        directory
    })
}

/// Returns the path of the `driftless` program.
pub fn program() -> PathBuf {
    programs().join("driftless")
}

/// Splits a line into words as a shell does: single quotes quote everything.
///
/// # Panics
///
/// Panics if a quote is open at the end of the line.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quoted = false;
    for one in line.chars() {
        match one {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(one),
        }
    }
    assert!(!quoted, "an open quote in: {line}");
    words.extend(word);
    words
}

/// A finished command.
pub struct Done {
    /// The exit code; -1 if a signal ended it.
    pub code: i32,
    /// The standard output of the command.
    pub out: String,
    /// The standard error of the command.
    pub err: String,
}

/// Returns the `driftless` command with an environment of nothing but `HOME`.
pub fn driftless(home: &Path) -> Command {
    let mut command = Command::new(program());
    command.env_clear().env("HOME", home).stdin(Stdio::null());
    command
}

/// Runs the command with an empty home directory.
pub fn run(args: &[&str]) -> Done {
    let home = tempfile::tempdir().expect("a home");
    run_in(home.path(), args, &[])
}

/// Runs the command with this home directory and these environment variables.
pub fn run_in(home: &Path, args: &[&str], environment: &[(&str, &str)]) -> Done {
    let mut command = driftless(home);
    Done::of(command.args(args).envs(environment.iter().copied()))
}

impl Done {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("run driftless");
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns what the command wrote to stdout; panics unless it succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Parses the JSON that the command wrote to stdout; panics unless it succeeded.
    pub fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
    }

    /// Panics unless the command ended with this code, wrote nothing to stdout, and wrote all of
    /// these words to stderr.
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "'{word}' is not in:\n{}", self.err);
        }
    }
}
