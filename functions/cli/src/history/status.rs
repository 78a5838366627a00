//! The history that the status of an object and its events have.

use crate::error::Error;
use crate::hub;
use crate::ready::{shorten, text};
use crate::term;
use driftless_flux::{FluxKind, parse_rfc3339, rfc3339};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ErrorKind, ListRequest};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};

/// The header of the table of entries.
pub const HEADER: [&str; 7] = [
    "Revision", "First", "Last", "Took", "Count", "Result", "Detail",
];

/// Returns the entries of an object, the newest first.
///
/// # Errors
/// The events of a source cannot be read.
pub async fn entries(hub: &Hub, kind: FluxKind, object: &Object) -> Result<Vec<Entry>, Error> {
    Ok(match kind {
        FluxKind::Kustomization => kustomization(object),
        FluxKind::HelmRelease => release(object),
        _ => source(object, &events(hub, object).await?),
    })
}

/// One entry of the history.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    revision: String,
    first: String,
    last: String,
    took: String,
    count: i64,
    result: String,
    detail: String,
}

impl Entry {
    /// Returns the row of a table with the header [`HEADER`].
    pub fn row(&self) -> Vec<String> {
        let count = match self.count {
            0 => String::new(),
            count => count.to_string(),
        };
        vec![
            shorten(&self.revision),
            self.first.clone(),
            self.last.clone(),
            self.took.clone(),
            count,
            self.result.clone(),
            shorten(&self.detail)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
        ]
    }

