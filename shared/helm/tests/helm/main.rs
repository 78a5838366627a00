//! The tests of this crate from outside, in one program: every program of its own links all crates once more.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their cases, make their own input and measure themselves"
)]

#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod functions;
mod generated;
mod hostile;
mod hostile_values;
mod record;
mod releases;
#[path = "../../../../tests/harness/src/skip.rs"]
mod skip;
#[path = "../../../../tests/harness/src/usage.rs"]
mod usage;
