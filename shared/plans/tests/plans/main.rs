//! The integration tests of this crate, in one program: each further program would link all crates
//! again.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their cases and print how many hold"
)]

mod drift_oracle;
mod health;
mod substitute;
