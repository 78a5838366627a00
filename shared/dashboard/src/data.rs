//! What the router asks for.

use crate::actions::Action;
use crate::model::{Journals, Place, Row, Snapshot};
use async_trait::async_trait;
use driftless_flux::ObjectRef;
use driftless_kernel::journal::Journal;
use std::fmt;
use std::sync::Arc;

/// The state of the fleets, and the actions on it.
#[async_trait]
pub trait Data: Send + Sync {
    /// Returns the state of all hubs. A hub that cannot be read is a value, not an error.
    ///
    /// # Errors
    /// The registry of hubs cannot be read.
    async fn snapshot(&self) -> Result<Arc<Snapshot>, DataError>;

    /// Returns a state that may be minutes old, for the first paint of a page that then asks for
    /// the current one.
    ///
    /// # Errors
    /// Those of [`Data::snapshot`].
    async fn recent(&self) -> Result<Arc<Snapshot>, DataError> {
        self.snapshot().await
    }

    /// Returns the journal of an object.
    ///
    /// # Errors
    /// The bucket cannot be read.
    async fn journal(&self, hub: &str, object: &ObjectRef) -> Result<Journal, DataError>;

    /// Returns the journals of all objects of a hub.
    ///
    /// # Errors
    /// The bucket cannot be read.
    async fn journals(&self, hub: &str) -> Result<Arc<Journals>, DataError>;

    /// Returns the place that the failure of an object comes from, if it can be found.
    async fn place(&self, row: &Row, snapshot: &Snapshot) -> Option<Place>;

    /// Changes an object as a user asked for.
    ///
    /// # Errors
    /// The hub refuses the change, or does not answer.
    async fn act(&self, hub: &str, object: &ObjectRef, action: &Action) -> Result<(), DataError>;
}

/// A description of what was tried and why it failed. It has no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataError(pub String);

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<driftless_kernel::failure::Failure> for DataError {
    fn from(failure: driftless_kernel::failure::Failure) -> Self {
        Self(failure.message)
    }
}

impl From<driftless_kernel::ports::PortError> for DataError {
    fn from(error: driftless_kernel::ports::PortError) -> Self {
        Self(error.message)
    }
}
