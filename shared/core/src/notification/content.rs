//! The content of a notification: which events a Provider gets, and what an Alert adds, as in
//! notification-controller 1.9 (internal/server). Pure.

use driftless_flux::{Alert, EVENT_GROUP, FluxEvent, Provider, Severity, meta_key};
use driftless_fuel::Tank;
use driftless_plans::health::{CommitStatusExpr, ExprError};
use serde_json::json;
use std::collections::BTreeMap;

/// The key of `spec.summary`.
const SUMMARY: &str = "summary";
/// The reason of the event about keys that several sources of metadata have.
pub const CONFLICT_REASON: &str = "MetadataAppendFailed";
/// The message of that event.
pub const CONFLICT_MESSAGE: &str = "metadata key conflicts detected (please refer to the Alert API docs and Flux RFC 0008 for more information)";

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

/// Returns the event with the metadata that a Provider gets, from all sources in the order of their
/// precedence.
pub fn combined(alert: &Alert, event: &FluxEvent) -> FluxEvent {
    let sources = sources(alert, event).into_iter();
    FluxEvent {
        metadata: sources.flat_map(|(_, metadata)| metadata).collect(),
        ..event.clone()
    }
}

/// Returns the keys that several sources of metadata have, each with the names of its sources. The
/// last source has set the value.
pub fn conflicts(alert: &Alert, event: &FluxEvent) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (source, metadata) in sources(alert, event) {
        for key in metadata.into_keys() {
            names.entry(key).or_default().push(source);
        }
    }
    names.retain(|_, sources| sources.len() > 1);
    let names = names.into_iter();
    names.map(|(key, names)| (key, names.join(", "))).collect()
}

/// Returns the sources of an event's metadata with their names, from the lowest precedence: the
/// annotations of the object, `spec.eventMetadata` and `spec.summary` of the Alert, and what the
/// object's controller has set (Flux's RFC 0008).
fn sources(alert: &Alert, event: &FluxEvent) -> [(&'static str, BTreeMap<String, String>); 4] {
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
    let summary = alert.spec.summary.clone();
    let summary = summary.filter(|summary| !summary.is_empty());
    let summary = summary.map(|summary| (SUMMARY.to_owned(), summary));
    let mut own = of(event.involved_object.group());
    own.retain(|key, _| !is_internal(key));
    let of_alert = alert.spec.event_metadata.clone().unwrap_or_default();
    [
        ("involved object annotations", of(EVENT_GROUP)),
        ("Alert object .spec.eventMetadata", of_alert),
        ("Alert object .spec.summary", summary.into_iter().collect()),
        ("involved object controller metadata", own),
    ]
}

/// Returns whether a key is left out of notifications.
fn is_internal(key: &str) -> bool {
    let left_out = [meta_key::CHECKSUM, meta_key::DIGEST];
    key == meta_key::TOKEN || left_out.iter().any(|left| left.eq_ignore_ascii_case(key))
}

/// Returns the id of the commit status of an event; empty for a Provider that sets none. Charges
/// the fuel of the step.
///
/// # Errors
/// The expression of the Provider has no string as its result.
pub fn commit_status(
    provider: &Provider,
    alert: &Alert,
    event: &FluxEvent,
    fuel: &Tank,
) -> Result<String, ExprError> {
    if !provider.is_commit_status() {
        return Ok(String::new());
    }
    match provider.commit_status_expr() {
        Some(text) => CommitStatusExpr::parse(text, fuel)?.evaluate(
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
