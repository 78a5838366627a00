//! The external tests of this crate, in one binary: each further binary would link all crates
//! again.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their cases, or build their own input"
)]

mod charts;
mod corpus;
mod hostile;
