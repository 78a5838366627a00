//! The signals of watches to the timer.

use tokio::sync::Notify;

/// The work that watches want from the timer.
#[derive(Default)]
pub(crate) struct Wanted {
    /// A sweep of all hubs.
    pub(crate) sweep: Notify,
    /// The reconciliation of Capsule's accounts.
    pub(crate) capsule: Notify,
}
