//! The progress of a check, as one line on a terminal that is redrawn.

use crate::embedded::{Row, State};
use crate::progress::Progress;
use driftless_core::ports::Request;

/// The progress line and its numbers.
pub struct Steps {
    line: Progress,
    count: usize,
    /// The number of ready objects, and of all objects.
    ready: Option<(usize, usize)>,
}

impl Steps {
    /// Creates the line before the first step.
    pub fn new() -> Self {
        Self {
            line: Progress::new("checking"),
            count: 0,
            ready: None,
        }
    }

    /// Counts a step and shows it. The total number is not known before the last step.
    pub fn step(&mut self, request: &Request) {
        self.count += 1;
        let ready = match self.ready {
            Some((ready, all)) => format!("{ready} of {all} objects ready, "),
            None => String::new(),
        };
        let (step, object, hub) = (self.count, &request.object, &request.hub);
        self.line
            .say(format!("checking: {ready}step {step}: {object} on {hub}"));
    }

    /// Returns the number of steps.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Updates the number of ready objects.
    pub fn update(&mut self, rows: &[Row]) {
        let ready = rows.iter().filter(|row| row.state == State::Ready);
        self.ready = Some((ready.count(), rows.len()));
    }
}
