//! Running the command, and what it said.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A finished command.
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The command with nothing of the caller's environment.
pub fn driftless(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_driftless"));
    command.env_clear().env("HOME", home).stdin(Stdio::null());
    command
}

/// Runs the command in an empty home.
pub fn run(args: &[&str]) -> Done {
    let home = tempfile::tempdir().expect("a home");
    run_in(home.path(), args, &[])
}

/// Runs the command in this home and environment.
pub fn run_in(home: &Path, args: &[&str], environment: &[(&str, &str)]) -> Done {
    let mut command = driftless(home);
    command.args(args).envs(environment.iter().copied());
    let output = command.output().expect("run driftless");
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Done {
    /// Fails unless the command succeeded; what it wrote to stdout.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Fails unless the command succeeded and wrote JSON.
    pub fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
    }

    /// Fails unless the command ended with this code, nothing on stdout, and all of these words on stderr.
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "'{word}' is not in:\n{}", self.err);
        }
    }
}
