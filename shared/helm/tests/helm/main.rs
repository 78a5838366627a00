//! The external tests of this crate, in one binary: each further binary would link all crates
//! again.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read their cases, build their own input and measure themselves"
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
