//! The only I/O of driftless: GitHub, AWS, Kubernetes, and their local stand-ins.
//!
//! Every module implements traits of [`driftless_core::ports`] and knows no other module here, but for [`embedded`],
//! whose servers are reached by [`cluster`]'s client; [`config`] wires them.

pub mod aws;
pub mod charts;
pub mod clouds;
pub mod cluster;
mod compute;
pub mod config;
pub mod embedded;
mod fresh;
pub mod git;
mod key;
pub mod local;
pub mod log;
mod lookup;
pub mod offline;
mod service;
mod web;
