//! The tests of this crate from outside, in one program: every program of its own links all crates once more.

#![expect(clippy::unwrap_used, reason = "a test ends by a panic")]

mod api_answers;
mod aws_logins;
mod cloud_answers;
mod embedded;
mod registry_logins;
mod s3_answers;
