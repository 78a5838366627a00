//! A deterministic simulation of driftless: the whole core over models of everything around it, in virtual time.
//!
//! README.md beside this crate says what is modelled, which invariants are checked, and how a run is replayed.

pub mod bucket;
pub mod bugs;
pub mod check;
pub mod clock;
pub mod crash;
pub mod economy;
pub mod fleet;
pub mod gate;
pub mod git;
pub mod keys;
pub mod lambda;
pub mod operations;
pub mod queue;
pub mod rng;
pub mod run;
pub mod servers;
pub mod trace;
pub mod world;

/// What a run makes, it makes in small pieces: a third of its time was the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
