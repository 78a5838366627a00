//! The charts that are measured.

use crate::answer;
use crate::charts;
use crate::common::Input;
use driftless_harness::skip::has_material;
use driftless_harness::tools;
use driftless_helm::values::SetKind;
use driftless_helm::{Compat, manifest_text};
use serde_json::{Value, json};

/// A chart with its values and flags.
pub struct Case {
    pub name: String,
    /// The input of the engine.
    pub input: Input,
    /// The request to the real library (`tests/oracle/helm/main.go`).
    pub question: Value,
    /// The arguments of the command lines, if the chart is on the disk.
    pub arguments: Option<Vec<String>>,
    /// True if a render makes new keys and certificates: then nearly all of its time is the search
    /// for primes, and differs from run to run.
    pub makes_keys: bool,
}

/// The start of PEM, and of its Base64.
const PEM: [&str; 2] = ["-----BEGIN", "LS0tLS1CRUdJTi"];

impl Case {
    /// Renders the chart once and sets `makes_keys`; returns `None` if the engine refuses the
    /// chart.
    fn rendered_once(mut self) -> Option<Self> {
        let rendered = self.input.render(Compat::Helm3).ok()?;
        let text = manifest_text(&rendered, true);
        self.makes_keys = PEM.iter().any(|begin| text.contains(begin));
        Some(self)
    }
}

/// Returns every chart with this part in its name that the engine renders.
pub fn all(part: &str) -> Vec<Case> {
    let mut cases = public();
    let own = tools::tests().join("corpus/helm/generated.jsonl");
    let text = std::fs::read_to_string(&own).expect("the project's own charts");
    for (number, line) in text.lines().enumerate() {
        let question: Value = serde_json::from_str(line).expect("a chart");
        cases.push(Case {
            name: format!("generated {}", number + 1),
            input: answer::input(&question),
            question: request(&question),
            arguments: None,
            makes_keys: false,
        });
    }
    cases.retain(|case| case.name.contains(part));
    cases.into_iter().filter_map(Case::rendered_once).collect()
}

/// Removes the recorded answers from a request.
fn request(recorded: &Value) -> Value {
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

/// Reads a chart; returns `None` if a file is not UTF-8, because it cannot be sent to the library.
fn from_disk(case: &charts::Case) -> Option<Case> {
    let input = case.input().ok()?;
    let question = question(&input)?;
    let mut arguments = vec!["template".to_owned(), "rel".to_owned()];
    arguments.push(case.chart.display().to_string());
    arguments.extend(["-n", "ns", "--include-crds"].map(str::to_owned));
    arguments.extend(case.words.iter().cloned());
    for file in &case.values {
        arguments.extend(["-f".to_owned(), file.display().to_string()]);
    }
    Some(Case {
        name: case.name.clone(),
        input,
        question,
        arguments: Some(arguments),
        makes_keys: false,
    })
}

fn question(input: &Input) -> Option<Value> {
    let mut files = serde_json::Map::new();
    for file in &input.files {
        let text = std::str::from_utf8(&file.data).ok()?;
        files.insert(file.name.clone(), json!(text));
    }
    let values = input.values.iter();
    let values: Option<Vec<&str>> = values
        .map(|(_, text)| std::str::from_utf8(text).ok())
        .collect();
    let set = input.set.iter();
    let set: Vec<Value> = set
        .map(|(kind, argument)| json!({"kind": flag(*kind), "arg": argument}))
        .collect();
    let kube_version = match input.kube_version.as_str() {
        "" => "1.20.0",
        version => version,
    };
    Some(json!({
        "helm": 3, "files": files, "values": values?, "set": set, "upgrade": input.upgrade,
        "skip_schema": !input.check_schema, "kube_version": kube_version, "api_versions": input.api_versions,
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
