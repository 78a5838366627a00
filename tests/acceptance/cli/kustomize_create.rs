//! `kustomize create`: the recorded answers, with which the tests of the command compare it, are
//! those of the real tool.

use driftless_harness::kustomize_create::{Case, answer, cases, record};
use driftless_harness::tools;
use std::process::Command;

#[test]
fn kustomize_create_answers_as_recorded() {
    let home = tempfile::tempdir().expect("a home");
    let real = |case: Case| {
        let mut tool = Command::new(tools::KUSTOMIZE.path());
        tool.env_clear().env("HOME", home.path()).arg("create");
        let answer = answer(tool, &case);
        (case, answer)
    };
    let answers: Vec<_> = cases().into_iter().map(real).collect();
    if std::env::var_os("DRIFTLESS_WRITE").is_some() {
        record(&answers);
        return;
    }
    let wrong: Vec<String> = answers
        .iter()
        .filter(|(case, answer)| case.expected != *answer)
        .map(|(case, answer)| format!("== {}\n{answer}\nrecorded:\n{}", case.title, case.expected))
        .collect();
    println!(
        "{} answers are those of kustomize",
        answers.len() - wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
