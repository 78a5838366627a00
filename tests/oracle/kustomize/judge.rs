//! Compares the engine with the real library.

use crate::generate::Case;
use driftless_harness::{library::Library, tools};
use driftless_kustomize::{Build, documents_to_yaml};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A running process of the real library.
pub struct Judge(Library);

/// Parts of the errors for gaps in `tests/corpus/kustomize/GAPS.md` that random cases can meet.
const GAPS: [&str; 1] = ["the hash of a generated object that a patch made a"];

/// The result of a comparison.
pub enum Verdict {
    Same,
    BothRefuse,
    /// Only the engine refuses the case, on purpose.
    Gap,
    Different(Difference),
}

/// The outputs or errors of both.
pub struct Difference {
    pub theirs: String,
    pub ours: String,
}

impl Judge {
    /// Starts the library.
    pub fn start() -> Self {
        Self(Library::start(&tools::KUSTOMIZE_LIBRARY))
    }

    /// Renders a case with both and compares the results.
    pub fn verdict(&mut self, case: &Case) -> Verdict {
        let files: BTreeMap<&str, String> = case
            .files
            .iter()
            .map(|(path, file)| (path.as_str(), file.text()))
            .collect();
        self.0.ask(&json!({"files": files, "dir": case.dir}));
        let ours = engine(&files, &case.dir);
        let answer = self.0.answer();
        let text = |field: &str| answer.get(field).and_then(Value::as_str);
        let theirs = match text("error") {
            Some(error) => Err(error.to_owned()),
            None => Ok(text("yaml").unwrap_or_default().to_owned()),
        };
        match (theirs, ours) {
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
}

fn engine(files: &BTreeMap<&str, String>, dir: &str) -> Result<String, String> {
    let mut tree = FileTree::new();
    for (path, text) in files {
        let path = TreePath::new(path).expect("a path of the case");
        tree.insert(path, EntryKind::File, text.as_bytes().to_vec())
            .expect("a file of the case");
    }
    let dir = TreePath::new(dir).expect("a directory of the case");
    let documents = Build::new(&Reader::new(&tree), &dir)
        .documents()
        .map_err(|error| error.to_string())?;
    Ok(documents_to_yaml(&documents))
}
