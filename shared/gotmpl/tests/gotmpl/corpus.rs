//! Cases whose answers Go's own text/template has written: see `tests/oracle/gotmpl`.

use crate::common::{data, run};
use std::path::Path;

/// Runs every case of a file of answers, one JSON object per line.
fn check(name: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let data = data(&std::fs::read_to_string(directory.join("oracle/gotmpl/data.json")).unwrap());
    let text = std::fs::read_to_string(directory.join("corpus/gotmpl").join(name)).unwrap();
    let (mut bad, mut all) = (Vec::new(), 0);
    for line in text.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        all += 1;
        if let Some(why) = run(&case, &data) {
            bad.push(why);
        }
    }
    println!("{name}: {} of {all}", all - bad.len());
    assert!(all > 0, "{name} has no cases");
    if !bad.is_empty() {
        panic!("{} of {all} differ:\n{}", bad.len(), bad.join("\n"));
    }
}

#[test]
fn cases_by_hand() {
    check("answers.jsonl");
}

#[test]
fn generated_cases() {
    check("generated.jsonl");
}
