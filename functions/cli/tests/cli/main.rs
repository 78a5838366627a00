//! The `driftless` command as people use it: the built binary against real API servers and a GitHub stub.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by a panic that says what was expected, and tell how long things took"
)]

mod bootstrap_github;
mod check;
mod check_on_public_shapes;
mod check_truth;
mod create;
mod definitions;
mod demo;
mod demo_on_a_terminal;
mod doctor;
mod embedded;
mod help;
mod hostile;
mod layout;
mod layout_served;
mod login;
mod names;
mod picture;
mod reference;
mod refusals;
mod remote;
mod seeded_mistakes;
mod served;
mod template;
mod terminal;
mod usage;
