//! The connection to the live clusters of a fleet.

use super::owner::Owner;
use async_trait::async_trait;
use driftless_kernel::ports::Clock;
use driftless_kernel::target::Target;

/// The reason why a live cluster cannot be used for an object; it contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// The live clusters of a fleet.
#[async_trait]
pub trait LiveClusters: Send + Sync {
    /// Connects to the cluster that a Kustomization or HelmRelease of a hub works on, as the user
    /// that its step acts as.
    ///
    /// # Errors
    /// The hub is not known, or the cluster cannot be connected to as that user.
    async fn connect(&self, hub: &str, owner: &Owner) -> Result<Target, Unreachable>;

    /// Returns whether the objects of a Kustomization or HelmRelease may be compared. Both states
    /// of it must be allowed; otherwise the objects are compared with the base.
    fn allows(&self, owner: &Owner) -> bool {
        let _ = owner;
        true
    }

    /// Returns the clock that limits the time of a comparison.
    fn clock(&self) -> &dyn Clock;
}
