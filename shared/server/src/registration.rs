//! The registration of the hub that a process serves.

use crate::data_directory;
use driftless_core::bootstrap::{self, Report};
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::{self, Hub, Settings};
use driftless_kernel::ports::{PortError, Ports};

/// A registered hub, and what its installation changed.
pub struct Registered {
    /// The connection to the hub.
    pub hub: Hub,
    /// The objects that were created or updated on the hub.
    pub report: Report,
}

/// The reason why a hub cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The state directory cannot be read or written.
    #[error(transparent)]
    State(#[from] PortError),
    /// The hub cannot be connected to.
    #[error(transparent)]
    Connect(#[from] Failure),
    /// The hub does not accept what it lacks.
    #[error("{server}: the hub does not accept what it lacks")]
    Install {
        /// The address of the hub.
        server: String,
        /// The answer of the hub.
        source: PortError,
    },
}

/// Registers a hub, with or without the state of an earlier process, and installs what it lacks.
///
/// # Errors
/// The state cannot be used, or the hub does not answer or refuses an object.
pub async fn register(ports: &Ports, settings: &Settings) -> Result<Registered, RegisterError> {
    data_directory::forget(ports).await?;
    let settings = hub::with_registered_roots(ports, settings).await?;
    hub::register(ports, &settings).await?;
    let hub = hub::connect(ports, &settings.name).await?;
    match bootstrap::install(hub.cluster.as_ref(), ports.clock.as_ref()).await {
        Ok(report) => Ok(Registered { hub, report }),
        Err(error) => Err(RegisterError::Install {
            server: hub.access.server,
            source: error,
        }),
    }
}