    /// Returns the entry as a document.
    pub fn document(&self) -> Value {
        let fields = [
            ("revision", &self.revision),
            ("first", &self.first),
            ("last", &self.last),
            ("took", &self.took),
            ("result", &self.result),
            ("detail", &self.detail),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let mut document: Value = fields
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        if self.count > 0 {
            document["count"] = self.count.into();
        }
        document
    }
}

fn history(object: &Object) -> impl Iterator<Item = &Value> {
    let history = object.pointer("/status/history").and_then(Value::as_array);
    history.into_iter().flatten()
}

fn part(entry: &Value, pointer: &str) -> String {
    let text = entry.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Returns the results of a Kustomization: one entry for each render.
fn kustomization(object: &Object) -> Vec<Entry> {
    let entry = |entry: &Value| Entry {
        revision: part(entry, "/metadata/revision"),
        first: part(entry, "/firstReconciled"),
        last: part(entry, "/lastReconciled"),
        took: part(entry, "/lastReconciledDuration"),
        count: entry["totalReconciliations"].as_i64().unwrap_or(0),
        result: part(entry, "/lastReconciledStatus"),
        detail: part(entry, "/digest"),
    };
    history(object).map(entry).collect()
}

/// Returns the revisions of a release.
fn release(object: &Object) -> Vec<Entry> {
    let entry = |entry: &Value| {
        let (first, last) = (part(entry, "/firstDeployed"), part(entry, "/lastDeployed"));
        let chart = format!(
            "{}@{}",
            part(entry, "/chartName"),
            part(entry, "/chartVersion")
        );
        let mut detail = chart;
        for (field, label) in [("appVersion", "app"), ("deleted", "deleted")] {
            let value = part(entry, &format!("/{field}"));
            if !value.is_empty() {
                detail.push_str(&format!(", {label} {value}"));
            }
        }
        Entry {
            revision: format!(
                "{}.v{}",
                part(entry, "/name"),
                entry["version"].as_i64().unwrap_or(0)
            ),
            first,
            last,
            took: String::new(),
            count: 0,
            result: part(entry, "/status"),
            detail,
        }
    };
    history(object).map(entry).collect()
}

/// Returns the artifact of a source, and what its events say.
fn source(object: &Object, events: &[Object]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = events
        .iter()
        .map(|event| {
            let time = |field: &str| text(event, field);
            let first = time("/firstTimestamp")
                .or_else(|| time("/eventTime"))
                .unwrap_or_default();
            Entry {
                revision: annotated_revision(event),
                last: time("/lastTimestamp").unwrap_or_else(|| first.clone()),
                first,
                took: String::new(),
                count: event.pointer("/count").and_then(Value::as_i64).unwrap_or(0),
                result: text(event, "/reason").unwrap_or_default(),
                detail: text(event, "/message").unwrap_or_default(),
            }
        })
        .collect();
    let current = text(object, "/status/artifact/revision");
    if let Some(revision) = current
        && !entries.iter().any(|entry| entry.revision == revision)
    {
        let time = text(object, "/status/artifact/lastUpdateTime").unwrap_or_default();
        entries.push(Entry {
            revision,
            first: time.clone(),
            last: time,
            took: String::new(),
            count: 0,
            result: "Stored".to_owned(),
            detail: text(object, "/status/artifact/digest").unwrap_or_default(),
        });
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(parse_rfc3339(&entry.last)));
    for entry in &mut entries {
        // Events have microseconds, statuses have seconds.
        for time in [&mut entry.first, &mut entry.last] {
            if let Some(parsed) = parse_rfc3339(time) {
                *time = rfc3339(parsed);
            }
        }
    }
    entries
}

/// Returns the revision in the annotations of an event of Flux.
fn annotated_revision(event: &Object) -> String {
    let annotations = event.meta_map("annotations").into_iter().flatten();
    let mut revisions = annotations.filter(|(key, _)| key.ends_with("toolkit.fluxcd.io/revision"));
    let revision = revisions.next().and_then(|(_, value)| value.as_str());
    revision.unwrap_or_default().to_owned()
}

/// Lists the events of an object.
async fn events(hub: &Hub, object: &Object) -> Result<Vec<Object>, Error> {
    let resource = hub::resource(hub.cluster.as_ref(), &Gvk::new("v1", "Event")).await?;
    let request = ListRequest {
        namespace: object.namespace(),
        ..ListRequest::all(&resource)
    };
    let events = match hub.cluster.list(&request).await {
        Ok(events) => events,
        Err(error) if error.kind == ErrorKind::Denied => {
            term::failure("the events cannot be read: only the current artifact is known");
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    let is_of = |event: &Object| {
        let text =
            |field: &str| text(event, &format!("/involvedObject/{field}")).unwrap_or_default();
        text("kind") == object.kind() && text("name") == object.name()
    };
    Ok(events.into_iter().filter(is_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, version: &str, status: Value) -> Object {
        Object::new(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "b"}, "status": status}))
            .unwrap()
    }

    #[test]
    fn a_kustomization_has_its_results() {
        let status = json!({"history": [{"digest": "sha256:1", "firstReconciled": "2026-01-01T00:00:00Z",
            "lastReconciled": "2026-01-02T00:00:00Z", "lastReconciledDuration": "1.2s", "lastReconciledStatus": "HealthCheckFailed",
            "totalReconciliations": 3, "metadata": {"revision": "main@sha1:1"}}]});
        let entries = kustomization(&object(
            "Kustomization",
            "kustomize.toolkit.fluxcd.io/v1",
            status,
        ));
        assert_eq!(
            entries[0].row(),
            [
                "main@sha1:1",
                "2026-01-01T00:00:00Z",
                "2026-01-02T00:00:00Z",
                "1.2s",
                "3",
                "HealthCheckFailed",
                "sha256:1"
            ]
        );
    }

    #[test]
    fn a_release_has_its_revisions() {
        let status = json!({"history": [{"name": "web", "version": 2, "status": "deployed", "chartName": "web",
            "chartVersion": "1.2.0", "appVersion": "7", "firstDeployed": "2026-01-01T00:00:00Z", "lastDeployed": "2026-01-02T00:00:00Z"}]});
        let entries = release(&object("HelmRelease", "helm.toolkit.fluxcd.io/v2", status));
        assert_eq!(entries[0].revision, "web.v2");
        assert_eq!(entries[0].detail, "web@1.2.0, app 7");
        assert_eq!(entries[0].document()["result"], "deployed");
    }

    #[test]
    fn a_source_has_its_events_and_its_artifact() {
        let status = json!({"artifact": {"revision": "main@sha1:2", "lastUpdateTime": "2026-01-02T00:00:00Z", "digest": "sha256:2"}});
        let git = object("GitRepository", "source.toolkit.fluxcd.io/v1", status);
        let event = json!({"apiVersion": "v1", "kind": "Event", "reason": "NewArtifact", "message": "stored", "count": 1,
            "metadata": {"name": "e", "annotations": {"source.toolkit.fluxcd.io/revision": "main@sha1:1"}},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"});
        let entries = source(&git, &[Object::new(event).unwrap()]);
        let found: Vec<(&str, &str)> = entries
            .iter()
            .map(|entry| (entry.revision.as_str(), entry.result.as_str()))
            .collect();
        assert_eq!(
            found,
            [("main@sha1:2", "Stored"), ("main@sha1:1", "NewArtifact")]
        );
    }
}
