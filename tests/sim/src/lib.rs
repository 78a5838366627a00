//! A deterministic simulation of driftless: the whole core with models of all services around it,
//! in virtual time.
//!
//! README.md of this crate lists what is modelled, the invariants that are checked, and how a run
//! is replayed.

pub mod bucket;
pub mod bugs;
pub mod check;
pub mod clock;
pub mod cost;
pub mod crash;
pub mod economy;
pub mod environments;
pub mod fleet;
pub mod gate;
pub mod git;
pub mod isolation;
pub mod keys;
pub mod lambda;
pub mod leases;
pub mod log;
pub mod operations;
pub mod poller;
pub mod queue;
pub mod rng;
pub mod run;
pub mod scale;
pub mod scenario;
pub mod servers;
pub mod trace;
pub mod world;

/// A run makes many small allocations: with the system's allocator, they took a third of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
