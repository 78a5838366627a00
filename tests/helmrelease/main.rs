//! HelmReleases on embedded API servers: the steps of the core over stores in memory, in virtual
//! time.

mod action_paths;
mod cluster_logins;
mod clusters;
mod concurrent_edits;
mod registries;
mod sweep;
