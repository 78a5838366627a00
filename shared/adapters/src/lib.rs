//! All I/O of driftless: GitHub, AWS, Kubernetes, and their local replacements.
//!
//! Every module implements traits of [`driftless_kernel::ports`] and depends on no other module
//! here, except [`embedded`], whose servers are reached through [`cluster`]'s client. [`config`]
//! wires them.

pub mod aws;
pub mod buckets;
pub mod charts;
mod cloud_http;
pub mod clouds;
pub mod cluster;
mod compute;
pub mod config;
pub mod embedded;
pub mod embedded_metrics;
mod expiring_cache;
pub mod git;
pub mod key_services;
pub mod lambda;
pub mod local;
pub mod log;
pub mod notifications;
pub mod offline;
mod percent;
mod resolver;
#[cfg(test)]
mod self_signed;
mod tenant_http;
pub mod trace;
