#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod admission;
mod authentication;
mod authorization;
mod bootstrap;
mod controllers;
mod error;
mod expressions;
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
