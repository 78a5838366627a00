//! Compares the local drift detection with a real API server's dry-runs (`tests/oracle/drift`).

use driftless_manifest::Object;
use driftless_plans::apply::change_detection::{Drift, compare};
use driftless_plans::apply::normalize;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    desired: Object,
}

#[derive(Deserialize)]
struct Answer {
    name: String,
    live: Object,
    changed: bool,
}

fn read(file: &str) -> String {
    let path = format!(
        "{}/../../tests/corpus/drift/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn drift_detection_agrees_with_a_dry_run() {
    let cases: Vec<Case> = serde_json::from_str(&read("cases.json")).unwrap();
    let answers = read("answers.jsonl");
    let answers: Vec<Answer> = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(cases.len(), answers.len());
    let (mut correct, mut unknown, mut needless, mut missed) =
        (0, Vec::new(), Vec::new(), Vec::new());
    for (mut case, answer) in cases.into_iter().zip(answers) {
        assert_eq!(case.name, answer.name);
        normalize::object(&mut case.desired);
        match (
            compare(&case.desired, &answer.live, "kustomize-controller"),
            answer.changed,
        ) {
            (Drift::Unchanged, false) | (Drift::Configured, true) => correct += 1,
            (Drift::Unknown, _) => unknown.push(case.name),
            (Drift::Configured, false) => needless.push(case.name),
            (Drift::Unchanged, true) => missed.push(case.name),
        }
    }
    println!(
        "correct {correct}, unknown {}, needless {}, missed {}",
        unknown.len(),
        needless.len(),
        missed.len()
    );
    println!("unknown {unknown:?}\nneedless {needless:?}\nmissed {missed:?}");
    assert!(missed.is_empty(), "changes that were not seen: {missed:?}");
}
