//! The real library as a process that answers many questions (`main.go`).

use driftless_tests::tools;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The real library at work.
pub struct Library {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Library {
    /// Starts it.
    pub fn start() -> Self {
        let mut process = Command::new(tools::KUSTOMIZE_LIBRARY.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Deprecated fields make it talk.
            .stderr(Stdio::null())
            .spawn()
            .expect("start the real library");
        let questions = process.stdin.take().expect("its stdin is a pipe");
        let answers = BufReader::new(process.stdout.take().expect("its stdout is a pipe"));
        Self {
            process,
            questions,
            answers,
        }
    }

    /// Sends a question; the answer must be read before the next one.
    pub fn ask(&mut self, question: &Value) {
        writeln!(self.questions, "{question}").expect("ask the real library");
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// What the library refused the build with.
    pub fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .expect("the real library answers");
        let answer: Value = serde_json::from_str(&line).expect("its answer is JSON");
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
