//! Compares the engine with the real libraries.

use crate::answer::{answer, fit, input, pretty};
use crate::generate::Case;
use driftless_harness::{library::Library, tools};
use driftless_helm::Compat;
use serde_json::{Value, json};

/// The number of times that the real library renders a case that differs, to find out whether its
/// random order of maps is the reason.
const RUNS: usize = 12;

/// A running process of the real libraries.
pub struct Judge(Library);

/// The result of a comparison.
pub enum Verdict {
    /// Both render the same; has the real library's answer.
    Same(Value),
    /// Both refuse the case; has the real library's answer.
    BothRefuse(Value),
    /// The results differ; has those of the real library and of the engine.
    Different(String, String),
}

impl Judge {
    /// Starts the libraries.
    pub fn start() -> Self {
        Self(Library::start(&tools::HELM_LIBRARY))
    }

    /// Renders a case with both and compares the results.
    pub fn verdict(&mut self, case: &Case, compat: Compat) -> Verdict {
        let question = case.question(compat, 1);
        self.0.ask(&question);
        let ours = answer(&input(&question), compat);
        let Some(mut answers) = self.answers() else {
            let theirs = json!({"error": "Helm ended without an answer"});
            return match ours.get("error") {
                Some(_) => Verdict::BothRefuse(theirs),
                None => Verdict::Different(pretty(&theirs), pretty(&ours)),
            };
        };
        let theirs = answers.swap_remove(0);
        if fit(&theirs, &ours) {
            return match ours.get("error") {
                Some(_) => Verdict::BothRefuse(theirs),
                None => Verdict::Same(theirs),
            };
        }
        Verdict::Different(pretty(&theirs), pretty(&ours))
    }

    /// Returns whether the real library's answer is the same in every run.
    pub fn is_deterministic(&mut self, case: &Case, compat: Compat) -> bool {
        self.0.ask(&case.question(compat, RUNS));
        self.answers().is_none_or(|answers| answers.len() == 1)
    }

    /// Returns the real library's distinct answers, or `None` after starting a new process if it
    /// has ended: a value that contains itself makes its stack overflow.
    fn answers(&mut self) -> Option<Vec<Value>> {
        let Some(mut answer) = self.0.answer_unless_ended() else {
            *self = Self::start();
            return None;
        };
        match answer["got"].take() {
            Value::Array(answers) if !answers.is_empty() => Some(answers),
            other => panic!("the real library answers {other}"),
        }
    }
}
