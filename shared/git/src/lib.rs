//! Reads commits of Git repositories from any server over smart HTTP and SSH: without a process, a
//! socket that it opens itself, or a C library.
//!
//! ```text
//! Remote ── references ──> names and objects            Network: the caller's client and connector
//!    └───── fetch ──> pack ──> objects ──> FileTree      every step within Limits
//! ```
//!
//! Servers and repositories are not trusted: the id of each object is computed from its bytes, and
//! objects are found by that id only. An exceeded limit is an [`Error::Limit`] that names it.

mod checkout;
mod commit_parts;
mod connection;
mod error;
mod fetch;
mod known_hosts;
mod limits;
mod pack;
mod packets;
mod parts;
mod redirect;
mod remote;
mod smart_http;
mod ssh;
mod submodules;

pub use connection::Reference;
pub use error::{BoxError, Error, Limit, Result};
pub use fetch::{FetchOptions, FetchedCommit, FetchedObjects};
pub use gix_hash::ObjectId;
pub use limits::Limits;
pub use packets::Body;
pub use redirect::{RefusedRedirect, redirect};
pub use remote::{Auth, Duplex, Network, Remote, RemoteUrl, Secret, SshLogin};

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
