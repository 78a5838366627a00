//! The integration tests of this crate, in one program: each further program would link all crates
//! again.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their corpus, print a score and measure time"
)]

mod yaml_corpus;
mod yaml_limits;
