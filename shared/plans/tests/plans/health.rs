//! Compares health with the results of the code that Flux runs (`tests/oracle/kstatus`).

use driftless_fuel::Tank;
use driftless_manifest::Object;
use driftless_plans::health::{
    Assessment, HealthCheck, HealthError, HealthExprs, ReadyExpr, assess, kstatus,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Answer {
    name: String,
    status: Option<String>,
    message: String,
    error: Option<String>,
    flux_status: Option<String>,
    flux_message: String,
    ready: Option<bool>,
}

#[derive(Deserialize)]
struct ObjectCase {
    name: String,
    object: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExprCase {
    name: String,
    current: String,
    failed: Option<String>,
    in_progress: Option<String>,
    object: Value,
}

#[derive(Deserialize)]
struct ReadyCase {
    name: String,
    expr: String,
    #[serde(rename = "self")]
    own: Value,
    dep: Value,
}

/// Expressions whose result differs from Flux's. A difference that no longer exists fails the test.
const GAPS: &[&str] = &[
    // `has(status.phase.x)` of a string is an error here, and false in Flux.
    "478", "480", // google.protobuf.Struct{}: protobuf messages.
    "713", "714",
];

/// Flux checks the types of a readyExpr before it runs; here only its result must be a boolean.
fn is_type_error(answer: &Answer) -> bool {
    let words = [
        "output type mismatch",
        "no matching overload",
        "expected type",
    ];
    answer
        .error
        .as_ref()
        .is_some_and(|error| words.iter().any(|words| error.contains(words)))
}

fn read(file: &str) -> String {
    let path = format!(
        "{}/../../tests/corpus/kstatus/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(path).unwrap()
}

fn corpus<C: DeserializeOwned>(name: &str) -> Vec<(C, Answer)> {
    let cases: Vec<C> = serde_json::from_str(&read(&format!("{name}.json"))).unwrap();
    let answers = read(&format!("{name}.answers.jsonl"));
    let answers: Vec<Answer> = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(cases.len(), answers.len());
    cases.into_iter().zip(answers).collect()
}

fn differs(got: &Result<Assessment, HealthError>, status: Option<&String>, message: &str) -> bool {
    match (got, status.filter(|status| *status != "Unknown")) {
        (Ok(got), Some(status)) => got.status.to_string() != *status || got.message != message,
        (Err(_), None) => false,
        _ => true,
    }
}

#[test]
fn objects_as_kstatus_and_flux_judge_them() {
    let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let mut failed = Vec::new();
    let mut total = 0;
    for (case, answer) in corpus::<ObjectCase>("objects") {
        assert_eq!(case.name, answer.name);
        let object = Object::new(case.object).unwrap();
        total += 1;
        let got = kstatus(&object, now);
        if differs(&got, answer.status.as_ref(), &answer.message) {
            failed.push(format!(
                "{} got {got:?}, expected {:?} {} {:?}",
                case.name, answer.status, answer.message, answer.error
            ));
        }
        if let Some(status) = &answer.flux_status {
            total += 1;
            let got = assess(&object, now);
            if differs(&got, Some(status), &answer.flux_message) {
                failed.push(format!(
                    "{} (Flux) got {got:?}, expected {status} {}",
                    case.name, answer.flux_message
                ));
            }
        }
    }
    println!("{} / {total}", total - failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn health_check_exprs_as_flux_evaluates_them() {
    let mut failed = Vec::new();
    let mut total = 0;
    for (case, answer) in corpus::<ExprCase>("exprs") {
        assert_eq!(case.name, answer.name);
        total += 1;
        let object = Object::new(case.object).unwrap();
        let check = HealthCheck {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            in_progress: case.in_progress,
            failed: case.failed,
            current: case.current,
        };
        let got = HealthExprs::parse(std::slice::from_ref(&check), &Tank::default())
            .and_then(|exprs| exprs.assess(&object).unwrap())
            .map(|assessment| assessment.status.to_string());
        let same = got.as_ref().ok() == answer.status.as_ref();
        if same == GAPS.contains(&case.name.as_str()) {
            failed.push(format!(
                "{check:?} got {got:?}, expected {:?} {:?}",
                answer.status, answer.error
            ));
        }
    }
    println!("{} / {total}", total - failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn ready_exprs_as_flux_evaluates_them() {
    let mut failed = Vec::new();
    let mut total = 0;
    for (case, answer) in corpus::<ReadyCase>("ready") {
        assert_eq!(case.name, answer.name);
        total += 1;
        let got = ReadyExpr::parse(&case.expr, &Tank::default())
            .and_then(|expr| expr.is_ready(&case.own, &case.dep));
        if got.as_ref().ok() != answer.ready.as_ref() && !is_type_error(&answer) {
            failed.push(format!(
                "{} got {got:?}, expected {:?} {:?}",
                case.expr, answer.ready, answer.error
            ));
        }
    }
    println!("{} / {total}", total - failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
