//! An in-memory Kubernetes API server, sans I/O: requests in, answers and watch events out.
//!
//! ```
//! use driftless_apiserver::{Clock, Request, Server, User};
//! let clock = |seed| Clock { now: jiff::Timestamp::UNIX_EPOCH, seed };
//! let mut server = Server::new(clock(0));
//! let request = Request {
//!     method: "GET".into(),
//!     path: "/api/v1/namespaces/default".into(),
//!     user: User::admin("me"),
//!     ..Request::default()
//! };
//! let answer = server.handle(&request, clock(1));
//! assert_eq!(answer.status, 200);
//! ```
//!
//! A [`Server`] is a value: it holds no lock, starts nothing, reads no clock. The time and the seed of uids come
//! with each request. The built-in types and discovery are tables that all servers of a process share; a clone of a
//! server shares its objects until one of them is written.
//!
//! Its behaviour is that of kube-apiserver 1.36, held by recorded answers of the real one (tests/corpus/apiserver).
//! Controllers are not part of it: nothing is collected unless [`Server::settle`] is called, nothing becomes ready
//! unless [`Server::run_workloads`] is. Where it differs on purpose is said in one place, its README.

mod admission;
mod authentication;
mod authorization;
mod bootstrap;
mod controllers;
mod error;
pub mod merge;
mod objects;
mod registry;
mod request;
mod resources;
pub mod schema;
mod server;
mod store;
mod user;
mod values;

pub use request::message::{Body, Request, Response};
pub use request::watch::Watch;
pub use server::Server;
pub use store::HISTORY;
pub use user::User;
pub use values::clock::Clock;
