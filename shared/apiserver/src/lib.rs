//! An in-memory Kubernetes API server, sans I/O: requests in, answers and watch events out.
//!
//! ```
//! use driftless_apiserver::{Moment, Request, Server, User};
//! let moment = |seed| Moment { now: jiff::Timestamp::UNIX_EPOCH, seed };
//! let mut server = Server::new(moment(0));
//! let request = Request {
//!     method: "GET".into(),
//!     path: "/api/v1/namespaces/default".into(),
//!     user: User::admin("me"),
//!     ..Request::default()
//! };
//! let answer = server.handle(&request, moment(1));
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
mod aggregation;
mod apply;
mod body;
mod bootstrap;
mod codec;
mod controllers;
mod convert;
mod crd;
mod defaults;
mod delete;
mod discovery;
mod error;
mod escalation;
mod impersonation;
mod json;
pub mod merge;
mod names;
mod openapi;
mod options;
mod ownership;
mod patch;
mod protobuf;
mod quantity;
mod rbac;
mod read;
mod registry;
mod request;
mod scale;
pub mod schema;
mod selector;
mod server;
mod store;
mod strategy;
mod table;
mod target;
mod tokens;
mod validate;
mod virtuals;
mod watch;
mod workloads;
mod write;

pub use request::{Body, Moment, Request, Response, User};
pub use server::Server;
pub use store::HISTORY;
pub use watch::Watch;
