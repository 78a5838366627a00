//! Server-side apply without a server: typed values, field sets and field managers, as
//! structured-merge-diff v6 and the field manager of kube-apiserver 1.36 work.
//!
//! [`managers::apply`] merges a configuration into a live object and returns the new managers, or
//! the conflicts; [`managers::update`] returns the managers after any other write. The types of
//! objects are in [`crate::schema`].

pub mod managers;
pub mod set;
mod shape;
pub mod typed;
