//! The content of a notification: which events a Provider gets, and what an Alert adds, as in
//! notification-controller 1.9 (internal/server). Pure.

use crate::flux::{Alert, EVENT_GROUP, FluxEvent, Provider, Severity, meta_key};
use crate::health::{CommitStatusExpr, ExprError};
use serde_json::json;
use std::collections::BTreeMap;

/// The key of `spec.summary`.
const SUMMARY: &str = "summary";

/// Returns whether the type of a Provider gets an event.
pub fn is_for(provider: &Provider, event: &FluxEvent) -> bool {
    let has = |key: &str| event.annotation(key).is_some_and(|value| !value.is_empty());
    let is_update = event.is_commit_status_update();
    if is_update && !provider.is_commit_status() && !provider.is_generic() {
        return false;
    }
    if provider.is_commit_status() {
        // A failure does not update a status, and must be reported on the commit.
        return has(meta_key::COMMIT) || is_update || event.severity == Severity::Error;
    }
    !provider.is_change_request() || has(meta_key::CHANGE_REQUEST)
}

/// Returns the event with the metadata that a Provider gets. From the lowest precedence: the
/// annotations of the object, `spec.eventMetadata` and `spec.summary` of the Alert, and what the
/// object's controller has set (Flux's RFC 0008).
pub fn combined(alert: &Alert, event: &FluxEvent) -> FluxEvent {
    let group = event.involved_object.group();
    let of = |group: &str| {
        let mut found = BTreeMap::new();
        for (key, value) in &event.metadata {
            let key = key
                .strip_prefix(group)
                .and_then(|rest| rest.strip_prefix('/'));
            if let Some(key) = key {
                found.insert(key.to_owned(), value.clone());
            }
        }
        found
    };
    let mut metadata = of(EVENT_GROUP);
    metadata.extend(alert.spec.event_metadata.clone().into_iter().flatten());
    let summary = alert.spec.summary.clone();
    let summary = summary.filter(|summary| !summary.is_empty());
    metadata.extend(summary.map(|summary| (SUMMARY.to_owned(), summary)));
    let mut own = of(group);
    own.retain(|key, _| !is_internal(key));
    metadata.extend(own);
    FluxEvent {
        metadata,
        ..event.clone()
    }
}

/// Returns whether a key is left out of notifications.
fn is_internal(key: &str) -> bool {
    let left_out = [meta_key::CHECKSUM, meta_key::DIGEST];
    key == meta_key::TOKEN || left_out.iter().any(|left| left.eq_ignore_ascii_case(key))
}

/// Returns the id of the commit status of an event; empty for a Provider that sets none.
///
/// # Errors
/// The expression of the Provider has no string as its result.
pub fn commit_status(
    provider: &Provider,
    alert: &Alert,
    event: &FluxEvent,
) -> Result<String, ExprError> {
    if !provider.is_commit_status() {
        return Ok(String::new());
    }
    match provider.commit_status_expr() {
        Some(text) => CommitStatusExpr::parse(text)?.evaluate(
            &json!(event),
            &json!(alert.object.as_map()),
            &json!(provider.object.as_map()),
        ),
        None => {
            let involved = &event.involved_object;
            let uid = provider.object.meta("uid").split('-').next();
            let (kind, name) = (&involved.kind, &involved.name);
            let id = format!("{kind}/{name}/{}", uid.unwrap_or_default());
            Ok(id.to_lowercase())
        }
    }
}
