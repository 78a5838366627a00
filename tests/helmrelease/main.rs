//! HelmReleases on embedded API servers: the steps of the core over stores in memory, in virtual time.

mod alternates;
mod charts;
mod client_side;
mod clusters;
mod helm;
mod issued;
mod meanwhile;
mod paths;
mod real;
#[path = "../embedded/recorded.rs"]
mod recorded;
mod registries;
mod sweep;
mod world;
