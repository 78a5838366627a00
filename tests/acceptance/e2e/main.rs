//! A push to a fleet repository lands on management and remote clusters: the whole way, with real parts.

mod bad_input;
mod binaries;
mod buckets;
mod capsule;
mod charts;
mod kamaji;
mod killed;
mod memory;
mod multi_tenancy;
mod multicluster;
mod sample;
mod signatures;
mod world;
