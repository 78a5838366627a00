//! The cases of the contract: lists of requests, read from tests/corpus/apiserver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The header with the token of a request. A request without it comes from an administrator.
pub const AUTHORIZATION: &str = "authorization";

/// The requests of one behaviour, which have a namespace for themselves.
#[derive(Clone, Debug)]
pub struct Case {
    pub file: String,
    pub name: String,
    pub steps: Vec<Step>,
}

/// One request of a case.
#[derive(Clone, Debug)]
pub struct Step {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
    /// The values that the answer must have; the request is repeated until it has them.
    pub until: BTreeMap<String, Value>,
}

/// One answer, before normalization.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub warnings: Vec<String>,
    /// JSON, a list of events for a watch, or a string.
    pub body: Value,
}

/// A server under test.
pub trait Subject {
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<&str>,
    ) -> Answer;

    /// Returns whether the server changes objects in the background, so that an answer can change.
    fn works_alone(&self) -> bool;
}

pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|directory| directory.join("tests/corpus/apiserver"))
        .find(|directory| directory.is_dir())
        .expect("tests/corpus/apiserver")
}

pub fn read() -> Vec<Case> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus().join("cases"))
        .expect("the directory of cases")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| read_file(file)).collect()
}

pub fn read_json(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn read_file(file: &Path) -> Vec<Case> {
    let stem = file
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let all = read_json(file);
    let list = all.as_array().expect("a list of cases");
    list.iter()
        .map(|case| Case {
            file: stem.clone(),
            name: case["name"].as_str().expect("a name").to_owned(),
            steps: case["steps"]
                .as_array()
                .expect("steps")
                .iter()
                .map(read_step)
                .collect(),
        })
        .collect()
}

fn read_step(step: &Value) -> Step {
    let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("user-agent".to_owned(), "contract/1".to_owned())];
    if !step["type"].is_null() {
        headers.push(("content-type".to_owned(), text("type")));
    } else if !step["body"].is_null() {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    for (name, value) in step["headers"].as_object().into_iter().flatten() {
        headers.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    if let Some(token) = step["token"].as_str() {
        headers.push((AUTHORIZATION.to_owned(), format!("Bearer {token}")));
    }
    for group in step["groups"].as_array().into_iter().flatten() {
        headers.push((
            "Impersonate-Group".to_owned(),
            group.as_str().unwrap_or_default().to_owned(),
        ));
    }
    Step {
        method: text("method"),
        path: text("path"),
        headers,
        body: match &step["body"] {
            Value::Null => repeated(&step["repeat"]),
            Value::String(raw) => Some(raw.clone()),
            other => Some(other.to_string()),
        },
        until: step["until"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    }
}

/// Renders a list of equal items from `{"count": 3, "of": ITEM}`.
fn repeated(repeat: &Value) -> Option<String> {
    let count = usize::try_from(repeat["count"].as_u64()?).ok()?;
    Some(Value::Array(vec![repeat["of"].clone(); count]).to_string())
}

/// Returns the namespace of a case.
pub fn namespace(case: &Case) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in case.file.bytes().chain([b'/']).chain(case.name.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("t{:010x}", hash & 0xff_ffff_ffff)
}

/// Runs a case; the answers are normalised.
pub fn run(case: &Case, subject: &mut dyn Subject) -> Vec<Value> {
    let namespace = namespace(case);
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let headers = [
        ("user-agent".to_owned(), "unknown".to_owned()),
        ("content-type".to_owned(), "application/json".to_owned()),
    ];
    let made = subject.send(
        "POST",
        "/api/v1/namespaces",
        &headers,
        Some(&body.to_string()),
    );
    assert_eq!(made.status, 201, "{}: namespace: {}", case.name, made.body);
    let mut raw: Vec<Value> = Vec::new();
    let mut normal = super::normal::Normal::new(&namespace);
    let mut out = Vec::new();
    for step in &case.steps {
        let fill = |text: &str| fill(&text.replace("{ns}", &namespace), &raw);
        let headers: Vec<(String, String)> = step
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), fill(value)))
            .collect();
        let (path, body) = (fill(&step.path), step.body.as_deref().map(fill));
        let mut answer = subject.send(&step.method, &path, &headers, body.as_deref());
        for _ in 0..100 {
            let there = step.until.iter().all(|(pointer, wanted)| {
                if pointer == "status" {
                    *wanted == answer.status
                } else {
                    answer.body.pointer(pointer) == Some(&with_namespace(wanted, &namespace))
                }
            });
            if there || !subject.works_alone() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            answer = subject.send(&step.method, &path, &headers, body.as_deref());
        }
        raw.push(answer.body.clone());
        out.push(normal.answer(&answer));
    }
    out
}

fn with_namespace(wanted: &Value, namespace: &str) -> Value {
    match wanted.as_str() {
        Some(text) => text.replace("{ns}", namespace).into(),
        None => wanted.clone(),
    }
}

/// Inserts values of earlier answers: `{{0/metadata/uid}}`.
fn fill(text: &str, raw: &[Value]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, after) = after.split_once("}}").expect("a closed reference");
        let (index, pointer) = inside.split_once('/').expect("a pointer");
        let value = raw[index.parse::<usize>().expect("an index")]
            .pointer(&format!("/{pointer}"))
            .cloned()
            .unwrap_or_default();
        out.push_str(before);
        out.push_str(
            value
                .as_str()
                .map_or(value.to_string(), str::to_owned)
                .as_str(),
        );
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The differences of two answers, as lines `path: left | right`.
pub fn differences(path: &str, left: &Value, right: &Value, out: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (a, b) = (a.get(key), b.get(key));
                let below = format!("{path}/{key}");
                match (a, b) {
                    (Some(a), Some(b)) => differences(&below, a, b, out),
                    _ => out.push(format!("{below}: {} | {}", display(a), display(b))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}/{index}"), a, b, out);
            }
        }
        _ if left == right => {}
        _ => out.push(format!(
            "{path}: {} | {}",
            display(Some(left)),
            display(Some(right))
        )),
    }
}

fn display(value: Option<&Value>) -> String {
    value.map_or("absent".to_owned(), Value::to_string)
}
