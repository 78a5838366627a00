//! The records of a step for people: the entry in the journal of its object, and the record in the
//! audit log.

use crate::audit;
use crate::context::{Context, Outcome};
use crate::failure::{Class, Failure};
use crate::journal::{self, End, StepResult};
use driftless_flux::{FluxKind, READY};
use driftless_manifest::Object;
use serde_json::Value;
use std::future::Future;
use std::time::Duration;

/// Returns the write of the step's record into the audit log; it writes nothing if the step changed
/// no object. The record is written also if the status cannot be written.
pub fn audit<'a>(
    context: &'a Context<'_>,
    object: &Object,
    now: &Value,
) -> impl Future<Output = ()> + Send + use<'a> {
    let changes = context.events.changes.take_audited();
    let at = context.ports.clock.now();
    let is_written = !changes.is_empty() && !context.is_rehearsal;
    let record = is_written.then(|| audit::Record {
        time: audit::time(at),
        hub: context.hub.settings.name.clone(),
        cluster: cluster(context, object),
        by: context.id.clone(),
        cause: context.cause.clone(),
        revision: revision(now).to_owned(),
        commit: context.events.changes.commit(),
        changes,
    });
    async move {
        if let Some(record) = record {
            audit::write(context.ports, &record, at).await;
        }
    }
}

/// Returns the name of the cluster that an object works on: that of the hub, or the namespace and
/// the name of the kubeconfig of `spec.kubeConfig`.
pub fn cluster(context: &Context<'_>, object: &Object) -> String {
    let places = ["secretRef", "configMapRef"];
    let name = places.iter().find_map(|place| {
        let name = object.pointer(&format!("/spec/kubeConfig/{place}/name"))?;
        name.as_str()
    });
    match name {
        Some(name) => format!("{}/{name}", context.id.namespace),
        None => context.hub.settings.name.clone(),
    }
}

/// Returns the revision in a status; empty before the first.
pub fn revision(now: &Value) -> &str {
    let places = ["/artifact/revision", "/lastAttemptedRevision"];
    let found = places.iter().find_map(|place| now.pointer(place)?.as_str());
    found.unwrap_or_default()
}

/// Writes the entry of a step into the object's journal, if the step changed something that people
/// look for: an object, the revision of a source, or the state.
pub async fn write_journal(
    context: &Context<'_>,
    started: Duration,
    outcome: &Outcome,
    before: &Value,
    now: &Value,
) {
    let Some(result) = news(context, outcome, before, now) else {
        return;
    };
    let ready = condition(now);
    let text = |field: &str| ready[field].as_str().unwrap_or_default();
    let entry = context.events.changes.entry(End {
        started,
        ended: context.ports.clock.now(),
        cause: context.cause.clone(),
        revision: revision(now),
        result,
        ready: (text("reason"), text("message")),
    });
    journal::append(
        context.ports,
        &context.hub.settings.name,
        &context.id,
        entry,
    )
    .await;
}

/// Returns the result of a step that belongs into the journal.
fn news(
    context: &Context<'_>,
    outcome: &Outcome,
    before: &Value,
    now: &Value,
) -> Option<StepResult> {
    let artifact = |status: &Value| status.pointer("/artifact/revision").cloned();
    if artifact(now).is_some() && artifact(now) != artifact(before) {
        return Some(StepResult::NewRevision);
    }
    let (old, new) = (condition(before), condition(now));
    let result = match new["status"].as_str() {
        Some("True") => StepResult::Ready,
        Some("False") => StepResult::Failed,
        _ => StepResult::Progressing,
    };
    let is_said = |fields: &[&str]| fields.iter().all(|field| old[*field] == new[*field]);
    let waits = |failure: &Failure| failure.class == Class::Waiting;
    let is_news = match result {
        StepResult::Failed => {
            !outcome.failure.as_ref().is_some_and(waits)
                && !is_said(&["status", "reason", "message"])
        }
        // Each message of a release is that of an action.
        StepResult::Ready if context.id.kind == FluxKind::HelmRelease => {
            !is_said(&["status", "reason", "message"])
        }
        StepResult::Ready => !is_said(&["status"]),
        _ => false,
    };
    (is_news || context.events.changes.has_changes()).then_some(result)
}

/// Returns the condition `Ready` of a status; `null` if the status does not have it.
fn condition(status: &Value) -> Value {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == READY);
    ready.cloned().unwrap_or_default()
}
