//! The `driftless` command as users run it: the built binary with API servers and a stub of GitHub.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail with a panic that names the expectation, and print durations"
)]

mod audit;
mod bootstrap_github;
mod bootstrap_hosts;
mod capsule;
mod charts;
mod check;
mod check_findings;
mod check_on_public_shapes;
mod completion;
mod create;
mod definitions;
mod delete;

mod demo;
mod demo_on_a_terminal;
mod doctor;
mod embedded;
mod excerpts;
mod help;
mod history;
mod hostile;
mod inspect;
mod inspect_refusals;
mod kustomize_create;
mod layout;
mod layout_served;
mod login;
mod logs;
mod names;
mod picture;
mod plan;
mod reference;
mod refusals;
mod remote;
mod seeded_mistakes;
mod served;
mod template;
mod traces;
mod usage;
mod watch;
