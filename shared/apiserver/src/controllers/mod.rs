//! What controllers do in a real cluster: aggregated roles get their rules at once, the rest is done when asked.

pub(crate) mod garbage;
pub(crate) mod roles;
pub(crate) mod workloads;
