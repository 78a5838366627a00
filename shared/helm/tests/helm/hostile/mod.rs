//! Charts that would cost more than allowed, or read files that they must not read.
//!
//! Every case is rendered in a separate process, so that its peak of memory can be read: it is
//! refused with its file's name (or answered like Helm does), within 256 MiB. Its cost is printed;
//! time is not checked here, because tests are not optimised and machines are shared.

mod archives;
mod chart_files;
mod documents;
mod engine;
mod overrides;
mod process;
mod schemas;
mod templates;
mod values;

use engine::Case;

/// Returns all cases of all files.
fn all() -> Vec<Case> {
    [
        archives::cases(),
        chart_files::cases(),
        documents::cases(),
        overrides::cases(),
        schemas::cases(),
        templates::cases(),
        values::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs the case that the environment names, in a process that [`hostile_inputs_are_refused`] has
/// started.
#[test]
fn one_case() {
    process::child(&all());
}

#[test]
fn hostile_inputs_are_refused() {
    let cases = all();
    let mut names: Vec<&str> = cases.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len(), "two cases have the same name");
    let bad = process::run_all(&cases);
    println!("{} / {} cases held", cases.len() - bad.len(), cases.len());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
