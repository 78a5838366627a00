//! An in-memory Kubernetes API server, sans I/O.

pub mod merge;
pub mod schema;
