//! The integration tests of this crate, in one program: each further program would link all crates
//! again.

#![expect(clippy::unwrap_used, reason = "a test ends by a panic")]

mod api_answers;
mod aws_logins;
mod bucket_answers;
mod cloud_answers;
mod embedded;
mod follow;
mod key_services;
mod registry_logins;
mod s3_answers;
mod vault;
