//! Reads repositories that the real git made, from the real git's server side, and from servers that lie.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests make repositories with git"
)]

mod clone;
mod hostile;
mod ssh;
mod submodules;
mod world;
