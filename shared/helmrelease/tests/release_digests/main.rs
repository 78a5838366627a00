//! The integration tests of this crate.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests read their cases"
)]

mod helm_digests;
