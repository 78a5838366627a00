//! Watches that do not end, for a process that stays.

use super::{Change, ErrorKind, PortError, Resource, Result};
use driftless_manifest::Object;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};

/// The objects that a watch follows, in all namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowRequest {
    /// The resource of the objects.
    pub resource: Resource,
    /// The label selector that the objects match; empty for all objects.
    pub labels: String,
    /// The field selector that the objects match; empty for all objects.
    pub fields: String,
    /// True if only the metadata of the objects is needed: nothing else is sent.
    pub is_metadata: bool,
}

impl FollowRequest {
    /// Returns the request for the metadata of all objects of a kind.
    #[must_use]
    pub const fn metadata(resource: Resource) -> Self {
        Self {
            resource,
            labels: String::new(),
            fields: String::new(),
            is_metadata: true,
        }
    }
}

/// An event of a watch that does not end.
#[derive(Clone, Debug, PartialEq)]
pub enum FollowEvent {
    /// A LIST begins. Objects that were known and are not listed are gone.
    Restarted,
    /// An object of the LIST.
    Listed(Object),
    /// The LIST is complete.
    Synced,
    /// An object has changed since the LIST.
    Changed(Change),
}

/// The events of a watch. After an error the watch continues when it is polled again: with a LIST
/// if the API server no longer has all changes.
pub type Following = BoxStream<'static, Result<FollowEvent>>;

/// Returns the events of a client that cannot follow: one error.
pub(super) fn unsupported() -> Following {
    let message = "this client of a cluster cannot watch";
    let error = PortError::new(ErrorKind::Unsupported, message);
    stream::iter([Err(error)]).boxed()
}
