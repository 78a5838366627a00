//! The core of driftless: Flux objects, steps, plans, health, over its own ports.

pub mod substitute;
