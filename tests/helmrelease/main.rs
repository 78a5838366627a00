//! HelmReleases on embedded API servers: the steps of the core over stores in memory, in virtual time.

mod alternates;
mod charts;
mod clusters;
mod paths;
mod sweep;
mod world;
