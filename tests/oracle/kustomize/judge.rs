//! The real library, one process for all cases, and the engine beside it.

use crate::generate::Case;
use driftless_kustomize::{Options, build_documents, documents_to_yaml};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};
use driftless_tests::tools;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The real library at work.
pub struct Judge {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What stands in `tests/corpus/kustomize/GAPS.md` and random cases come upon.
const GAPS: [&str; 1] = ["the hash of a generated object that a patch made a"];

/// What both make of a case.
pub enum Verdict {
    Same,
    BothRefuse,
    /// Only the engine refuses it, on purpose.
    Gap,
    Different(Difference),
}

/// Output or error of both.
pub struct Difference {
    pub theirs: String,
    pub ours: String,
}

impl Judge {
    /// Starts the library.
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

    /// Renders a case with both.
    pub fn verdict(&mut self, case: &Case) -> Verdict {
        let files: BTreeMap<&str, String> = case
            .files
            .iter()
            .map(|(path, file)| (path.as_str(), file.text()))
            .collect();
        self.ask(&files, &case.dir);
        let ours = engine(&files, &case.dir);
        match (self.answer(), ours) {
            (Ok(theirs), Ok(ours)) if theirs == ours => Verdict::Same,
            (Err(_), Err(_)) => Verdict::BothRefuse,
            (Ok(_), Err(error)) if GAPS.iter().any(|gap| error.contains(gap)) => Verdict::Gap,
            (theirs, ours) => {
                let shown = |done: Result<String, String>| {
                    done.unwrap_or_else(|error| format!("refused: {error}"))
                };
                Verdict::Different(Difference {
                    theirs: shown(theirs),
                    ours: shown(ours),
                })
            }
        }
    }

    fn ask(&mut self, files: &BTreeMap<&str, String>, dir: &str) {
        let question = json!({"files": files, "dir": dir});
        writeln!(self.questions, "{question}").expect("ask the real library");
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .expect("the real library answers");
        let answer: Value = serde_json::from_str(&line).expect("its answer is JSON");
        let text = |field: &str| answer.get(field).and_then(Value::as_str).map(str::to_owned);
        text("error").map_or_else(|| Ok(text("yaml").unwrap_or_default()), Err)
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn engine(files: &BTreeMap<&str, String>, dir: &str) -> Result<String, String> {
    let mut tree = FileTree::new();
    for (path, text) in files {
        let path = TreePath::new(path).expect("a path of the case");
        tree.insert(path, EntryKind::File, text.as_bytes().to_vec())
            .expect("a file of the case");
    }
    let dir = TreePath::new(dir).expect("a folder of the case");
    let documents = build_documents(&Reader::new(&tree), &dir, &Options::default())
        .map_err(|error| error.to_string())?;
    Ok(documents_to_yaml(&documents))
}
