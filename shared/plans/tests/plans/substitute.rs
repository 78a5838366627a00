//! Compares the substitution with the results of Flux's own code (`tests/oracle/envsubst`).

use driftless_manifest::Object;
use driftless_plans::substitute::{SubstituteOptions, object, text};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Corpus {
    vars: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    text: Option<String>,
    object: Option<Object>,
    vars: Option<BTreeMap<String, String>>,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    always: bool,
}

#[derive(Deserialize)]
struct Answer {
    name: String,
    text: Option<String>,
    object: Option<Value>,
    error: Option<String>,
}

fn read(file: &str) -> String {
    let path = format!(
        "{}/../../tests/corpus/envsubst/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(path).unwrap()
}

fn corpus() -> (BTreeMap<String, String>, Vec<(Case, Answer)>) {
    let corpus: Corpus = serde_json::from_str(&read("cases.json")).unwrap();
    let answers = read("answers.jsonl");
    let answers = answers
        .lines()
        .map(|line| serde_json::from_str::<Answer>(line).unwrap());
    let pairs: Vec<_> = corpus.cases.into_iter().zip(answers).collect();
    assert!(pairs.iter().all(|(case, answer)| case.name == answer.name));
    (corpus.vars, pairs)
}

#[test]
fn texts_as_flux_substitutes_them() {
    let (shared, pairs) = corpus();
    let mut failed = Vec::new();
    let mut total = 0;
    for (case, answer) in pairs {
        let Some(input) = case.text else { continue };
        total += 1;
        let options = SubstituteOptions {
            strict: case.strict,
            ..Default::default()
        };
        let got = text(&input, case.vars.as_ref().unwrap_or(&shared), options);
        let same = match (&got, &answer.text, &answer.error) {
            (Ok(got), Some(expected), _) => got == expected,
            // A split UTF-8 character: Flux writes the bytes, and its YAML parser refuses them.
            (Err(error), Some(expected), _) => {
                expected.contains('\u{FFFD}') && error.to_string().contains("inside a character")
            }
            // Flux's own panics are errors here.
            (Err(_), None, Some(expected)) if expected.starts_with("panic:") => true,
            (Err(error), None, Some(expected)) => error.to_string().starts_with(&format!(
                "envsubst error: variable substitution failed: {expected}"
            )),
            _ => false,
        };
        if !same {
            failed.push(format!(
                "{} {input:?}: got {got:?}, expected {:?} {:?}",
                case.name, answer.text, answer.error
            ));
        }
    }
    println!("{} / {total}", total - failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn objects_as_flux_substitutes_them() {
    let (shared, pairs) = corpus();
    let mut failed = Vec::new();
    let mut total = 0;
    for (case, answer) in pairs {
        let Some(input) = &case.object else { continue };
        total += 1;
        let options = SubstituteOptions {
            strict: case.strict,
            always: case.always,
            ..Default::default()
        };
        let got = object(input, case.vars.as_ref().unwrap_or(&shared), options);
        let same = match (&got, &answer.object, &answer.error) {
            (Ok(got), Some(expected), _) => same_value(&got.to_value(), expected),
            // An object that lost its kind or its name is refused at once: Flux drops it, or fails
            // later.
            (Err(_), Some(expected), _) => Object::new(expected.clone()).is_err(),
            (Err(error), None, Some(expected)) => {
                let known = ["var name is invalid", "not set", "missing closing"];
                known
                    .iter()
                    .all(|words| expected.contains(words) == error.to_string().contains(words))
            }
            _ => false,
        };
        if !same {
            failed.push(format!(
                "{} got {got:?}, expected {:?} {:?}",
                case.name, answer.object, answer.error
            ));
        }
    }
    println!("{} / {total}", total - failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Compares values, with `1` and `1.0` as the same number.
fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(k, v)| b.get(k).is_some_and(|w| same_value(v, w)))
        }
        _ => a == b,
    }
}
