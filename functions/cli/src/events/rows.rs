//! Events as rows of a table.

use crate::age;
use driftless_manifest::Object;
use std::time::Duration;

/// Returns the header.
pub fn header(with_namespace: bool) -> Vec<&'static str> {
    let mut header = vec!["Last seen", "Type", "Reason", "Object", "Message"];
    if with_namespace {
        header.insert(0, "Namespace");
    }
    header
}

/// Returns the row of an event.
pub fn row(event: &Object, with_namespace: bool, now: Duration) -> Vec<String> {
    let text = |pointer: &str| text(event, pointer).to_owned();
    let mut row = Vec::new();
    if with_namespace {
        row.push(event.namespace().to_owned());
    }
    let object = format!(
        "{}/{}",
        text("/involvedObject/kind"),
        text("/involvedObject/name")
    );
    // Line breaks in a message would break the table.
    let message = text("/message");
    let message: Vec<&str> = message.split_whitespace().collect();
    row.extend([
        last_seen(event, now),
        text("/type"),
        text("/reason"),
        object,
        message.join(" "),
    ]);
    row
}

fn text<'o>(event: &'o Object, pointer: &str) -> &'o str {
    event
        .pointer(pointer)
        .and_then(|one| one.as_str())
        .unwrap_or_default()
}

/// Returns the time by which events are sorted.
pub fn time(event: &Object) -> Duration {
    let fields = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
    let times = fields
        .iter()
        .filter_map(|field| driftless_flux::parse_rfc3339(text(event, field)));
    times.into_iter().next().unwrap_or_default()
}

/// Returns when an event was last seen, and how often since when.
fn last_seen(event: &Object, now: Duration) -> String {
    let age = |pointer: &str| age::since(text(event, pointer), now);
    let first = match text(event, "/eventTime") {
        "" => age("/firstTimestamp"),
        _ => age("/eventTime"),
    };
    let count = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(|one| one.as_i64())
            .unwrap_or(0)
    };
    if event
        .pointer("/series")
        .is_some_and(|series| !series.is_null())
    {
        let (last, count) = (age("/series/lastObservedTime"), count("/series/count"));
        return format!("{last} (x{count} over {first})");
    }
    match count("/count") {
        count if count > 1 => format!("{} (x{count} over {first})", age("/lastTimestamp")),
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn seen(fields: Value) -> String {
        let mut event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "team-a"},
            "type": "Normal", "reason": "Applied", "message": "two\nlines",
            "involvedObject": {"kind": "Kustomization", "name": "apps"}});
        for (name, value) in fields.as_object().unwrap() {
            event[name] = value.clone();
        }
        let now = driftless_flux::parse_rfc3339("2026-01-01T01:00:00Z").unwrap();
        row(&Object::new(event).unwrap(), true, now).join("|")
    }

    #[test]
    fn repeated_events_have_their_count() {
        assert_eq!(
            seen(
                json!({"firstTimestamp": "2026-01-01T00:59:00Z", "lastTimestamp": "2026-01-01T00:59:00Z", "count": 1})
            ),
            "team-a|60s|Normal|Applied|Kustomization/apps|two lines"
        );
        assert!(
            seen(json!({"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:58:00Z", "count": 3}))
                .contains("|2m (x3 over 60m)|")
        );
        assert!(
            seen(json!({"eventTime": "2026-01-01T00:00:00.000000Z",
                "series": {"count": 2, "lastObservedTime": "2026-01-01T00:59:55.000000Z"}}))
            .contains("|5s (x2 over 60m)|")
        );
        assert!(seen(json!({})).contains("|<unknown>|"));
    }
}
