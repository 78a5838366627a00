//! The real libraries and the engine beside them.

use crate::answer::{answer, fit, input, pretty};
use crate::generate::Case;
use driftless_harness::{library::Library, tools};
use driftless_helm::Compat;
use serde_json::{Value, json};

/// How often the real library renders what differs, to see whether its own random order of maps is the reason.
const RUNS: usize = 12;

/// The real libraries at work.
pub struct Judge(Library);

/// What both make of a case.
pub enum Verdict {
    /// Both render the same: the real library's answer.
    Same(Value),
    /// Both refuse: the real library's answer.
    BothRefuse(Value),
    /// What the real library and the engine came to.
    Different(String, String),
}

impl Judge {
    /// Starts the libraries.
    pub fn start() -> Self {
        Self(Library::start(&tools::HELM_LIBRARY))
    }

    /// Renders a case with both.
    pub fn verdict(&mut self, case: &Case, compat: Compat) -> Verdict {
        let question = case.question(compat, 1);
        self.0.ask(&question);
        let ours = answer(&input(&question), compat);
        let Some(mut got) = self.got() else {
            let theirs = json!({"error": "Helm ends without an answer"});
            return match ours.get("error") {
                Some(_) => Verdict::BothRefuse(theirs),
                None => Verdict::Different(pretty(&theirs), pretty(&ours)),
            };
        };
        let theirs = got.swap_remove(0);
        if fit(&theirs, &ours) {
            return match ours.get("error") {
                Some(_) => Verdict::BothRefuse(theirs),
                None => Verdict::Same(theirs),
            };
        }
        Verdict::Different(pretty(&theirs), pretty(&ours))
    }

    /// Whether the real library's answer is the same in every run.
    pub fn is_deterministic(&mut self, case: &Case, compat: Compat) -> bool {
        self.0.ask(&case.question(compat, RUNS));
        self.got().is_none_or(|got| got.len() == 1)
    }

    /// What the real library made in each run; nothing, and a new process, when it ended: a value that holds itself
    /// makes its stack overflow.
    fn got(&mut self) -> Option<Vec<Value>> {
        let Some(mut answer) = self.0.answer_unless_ended() else {
            *self = Self::start();
            return None;
        };
        match answer["got"].take() {
            Value::Array(got) if !got.is_empty() => Some(got),
            other => panic!("the real library answers {other}"),
        }
    }
}
