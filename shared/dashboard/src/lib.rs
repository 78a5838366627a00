//! The dashboard: what the fleets are doing, as pages and as JSON.
//!
//! ```text
//! Request ─▶ router::handle ─▶ Session (who) ─▶ Data (what) ─▶ views / api ─▶ Response
//! ```
//!
//! - [`router`] answers a request. It opens no socket and reads no clock: the caller gives the
//!   time, and a [`Data`].
//! - [`model`] is what pages show; [`gather`] reads it over the ports of the core.
//! - [`auth`] decides who asks: signed cookies, logins by OpenID Connect or GitHub.
//! - [`access`] decides what a user sees and may do. Every page, JSON document and event is made
//!   from a [`model::Snapshot`] that has only the namespaces of the user.
//! - [`views`] renders HTML, [`api`] JSON.

pub mod access;
pub mod actions;
pub mod api;
mod assets;
pub mod auth;
pub mod data;
pub mod gather;
mod graph;
pub mod http;
mod live;
pub mod model;
mod openapi;
mod place;
pub mod query;
pub mod router;
mod text;
pub mod views;

pub use data::{Data, DataError};
pub use gather::PortsData;
pub use http::{Method, Request, Response};
pub use live::Live;
pub use router::{Site, handle};
