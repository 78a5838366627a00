//! The results of the checks.

use crate::error::Error;
use crate::{output, term};
use serde_json::{Value, json};
use std::fmt::Display;

/// The results so far.
pub struct Report {
    /// True if each result is printed at once.
    prints: bool,
    checks: Vec<Value>,
    failed: usize,
}

impl Report {
    /// Creates an empty report.
    pub fn new(prints: bool) -> Self {
        Self {
            prints,
            checks: Vec::new(),
            failed: 0,
        }
    }

    /// Adds a check that passed.
    pub fn pass(&mut self, check: &str, found: impl Display) {
        if self.prints {
            term::success(&format!("{check}: {found}"));
        }
        self.add(check, "ok", &found.to_string(), None);
    }

    /// Adds a result to note that is not an error.
    pub fn note(&mut self, check: &str, found: impl Display, next: &str) {
        if self.prints {
            term::waiting(&format!("{check}: {found}\n    {next}"));
        }
        self.add(check, "note", &found.to_string(), Some(next));
    }

    /// Adds a check that failed, and its remedy.
    pub fn fail(&mut self, check: &str, found: impl Display, next: &str) {
        if self.prints {
            term::failure(&format!("{check}: {found}\n    {next}"));
        }
        self.failed += 1;
        self.add(check, "failed", &found.to_string(), Some(next));
    }

    fn add(&mut self, check: &str, state: &str, found: &str, next: Option<&str>) {
        let check = json!({"check": check, "state": state, "found": found, "next": next});
        self.checks.push(check);
    }

    /// Prints the results that were not printed yet.
    ///
    /// # Errors
    /// A check failed.
    pub fn finish(self) -> Result<(), Error> {
        if !self.prints {
            output::print_json(&json!({"checks": self.checks, "failed": self.failed}))?;
        }
        match self.failed {
            0 => Ok(()),
            1 => Err(Error::new("1 check failed")),
            count => Err(Error::new(format!("{count} checks failed"))),
        }
    }
}
