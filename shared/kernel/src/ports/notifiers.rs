//! The port to the services that get events.

use super::Connection;
use driftless_notify::Transport;
use std::sync::Arc;

/// The connections to the services of Providers.
pub trait Notifiers: Send + Sync {
    /// Returns whether events are sent. If not, they are not recorded either.
    fn is_used(&self) -> bool {
        true
    }

    /// Returns the transport of one Provider, with its certificates, its proxy and its time limit.
    fn transport(&self, connection: Connection) -> Arc<dyn Transport>;
}
