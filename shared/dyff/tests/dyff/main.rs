//! The report, compared with recorded answers of dyff.

#![expect(clippy::disallowed_methods, reason = "the test reads its cases")]

use driftless_dyff::report;
use serde_json::Value;
use std::path::Path;

#[test]
fn recorded_answers_of_dyff_are_met() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/dyff");
    let read = |file: &str| std::fs::read_to_string(corpus.join(file)).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&read("cases.json")).unwrap();
    let answers = read("answers.jsonl");
    let answers: Vec<Value> = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(cases.len(), answers.len());
    let mut wrong = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        assert_eq!(case["name"], answer["name"]);
        let text = report(&case["live"], &case["applied"], 80);
        if answer["text"] != *text {
            let name = &case["name"];
            let want = answer["text"].as_str().unwrap();
            wrong.push(format!("{name}\nwant:\n{want}\ngot:\n{text}"));
        }
    }
    let (count, all) = (wrong.len(), cases.len());
    assert!(
        wrong.is_empty(),
        "{count} of {all} cases differ\n{}",
        wrong.join("\n")
    );
}

#[test]
fn large_texts_are_compared_in_bounded_time() {
    let text = |step: usize| -> String {
        let line = |at: usize| format!("{}\n", (at * step) % 7919);
        (0..60_000).map(line).collect()
    };
    let object = |text: String| serde_json::json!({ "data": { "a": text } });
    let report = report(&object(text(7)), &object(text(11)), 80);
    assert!(report.contains("value change in multiline text"));
}
