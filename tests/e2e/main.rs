//! A push to a fleet repository lands on management and remote clusters: the whole way, with real parts.

mod bad_input;
mod binaries;
mod buckets;
mod charts;
mod deletion;
mod embedded;
mod forgotten;
mod kamaji;
mod killed;
mod memory;
mod multi_tenancy;
mod multicluster;
#[path = "../embedded/recorded.rs"]
mod recorded;
mod remote;
mod sample;
mod signatures;
mod site;
mod tenants;
mod waiting;
mod world;
