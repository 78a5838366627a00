//! The tests of this crate from outside, in one program: every program of its own links all crates once more.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their corpus, print a score and measure time"
)]

mod yaml_corpus;
mod yaml_limits;
