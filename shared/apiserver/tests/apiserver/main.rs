//! The integration tests of this crate, in one program: each further program would link all crates
//! again.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their corpus and say what they found"
)]

mod client;
mod contract;
mod merge;
mod policies;
mod server;
