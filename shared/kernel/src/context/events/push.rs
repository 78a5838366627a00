//! The push that an event is about: a revision that a source has received a short time before.

use crate::context::Context;
use crate::failure::Failure;
use crate::journal::{self, StepResult};
use driftless_flux::{
    FluxEvent, FluxKind, ObjectRef, kustomization_of, meta_key, reason, source_of,
};
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The time after which the events about a revision are no longer about its push, and after which a
/// push is reported although not all of its objects have landed.
pub const LIMIT: Duration = Duration::from_secs(10 * 60);

/// A push on a hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRef {
    /// The revision, such as `main@sha1:...`.
    pub revision: String,
    /// The namespace of a source that received it.
    namespace: String,
    /// The name of that source.
    name: String,
    /// The kind of that source.
    kind: String,
}

impl PushRef {
    fn new(revision: &str, source: &ObjectRef) -> Self {
        Self {
            revision: revision.to_owned(),
            namespace: source.namespace.clone(),
            name: source.name.clone(),
            kind: source.kind.as_str().to_owned(),
        }
    }

    /// Returns the source; `None` if the kind is unknown, in a record of a newer version.
    pub fn source(&self) -> Option<ObjectRef> {
        let kind = FluxKind::parse(&self.kind)?;
        Some(ObjectRef::new(kind, &self.namespace, &self.name))
    }
}

/// Returns the push that an event about an object is part of; `None` if it is about no revision, or
/// about one that was received longer ago. The events of a HelmRelease count to the push of the
/// Kustomization that applied it.
///
/// # Errors
/// The hub's and the bucket's.
pub async fn of(
    context: &Context<'_>,
    object: &Object,
    event: &FluxEvent,
) -> Result<Option<PushRef>, Failure> {
    let id = &context.id;
    let own = event.own(meta_key::REVISION).unwrap_or_default();
    let (revision, source) = match id.kind {
        kind if is_pushed_to(kind) && event.reason == reason::NEW_ARTIFACT => {
            return Ok(is_hash(own).then(|| PushRef::new(own, id)));
        }
        FluxKind::Kustomization => (own.to_owned(), source_of(object)),
        FluxKind::HelmRelease => {
            let Some(owner) = kustomization_of(object) else {
                return Ok(None);
            };
            let Some(owner) = context.hub.get(&owner).await? else {
                return Ok(None);
            };
            let revision = owner.pointer("/status/lastAttemptedRevision");
            let revision = revision.and_then(Value::as_str).unwrap_or_default();
            (revision.to_owned(), source_of(&owner))
        }
        _ => return Ok(None),
    };
    let Some(source) = source.filter(|source| is_pushed_to(source.kind) && is_hash(&revision))
    else {
        return Ok(None);
    };
    let journal = journal::read(
        context.ports.blobs.as_ref(),
        &context.hub.settings.name,
        &source,
    )
    .await?;
    let now = context.ports.clock.now();
    let is_recent = journal.entries.iter().any(|entry| {
        entry.result == StepResult::NewRevision
            && entry.revision == revision
            && now.saturating_sub(Duration::from_millis(entry.started)) < LIMIT
    });
    Ok(is_recent.then(|| PushRef::new(&revision, &source)))
}

/// Returns whether a push gives a source of this kind a new revision.
pub fn is_pushed_to(kind: FluxKind) -> bool {
    matches!(
        kind,
        FluxKind::GitRepository | FluxKind::OCIRepository | FluxKind::Bucket
    )
}

/// Returns whether a revision names a hash, and so one content: the version of a chart does not.
fn is_hash(revision: &str) -> bool {
    revision.contains(':')
}
