//! The tests of this crate from outside, in one program: every program of its own links all crates once more.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their cases, or make their own input"
)]

mod charts;
mod corpus;
mod hostile;
