//! What the step of every kind uses: the ports to everything outside, records in the bucket,
//! registered hubs, leases and messages, the status and the events of an object, and the course of
//! a step.
//!
//! - [`ports`]: the traits that adapters implement. [`failure`]: the errors of a step.
//! - [`state`], [`functions`], [`journal`], [`audit`]: records in the bucket. [`hub`]: the
//!   registered hubs.
//! - [`schedule`] decides which worker reconciles an object, and when. [`context`] is the state of
//!   a step and its outcome; [`driver`] is the common course of a step.
//! - [`applier`] is the one writer of users' objects.
//! - [`cloud`] and [`target`]: identities at clouds, access to a cluster.

pub mod address;
pub mod applier;
pub mod audit;
mod bounded_cache;
pub mod cloud;
pub mod concurrent;
pub mod context;
pub mod credentials;
pub mod dependencies;
pub mod document;
pub mod driver;
pub mod failure;
pub mod file_cache;
pub mod functions;
pub mod hub;
pub mod interruption;
pub mod journal;
pub mod kubeconfig;
pub mod packed_files;
mod pattern;
pub mod ports;
pub mod repository;
pub mod schedule;
pub mod state;
pub mod target;

pub use pattern::pattern;
