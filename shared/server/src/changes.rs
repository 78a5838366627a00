//! Detects changes of users on the hub, so that a sweep follows at once and not at the next tick of
//! the timer.

use crate::hub_error::HubError;
use driftless_flux::{FluxKind, REQUESTED_AT};
use driftless_kernel::hub;
use driftless_kernel::ports::Ports;
use driftless_manifest::Object;
use std::collections::BTreeSet;

/// The versions of the hub's objects at the last check.
pub(crate) struct ChangeDetector {
    hub: String,
    seen: Option<BTreeSet<ObjectVersion>>,
}

/// The fields of an object that change with its spec or a request, but not with its status.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ObjectVersion {
    uid: String,
    generation: i64,
    requested_at: String,
    deleted_at: String,
}

impl ChangeDetector {
    /// Returns a detector for a hub that was not checked yet.
    pub(crate) fn new(hub: &str) -> Self {
        Self {
            hub: hub.to_owned(),
            seen: None,
        }
    }

    /// Returns whether anything has changed since the last check; true at the first check. False
    /// for a hub that cannot be read: the timer's sweep logs the reason.
    pub(crate) async fn changed(&mut self, ports: &Ports) -> bool {
        match object_versions(ports, &self.hub).await {
            Ok(marks) => {
                let marks = Some(marks);
                let changed = self.seen != marks;
                self.seen = marks;
                changed
            }
            Err(error) => {
                tracing::debug!(hub = self.hub, "cannot check for changes: {error}");
                false
            }
        }
    }
}

async fn object_versions(ports: &Ports, name: &str) -> Result<BTreeSet<ObjectVersion>, HubError> {
    let hub = hub::connect(ports, name).await?;
    let lists = FluxKind::ALL.into_iter().map(|kind| hub.list(kind));
    let lists = futures::future::try_join_all(lists).await?;
    Ok(lists.iter().flatten().map(object_version).collect())
}

fn object_version(object: &Object) -> ObjectVersion {
    let generation = object.pointer("/metadata/generation");
    ObjectVersion {
        uid: object.meta("uid").to_owned(),
        generation: generation
            .and_then(serde_json::Value::as_i64)
            .unwrap_or_default(),
        requested_at: object
            .annotation(REQUESTED_AT)
            .unwrap_or_default()
            .to_owned(),
        deleted_at: object.meta("deletionTimestamp").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_new_status_is_not_a_change() {
        let marked = |metadata: Value, status: Value| {
            let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": metadata, "status": status});
            object_version(&Object::new(object).unwrap())
        };
        let before = json!({"name": "apps", "uid": "u", "generation": 1, "resourceVersion": "1"});
        let with = |field: &str, value: Value| {
            let mut metadata = before.clone();
            metadata[field] = value;
            metadata
        };
        let first = marked(before.clone(), json!({}));
        let status = marked(
            with("resourceVersion", json!("2")),
            json!({"observedGeneration": 1}),
        );
        assert!(first == status);
        for (field, value) in [
            ("generation", json!(2)),
            ("uid", json!("v")),
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("annotations", json!({REQUESTED_AT: "now"})),
        ] {
            assert!(first != marked(with(field, value), json!({})), "{field}");
        }
    }
}
