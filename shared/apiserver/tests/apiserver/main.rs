//! The tests of this crate from outside, in one program: every program of its own links all crates once more.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their corpus and say what they found"
)]

mod contract;
mod merge;
mod policies;
mod server;
