//! Random charts with the recorded answers of Helm 3 and Helm 4 (from `tests/oracle/helm`): the
//! same manifests, hooks and notes, or both refuse, with the same message where the engine
//! reproduces Helm's.

#[path = "../common/answer.rs"]
mod answer;

use answer::{answer, fit, input, pretty};
use driftless_helm::Compat;
use serde_json::Value;
use std::path::Path;

#[test]
fn renders_recorded_charts_as_helm_does() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/helm/generated.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let mut bad = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        count += 1;
        for (key, compat) in [("helm3", Compat::Helm3), ("helm4", Compat::Helm4)] {
            let ours = answer(&input(&case), compat);
            if !fit(&case[key], &ours) {
                let (want, got) = (pretty(&case[key]), pretty(&ours));
                bad.push(format!(
                    "line {count}, {key}\n-- want\n{want}\n-- got\n{got}"
                ));
            }
        }
    }
    println!("{} charts, {} differences", count, bad.len());
    assert!(count > 0 && bad.is_empty(), "{}", bad.join("\n"));
}
