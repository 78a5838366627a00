//! The external tests of this crate, in one binary: each further binary would link all crates
//! again.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their cases"
)]

#[path = "../common/mod.rs"]
mod common;
mod corpus;
mod hostile;
