//! The `driftless` command as people use it: the built binary against real API servers and a GitHub stub.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by a panic that says what was expected, and tell how long things took"
)]

mod build;
mod check;
mod command;
mod demo;
mod fleet;
mod flux_controllers;
mod help;
mod issued;
mod refusals;
mod remote;
mod serve;
mod template;
