//! Events about the object of a step: each `Sink` receives every event of a reconciler.

mod kubernetes;
mod matching;
mod notifications;
pub mod pending;
pub mod push;

pub use matching::{MAX_PATTERNS, is_foreign, is_source, pattern, selects};

use super::Context;
use crate::hub::Hub;
use crate::journal;
use crate::ports::{Alerts, PortError, Ports, Request};
use async_trait::async_trait;
use driftless_flux::{
    EVENT_GROUP, FluxEvent, FluxKind, InvolvedObject, Severity, rfc3339, shorten,
};
use driftless_manifest::Object;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest message of an event, in bytes, as in Flux's API of events.
const MAX_MESSAGE: usize = 39_000;
/// The instance of the controller that events name.
const INSTANCE: &str = "driftless";
/// The most bytes of the annotations of an object that its events carry.
const MAX_ANNOTATIONS: usize = 16 << 10;

/// The sinks that receive every event.
const SINKS: [&dyn Sink; 2] = [&kubernetes::Events, &notifications::Alerts];

/// A receiver of events.
#[async_trait]
trait Sink: Sync {
    /// Sends the events about the object of the step, in order.
    ///
    /// # Errors
    /// The errors of the port: at least one event is lost.
    async fn send(
        &self,
        context: &Context<'_>,
        object: &Object,
        events: &[FluxEvent],
    ) -> Result<(), PortError>;
}

/// The records of a step for people: events, which are sent at its end, and the objects that it
/// changed, for the journal.
#[derive(Default)]
pub struct Recorder {
    events: Mutex<Vec<Event>>,
    requests: Mutex<Vec<(Request, Duration)>>,
    alerts: Option<Alerts>,
    /// True if the step has changed Alerts, which a watch may not have seen yet.
    has_changed_alerts: AtomicBool,
    /// The changes of the step.
    pub changes: journal::Recorder,
}

struct Event {
    severity: Severity,
    reason: String,
    message: String,
    metadata: Vec<(String, String)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the Alerts of a hub: those that a watch has seen, else those of a LIST.
///
/// # Errors
/// The cluster's.
pub async fn alerts(ports: &Ports, hub: &Hub) -> Result<Alerts, PortError> {
    match ports.watches.alerts(&hub.settings.name) {
        Some(alerts) => Ok(alerts),
        None => listed_alerts(hub).await,
    }
}

async fn listed_alerts(hub: &Hub) -> Result<Alerts, PortError> {
    Ok(Arc::new(hub.list(FluxKind::Alert).await?))
}

impl Recorder {
    /// Returns an empty recorder. Without `alerts`, the Alerts are read when events are sent.
    pub fn with_alerts(alerts: Option<Alerts>) -> Self {
        Self {
            alerts,
            ..Self::default()
        }
    }

    /// Notes that the step has changed Alerts, so that its events list them.
    pub fn note_changed_alerts(&self) {
        self.has_changed_alerts.store(true, Ordering::Relaxed);
    }

    /// Returns the Alerts of the step's hub.
    async fn alerts(&self, context: &Context<'_>) -> Result<Alerts, PortError> {
        if self.has_changed_alerts.load(Ordering::Relaxed) {
            return listed_alerts(&context.hub).await;
        }
        match &self.alerts {
            Some(alerts) => Ok(alerts.clone()),
            None => alerts(context.ports, &context.hub).await,
        }
    }

    /// Records an event about a revision, which may be empty.
    pub fn record(&self, is_warning: bool, reason: &str, message: &str, revision: &str) {
        self.record_annotated(is_warning, reason, message, &[("revision", revision)]);
    }

    /// Records an event with metadata for the annotations of the kind's group; empty values are
    /// left out.
    pub fn record_annotated(
        &self,
        is_warning: bool,
        reason: &str,
        message: &str,
        metadata: &[(&str, &str)],
    ) {
        let severity = match is_warning {
            true => Severity::Error,
            false => Severity::Info,
        };
        self.push(severity, reason, message, metadata);
    }

    /// Records a detail, which becomes a Kubernetes event and no notification: an event of the type
    /// `Trace` of Flux's controllers.
    pub fn record_trace(&self, reason: &str, message: &str) {
        self.push(Severity::Trace, reason, message, &[]);
    }

