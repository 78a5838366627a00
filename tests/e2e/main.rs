//! A push to a fleet repository lands on management and remote clusters: the whole way, with real parts.

mod bad_input;
mod binaries;
mod buckets;
mod charts;
mod embedded;
mod kamaji;
mod multi_tenancy;
mod multicluster;
#[path = "../embedded/recorded.rs"]
mod recorded;
mod remote;
mod sample;
mod signatures;
mod site;
mod waiting;
mod world;
