//! A whole installation in one process: the workers of the queue, the timer that sweeps, the
//! watches of the hub, the HTTP routes, metrics, and the directory that replaces the bucket.
//!
//! ```text
//! DataDirectory ─▶ ports ─▶ register ─▶ Server ─┬─ BackgroundTasks: workers, timer, watches
//!                                               ├─ the deletion of unused artifacts
//!                                               └─ routes: webhook, metrics, dashboard
//! Nats ─▶ ports ─────────────────────▶ Worker ──┬─ receivers of steps and sweeps, timer
//!                                               └─ routes: webhook, metrics
//! ```
//!
//! The caller reads arguments and the environment, creates the ports, and prints.

mod body;
mod connections;
mod dashboard;
mod data_directory;
mod garbage;
mod http;
mod hub_error;
mod last_repository;
mod local;
mod metrics;
mod options;
mod registration;
mod server;
mod signals;
mod tasks;
mod watches;
mod worker;

pub use dashboard::serve_dashboard;
pub use data_directory::{DataDirectory, DataDirectoryError};
pub use garbage::Garbage;
pub use last_repository::LastRepository;
pub use options::ServerOptions;
pub use registration::{RegisterError, Registered, register};
pub use server::{Installation, Server, ServerError};
pub use signals::{SignalError, StopSignals};
pub use tasks::{BackgroundTasks, TaskOptions};
pub use worker::{Worker, WorkerOptions};
