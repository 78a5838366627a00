//! Tests of the notifications: requests as recorded from notification-controller, and secrets in
//! failures.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests read the corpus, and fail by panics"
)]

mod corpus;
mod normal;
mod recorder;
mod rest;
mod secrets;
