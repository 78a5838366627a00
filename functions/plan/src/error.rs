//! The reason that a plan was not made.

use driftless_adapters::lambda::UnreadableMessage;
use driftless_kernel::ports::PortError;

/// The reason that a plan was not made, so that its message returns to the queue.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The message has another form.
    #[error(transparent)]
    Message(#[from] UnreadableMessage),
    /// The Git host or the bucket does not answer, or refuses a request.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The message names no repository.
    #[error("the repository's address is not valid")]
    InvalidRepository,
    /// The lease of the pull request is held.
    #[error("another worker makes a plan of the pull request")]
    Busy,
    /// The lease of the pull request ended during the plan.
    #[error("the lease of the pull request is over")]
    LeaseOver,
    /// The plan itself failed, for a reason that is not the fleet's.
    #[error("{0}")]
    Internal(String),
}
