//! Runs a real library as a process that answers many questions: JSON documents, one on each line,
//! on standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::tools::Tool;

/// The process of a library; it ends with this value.
#[derive(Debug)]
pub struct Library {
    name: &'static str,
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Library {
    /// Starts the program in the time zone UTC; builds it first if it is not in the tools' cache.
    pub fn start(tool: &Tool) -> Self {
        let mut process = Command::new(tool.path())
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Some libraries warn about deprecated fields.
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("start {}: {e}", tool.name));
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("its stdout is a pipe"));
        Self {
            name: tool.name,
            process,
            questions,
            answers,
        }
    }

    /// Sends a question without waiting for the answer.
    pub fn ask(&mut self, question: &Value) {
        let questions = self.questions.as_mut().expect("its stdin is a pipe");
        writeln!(questions, "{question}").unwrap_or_else(|e| panic!("ask {}: {e}", self.name));
    }

    /// Waits for the answer to the oldest question that has none.
    pub fn answer(&mut self) -> Value {
        self.answer_unless_ended()
            .unwrap_or_else(|| panic!("{} ended without an answer", self.name))
    }

    /// Waits for the answer to the oldest open question; `None` if the question ended the process.
    pub fn answer_unless_ended(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        if !read.is_ok_and(|bytes| bytes > 0) {
            return None;
        }
        let answer = serde_json::from_str(&line);
        Some(answer.unwrap_or_else(|e| panic!("answer of {}: {e}", self.name)))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // The process cleans up and exits at the end of its input.
        drop(self.questions.take());
        let _ = self.process.wait();
    }
}
