//! Tests with repositories that git made, served by git itself and by servers that lie.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the tests make repositories with git, and fail where that fails"
)]

mod clone;
mod hostile;
mod parts;
#[allow(dead_code, reason = "these tests need programs, no material")]
#[path = "../../../../tests/harness/src/skip.rs"]
mod skip;
mod ssh;
mod submodules;
mod world;