    fn push(&self, severity: Severity, reason: &str, message: &str, metadata: &[(&str, &str)]) {
        let known = metadata.iter().filter(|(_, value)| !value.is_empty());
        lock(&self.events).push(Event {
            severity,
            reason: reason.to_owned(),
            message: shorten(message, MAX_MESSAGE),
            metadata: known
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        });
    }

    /// Removes and returns the requests for the Providers that have events of this step to send.
    pub fn take_requests(&self) -> Vec<(Request, Duration)> {
        std::mem::take(&mut *lock(&self.requests))
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *lock(&self.events))
    }
}

impl Context<'_> {
    /// Sends the events of the step to all sinks at once, to each in order. A lost event is logged,
    /// and is not an error. `source` is Flux's controller of the object's kind.
    pub async fn send_events(&self, object: &Object, source: &str) {
        let events = self.events.take();
        if events.is_empty() {
            return;
        }
        let annotations = annotations(object);
        let event = |event| self.event(object, source, &annotations, event);
        let events: Vec<FluxEvent> = events.into_iter().map(event).collect();
        let sent = SINKS.map(|sink| sink.send(self, object, &events));
        for result in join_all(sent).await {
            if let Err(error) = result {
                tracing::warn!(object = %self.id, %error, "event not written");
            }
        }
    }

    /// Returns an event in Flux's form.
    fn event(
        &self,
        object: &Object,
        source: &str,
        annotations: &BTreeMap<String, String>,
        event: Event,
    ) -> FluxEvent {
        let group = self.id.kind.group();
        let own = event.metadata.into_iter();
        let own = own.map(|(key, value)| (format!("{group}/{key}"), value));
        FluxEvent {
            involved_object: involved(object),
            severity: event.severity,
            timestamp: rfc3339(self.ports.clock.now()),
            message: event.message,
            reason: event.reason,
            metadata: own.chain(annotations.clone()).collect(),
            reporting_controller: source.to_owned(),
            reporting_instance: INSTANCE.to_owned(),
        }
    }

    /// Returns an event about any object of the hub, with the object's annotations as its metadata.
    pub fn event_about(
        &self,
        object: &Object,
        source: &str,
        severity: Severity,
        reason: &str,
        message: &str,
    ) -> FluxEvent {
        FluxEvent {
            involved_object: involved(object),
            severity,
            timestamp: rfc3339(self.ports.clock.now()),
            message: shorten(message, MAX_MESSAGE),
            reason: reason.to_owned(),
            metadata: annotations(object),
            reporting_controller: source.to_owned(),
            reporting_instance: INSTANCE.to_owned(),
        }
    }

    /// Writes a Kubernetes event of the type `Warning` about another object than that of the step.
    /// A lost event is logged, and is not an error.
    pub async fn warn_about(
        &self,
        object: &Object,
        source: &str,
        reason: &str,
        message: &str,
        annotations: BTreeMap<String, String>,
    ) {
        let event = FluxEvent {
            metadata: annotations,
            ..self.event_about(object, source, Severity::Error, reason, message)
        };
        if let Err(error) = kubernetes::write(self, &event).await {
            let (kind, name) = (object.kind(), object.name());
            tracing::warn!(kind, name, %error, "event not written");
        }
    }
}

fn involved(object: &Object) -> InvolvedObject {
    InvolvedObject {
        kind: object.kind().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.meta("uid").to_owned(),
        api_version: object.api_version().to_owned(),
        resource_version: object.meta("resourceVersion").to_owned(),
    }
}

/// Returns the annotations of an object that its events carry. The ones above the limit are left
/// out.
fn annotations(object: &Object) -> BTreeMap<String, String> {
    let found = object.pointer("/metadata/annotations");
    let found = found.and_then(serde_json::Value::as_object);
    let of_events = |key: &str| {
        key.strip_prefix(EVENT_GROUP)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let mut bytes = 0;
    let mut carried = BTreeMap::new();
    for (key, value) in found.into_iter().flatten() {
        let Some(value) = value.as_str().filter(|_| of_events(key)) else {
            continue;
        };
        bytes += key.len() + value.len();
        if bytes > MAX_ANNOTATIONS {
            let name = object.name();
            tracing::warn!(
                name,
                limit = MAX_ANNOTATIONS,
                "the annotations {EVENT_GROUP}/* are too long: events carry only the first ones"
            );
            break;
        }
        carried.insert(key.clone(), value.to_owned());
    }
    carried
}
