//! Controllers of a real cluster: aggregated roles get their rules at once, the other controllers
//! run only when called.

pub(crate) mod garbage;
pub(crate) mod roles;
pub(crate) mod workloads;
