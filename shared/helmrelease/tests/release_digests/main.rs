//! The integration tests of this crate.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests read their cases"
)]

mod helm_digests;
