//! Compares the YAML parser and writer with the outputs of the Go libraries for the same inputs:
//! `tests/corpus/yaml`, written by `tests/oracle/yaml`.

use std::path::Path;

use driftless_manifest::yaml::{Dialect, Limits, documents, node_to_value, parse, to_string};
use serde_json::Value;

/// Inputs that Go reads and driftless refuses on purpose.
const REFUSED: &[(&str, Dialect, &str)] = &[
    (
        "1: a\n\"1\": b",
        Dialect::V2,
        "both keys are \"1\" in JSON; Go keeps one of them at random",
    ),
    ("~: a", Dialect::V3, "Go drops the entry without a word"),
];

fn load(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/corpus/yaml")
        .join(name);
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn first_document(text: &str, dialect: Dialect) -> Result<Value, String> {
    let nodes = parse(text.as_bytes(), "in.yaml", &Limits::default()).map_err(|e| e.to_string())?;
    let Some(first) = nodes.first() else {
        return Ok(Value::Null);
    };
    node_to_value(first, "in.yaml", dialect).map_err(|e| e.to_string())
}

#[test]
fn reads_as_go_does() {
    let cases = load("read.out.json");
    let (mut matched, mut total) = (0, 0);
    let mut wrong = Vec::new();
    for case in list(&cases) {
        let text = case["in"].as_str().expect("text");
        for (dialect, name) in [(Dialect::V2, "v2"), (Dialect::V3, "v3")] {
            total += 1;
            let refused = REFUSED.iter().any(|(t, d, _)| *t == text && *d == dialect);
            let got = first_document(text, dialect);
            let same = match case[name].get("json") {
                Some(_) if refused => got.is_err(),
                Some(want) => got.as_ref().is_ok_and(|got| got == want),
                None => got.is_err(),
            };
            matched += usize::from(same);
            if !same {
                wrong.push(format!(
                    "{name} {text:?}\n  go   {}\n  here {got:?}",
                    case[name]
                ));
            }
        }
    }
    println!("{matched} / {total} readings");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn writes_as_go_does_and_reads_it_back() {
    let (values, texts) = (load("write.json"), load("write.out.json"));
    assert_eq!(list(&values).len(), list(&texts).len());
    let mut wrong = Vec::new();
    for (value, want) in list(&values).iter().zip(list(&texts)) {
        let got = to_string(value);
        if Some(got.as_str()) != want.as_str() {
            wrong.push(format!("{value}\n  go   {want}\n  here {got:?}"));
        }
        let back = documents(got.as_bytes(), "out.yaml", Dialect::V2, &Limits::default());
        // A key that is written like the merge key cannot be read back, and 1e+20 cannot be
        // distinguished from a whole number, also in Go.
        if !value.is_number()
            && value.get("<<").is_none()
            && back.as_deref().map(<[Value]>::first) != Ok(Some(value))
        {
            wrong.push(format!("{value}\n  written as {got:?}\n  read as {back:?}"));
        }
    }
    println!(
        "{} / {} texts",
        list(&values).len() - wrong.len(),
        list(&values).len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
