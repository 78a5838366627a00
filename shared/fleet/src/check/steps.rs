//! The progress of a check.

use super::Progress;
use crate::embedded::{Row, State};
use driftless_kernel::ports::Request;

/// The steps of a check so far.
pub struct Steps<'a> {
    progress: Progress<'a>,
    count: usize,
    /// The number of ready objects, and of all objects.
    ready: Option<(usize, usize)>,
}

impl<'a> Steps<'a> {
    /// Creates the counter before the first step.
    pub fn new(progress: Progress<'a>) -> Self {
        Self {
            progress,
            count: 0,
            ready: None,
        }
    }

    /// Counts a step and reports it. The total number is not known before the last step.
    pub fn step(&mut self, request: &Request) {
        self.count += 1;
        let ready = match self.ready {
            Some((ready, all)) => format!("{ready} of {all} objects ready, "),
            None => String::new(),
        };
        let (step, object, hub) = (self.count, &request.object, &request.hub);
        (self.progress)(&format!("{ready}step {step}: {object} on {hub}"));
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
