//! Starts the real components that driftless works with, on loopback and in
//! temp folders: Kubernetes API servers ([`cluster`]), a GitHub stub over real
//! Git repositories ([`github`]), AWS as MiniStack plays it ([`aws`]).
//!
//! Everything is lazy and shared within a process, needs no container runtime
//! and no network but the package registries that [`tools`] builds from once.
//! What a test started ends with it, also when the test process is killed.

pub mod aws;
pub mod cluster;
pub mod github;
pub mod http;
pub mod ports;
pub mod process;
pub mod tools;
