//! The plan to make, with what it is made from.

use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{PlanRequest, Ports, PullRequests};

/// A plan to make.
pub struct Work<'a> {
    /// The ports of the installation.
    pub ports: &'a Ports,
    /// The pull requests of the Git host.
    pub pull_requests: &'a dyn PullRequests,
    /// The message that requests the plan.
    pub request: &'a PlanRequest,
}

/// A hub whose root is the repository.
pub struct ConcernedHub {
    /// The settings of the hub.
    pub settings: Settings,
    /// The names of the roots with the repository.
    pub roots: Vec<String>,
}
