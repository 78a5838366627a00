//! What a check is doing, as one moving line on a terminal.

use crate::embedded::{Row, State};
use crate::progress::Progress;
use driftless_core::ports::Request;

/// The line, and what stands in it.
pub struct Steps {
    line: Progress,
    count: usize,
    /// How many objects are ready, of how many.
    ready: Option<(usize, usize)>,
}

impl Steps {
    /// Nothing is done yet.
    pub fn new() -> Self {
        Self {
            line: Progress::new("checking"),
            count: 0,
            ready: None,
        }
    }

    /// A step begins. How many there will be is known only when nothing new follows from one.
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

    /// How many steps were begun.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How the objects stand.
    pub fn seen(&mut self, rows: &[Row]) {
        let ready = rows.iter().filter(|row| row.state == State::Ready);
        self.ready = Some((ready.count(), rows.len()));
    }
}
