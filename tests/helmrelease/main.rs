//! HelmReleases on embedded API servers: the steps of the core over stores in memory, in virtual time.

mod clusters;
mod issued;
mod meanwhile;
mod paths;
mod registries;
mod sweep;
