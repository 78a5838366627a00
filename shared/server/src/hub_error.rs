//! The error of reading a hub.

use driftless_kernel::failure::Failure;
use driftless_kernel::ports::PortError;

/// The objects of a hub cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum HubError {
    /// The hub cannot be connected to.
    Connect(#[from] Failure),
    /// The hub does not list its objects.
    List(#[from] PortError),
}
