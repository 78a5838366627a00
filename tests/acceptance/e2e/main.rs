//! A push to a fleet repository reaches management and remote clusters: end to end, with real
//! parts.

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
mod multicluster_whole;
mod recovery;
mod roles;
mod sample;
mod signatures;
mod traces;
mod world;
