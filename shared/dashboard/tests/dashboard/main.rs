//! The dashboard over fleets in memory.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail with the place of the failure"
)]

mod login;
mod pages;
mod refusals;
mod world;
