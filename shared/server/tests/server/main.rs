//! An installation in this process, with a hub in memory and virtual time.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail with the place of the failure"
)]

mod damaged_state;
mod garbage;
mod site;
mod watches;
