//! What the checks found.

use crate::error::Error;
use crate::{output, term};
use serde_json::{Value, json};
use std::fmt::Display;

/// The checks so far.
pub struct Report {
    /// Whether each is told at once.
    tells: bool,
    checks: Vec<Value>,
    failed: usize,
}

impl Report {
    /// No check yet.
    pub fn new(tells: bool) -> Self {
        Self {
            tells,
            checks: Vec::new(),
            failed: 0,
        }
    }

    /// A check that holds.
    pub fn pass(&mut self, check: &str, found: impl Display) {
        if self.tells {
            term::success(&format!("{check}: {found}"));
        }
        self.add(check, "ok", &found.to_string(), None);
    }

    /// Something to know that is not wrong by itself.
    pub fn note(&mut self, check: &str, found: impl Display, next: &str) {
        if self.tells {
            term::waiting(&format!("{check}: {found}\n    {next}"));
        }
        self.add(check, "note", &found.to_string(), Some(next));
    }

    /// A check that fails, and its remedy.
    pub fn fail(&mut self, check: &str, found: impl Display, next: &str) {
        if self.tells {
            term::failure(&format!("{check}: {found}\n    {next}"));
        }
        self.failed += 1;
        self.add(check, "failed", &found.to_string(), Some(next));
    }

    fn add(&mut self, check: &str, state: &str, found: &str, next: Option<&str>) {
        let check = json!({"check": check, "state": state, "found": found, "next": next});
        self.checks.push(check);
    }

    /// Prints what was not printed yet.
    ///
    /// # Errors
    /// A check has failed.
    pub fn finish(self) -> Result<(), Error> {
        if !self.tells {
            output::print_json(&json!({"checks": self.checks, "failed": self.failed}))?;
        }
        match self.failed {
            0 => Ok(()),
            1 => Err(Error::new("1 check failed")),
            count => Err(Error::new(format!("{count} checks failed"))),
        }
    }
}
