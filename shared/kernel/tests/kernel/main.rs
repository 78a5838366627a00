//! The integration tests of this crate, in one program: each further program would link all crates
//! again. They are the tests that run on ports in memory.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by a panic"
)]

mod audit;
mod blobs;
mod functions;
mod hub;
mod journal;
mod schedule;
mod state;
mod throttle;
