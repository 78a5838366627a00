//! The charts that are measured.

use crate::answer;
use crate::charts;
use crate::common::Input;
use driftless_harness::skip::has_material;
use driftless_harness::tools;
use driftless_helm::values::SetKind;
use driftless_helm::{Compat, manifest_text};
use serde_json::{Value, json};

/// A chart with what is given for it.
pub struct Case {
    pub name: String,
    /// For the engine.
    pub given: Input,
    /// For the real library (`tests/oracle/helm/main.go`).
    pub question: Value,
    /// For the command lines, where the chart is on the disk.
    pub arguments: Option<Vec<String>>,
    /// Whether its render makes new keys and certificates: nearly all of its time is the search for primes then, and differs
    /// from run to run.
    pub makes_keys: bool,
}

/// `-----BEGIN` and its Base64, at the start of a PEM text.
const PEM: [&str; 2] = ["-----BEGIN", "LS0tLS1CRUdJTi"];

impl Case {
    /// Renders it once; nothing if the engine does not.
    fn looked_at(mut self) -> Option<Self> {
        let rendered = self.given.render(Compat::Helm3).ok()?;
        let text = manifest_text(&rendered, true);
        self.makes_keys = PEM.iter().any(|begin| text.contains(begin));
        Some(self)
    }
}

/// Every chart with this in its name that the engine renders.
pub fn all(part: &str) -> Vec<Case> {
    let mut cases = public();
    let own = tools::tests().join("corpus/helm/generated.jsonl");
    let text = std::fs::read_to_string(&own).expect("the project's own charts");
    for (number, line) in text.lines().enumerate() {
        let question: Value = serde_json::from_str(line).expect("a chart");
        cases.push(Case {
            name: format!("generated {}", number + 1),
            given: answer::input(&question),
            question: asked(&question),
            arguments: None,
            makes_keys: false,
        });
    }
    cases.retain(|case| case.name.contains(part));
    cases.into_iter().filter_map(Case::looked_at).collect()
}

/// The recorded answers are not asked.
fn asked(recorded: &Value) -> Value {
    let mut question = recorded.clone();
    question["helm"] = json!(3);
    question["helm3"] = Value::Null;
    question["helm4"] = Value::Null;
    question
}

fn public() -> Vec<Case> {
    let root = tools::workspace().join("../shared/conformance/helm");
    if !has_material(&root) {
        return Vec::new();
    }
    let mut list = charts::cases(&root).expect("the directory has cases");
    list.retain(|case| case.expect == "ok");
    list.iter().filter_map(from_disk).collect()
}

/// `None` for a chart with files that are no text, which cannot be sent to the library.
fn from_disk(case: &charts::Case) -> Option<Case> {
    let given = case.input().ok()?;
    let question = question(&given)?;
    let mut arguments = vec!["template".to_owned(), "rel".to_owned()];
    arguments.push(case.chart.display().to_string());
    arguments.extend(["-n", "ns", "--include-crds"].map(str::to_owned));
    arguments.extend(case.words.iter().cloned());
    for file in &case.values {
        arguments.extend(["-f".to_owned(), file.display().to_string()]);
    }
    Some(Case {
        name: case.name.clone(),
        given,
        question,
        arguments: Some(arguments),
        makes_keys: false,
    })
}

fn question(given: &Input) -> Option<Value> {
    let mut files = serde_json::Map::new();
    for file in &given.files {
        let text = std::str::from_utf8(&file.data).ok()?;
        files.insert(file.name.clone(), json!(text));
    }
    let values = given.values.iter();
    let values: Option<Vec<&str>> = values
        .map(|(_, text)| std::str::from_utf8(text).ok())
        .collect();
    let set = given.set.iter();
    let set: Vec<Value> = set
        .map(|(kind, argument)| json!({"kind": flag(*kind), "arg": argument}))
        .collect();
    let kube_version = match given.kube_version.as_str() {
        "" => "1.20.0",
        given => given,
    };
    Some(json!({
        "helm": 3, "files": files, "values": values?, "set": set, "upgrade": given.upgrade,
        "skip_schema": !given.check_schema, "kube_version": kube_version, "api_versions": given.api_versions,
    }))
}

fn flag(kind: SetKind) -> &'static str {
    match kind {
        SetKind::Json => "set-json",
        SetKind::Text => "set-string",
        SetKind::Literal => "set-literal",
        SetKind::Typed | SetKind::File => "set",
    }
}
