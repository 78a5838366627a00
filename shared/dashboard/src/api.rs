//! The same data as JSON, under `/api/v1`.

use crate::graph;
use crate::http::Response;
use crate::model::{Drift, Place, Row, Snapshot, landed};
use crate::query::{Filter, PAGE};
use crate::text::time;
use driftless_flux::ObjectRef;
use driftless_kernel::journal::{Journal, Push};
use serde_json::{Value, json};

/// Renders an error.
pub fn error(status: u16, text: &str) -> Response {
    Response::json(status, &json!({ "error": text }))
}

/// Renders the fingerprint of what the user sees.
pub fn version(snapshot: &Snapshot) -> Value {
    json!({"version": snapshot.fingerprint(), "taken": time(snapshot.taken)})
}

/// Renders the hubs.
pub fn hubs(snapshot: &Snapshot) -> Value {
    let hubs = snapshot
        .hubs
        .iter()
        .map(|hub| json!({"name": hub.name, "fleet": hub.fleet, "error": hub.error}));
    json!({"hubs": hubs.collect::<Vec<_>>()})
}

fn reference(id: &ObjectRef) -> Value {
    json!({"kind": id.kind.as_str(), "namespace": id.namespace, "name": id.name})
}

fn row(row: &Row) -> Value {
    json!({
        "hub": row.hub, "cluster": row.cluster,
        "kind": row.id.kind.as_str(), "namespace": row.id.namespace, "name": row.id.name,
        "state": row.state.as_str(), "suspended": row.is_suspended,
        "reason": row.reason, "message": row.message,
        "revision": row.revision, "attempted": row.attempted,
        "since": time(row.since), "created": time(row.created),
        "applied": row.applied,
        "owner": row.owner.as_ref().map(reference),
        "source": row.source.as_ref().map(reference),
        "dependsOn": row.depends_on.iter().map(reference).collect::<Vec<_>>(),
        "drift": row.drift,
    })
}

/// Renders a page of the objects that pass a filter.
pub fn objects(snapshot: &Snapshot, filter: &Filter) -> Value {
    let (rows, counts) = filter.apply(snapshot);
    let shown = rows
        .iter()
        .skip((filter.page - 1).saturating_mul(PAGE))
        .take(PAGE);
    let counts = counts
        .iter()
        .map(|(state, count)| (state.as_str().to_owned(), json!(count)));
    json!({
        "total": rows.len(), "page": filter.page, "pages": rows.len().div_ceil(PAGE),
        "states": counts.collect::<serde_json::Map<_, _>>(),
        "objects": shown.map(|one| row(one)).collect::<Vec<_>>(),
    })
}

/// Renders one object with its journal.
pub fn details(of: &Row, place: Option<&Place>, journal: &Journal) -> Value {
    let mut document = row(of);
    document["place"] = place.map_or(
        Value::Null,
        |place| json!({"file": place.file, "line": place.line, "link": place.link}),
    );
    let history = journal.entries.iter().map(|entry| {
        json!({
            "started": time(entry.started), "ended": time(entry.ended),
            "cause": entry.cause, "revision": entry.revision, "result": entry.result,
            "reason": entry.reason, "message": entry.message,
            "changes": entry.changes, "omitted": entry.omitted,
        })
    });
    document["history"] = history.collect();
    document
}

/// Renders the edges of the graph of the objects that pass a filter.
pub fn graph(snapshot: &Snapshot, filter: &Filter) -> Value {
    let (rows, _) = filter.apply(snapshot);
    let edges = graph::edges(rows.iter().copied()).into_iter().map(
        |edge| json!({"hub": edge.hub, "from": reference(&edge.from), "to": reference(&edge.to)}),
    );
    json!({"edges": edges.collect::<Vec<_>>()})
}

/// Renders pushes with their landings.
pub fn pushes(pushes: &[Push]) -> Value {
    let pushes = pushes.iter().map(|push| {
        let sources = push
            .sources
            .iter()
            .map(|(hub, source)| json!({"hub": hub, "object": reference(source)}));
        let landings = push.landings.iter().map(|landing| {
            json!({
                "hub": landing.hub, "object": reference(&landing.object),
                "state": landed(landing).as_str(), "ended": time(landing.ended),
                "tookMilliseconds": landing.ended.saturating_sub(push.received),
                "changed": landing.changed, "message": landing.message,
            })
        });
        json!({
            "revision": push.revision, "received": time(push.received), "message": push.message,
            "tookMilliseconds": push.took(),
            "sources": sources.collect::<Vec<_>>(), "landings": landings.collect::<Vec<_>>(),
        })
    });
    json!({"pushes": pushes.collect::<Vec<_>>()})
}

/// Renders the drift that was found.
pub fn drift(found: &[Drift]) -> Value {
    let found = found.iter().map(|drift| {
        json!({
            "hub": drift.hub, "object": reference(&drift.object), "at": time(drift.at),
            "corrected": drift.corrected, "message": drift.message,
        })
    });
    json!({"drift": found.collect::<Vec<_>>()})
}
