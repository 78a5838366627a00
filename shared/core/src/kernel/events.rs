//! Events about the object of a step, as Flux's recorder writes them.

use super::Context;
use crate::flux::{ObjectRef, rfc3339, shorten};
use crate::ports::PortError;
use driftless_manifest::{Gvk, Object};
use serde_json::{Map, Value, json};
use std::sync::{Mutex, PoisonError};

/// The longest message of an event, in bytes; the API server refuses a longer one.
const LONGEST: usize = 1024;

/// Collects what a step has to tell; it is sent at the end of the step.
#[derive(Default)]
pub struct Recorder(Mutex<Vec<Event>>);

struct Event {
    is_warning: bool,
    reason: String,
    message: String,
    metadata: Vec<(String, String)>,
}

impl Recorder {
    /// Notes an event about a revision, which may be empty.
    pub fn tell(&self, is_warning: bool, reason: &str, message: &str, revision: &str) {
        self.annotated(is_warning, reason, message, &[("revision", revision)]);
    }

    /// Notes an event with metadata for the annotations of the kind's group; what is empty is left out.
    pub fn annotated(
        &self,
        is_warning: bool,
        reason: &str,
        message: &str,
        metadata: &[(&str, &str)],
    ) {
        let known = metadata.iter().filter(|(_, value)| !value.is_empty());
        let event = Event {
            is_warning,
            reason: reason.to_owned(),
            message: shorten(message, LONGEST),
            metadata: known
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Context<'_> {
    /// Sends the events of the step, in their order. A lost event is logged, never an error.
    pub async fn send_events(&self, object: &Object, source: &str) {
        for event in self.events.take() {
            if let Err(error) = self.send(object, source, &event).await {
                tracing::warn!(object = %self.id, reason = event.reason, %error, "event not written");
            }
        }
    }

    async fn send(&self, object: &Object, source: &str, event: &Event) -> Result<(), PortError> {
        let now = rfc3339(self.ports.clock.now());
        let ObjectRef {
            namespace, name, ..
        } = &self.id;
        let unique = hex::encode(&self.ports.clock.nonce()[..8]);
        let group = self.id.kind.group();
        let annotations: Map<String, Value> = event
            .metadata
            .iter()
            .map(|(key, value)| (format!("{group}/{key}"), value.as_str().into()))
            .collect();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{name}.{unique}"), "namespace": namespace, "annotations": annotations},
            "involvedObject": {"apiVersion": object.api_version(), "kind": object.kind(), "namespace": namespace,
                "name": name, "uid": object.meta("uid"), "resourceVersion": object.meta("resourceVersion")},
            "reason": event.reason, "message": event.message,
            "type": if event.is_warning { "Warning" } else { "Normal" },
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "source": {"component": source}, "reportingComponent": source,
        });
        let resource = self.hub.cluster.resource(&Gvk::new("v1", "Event")).await?;
        let (Some(resource), Ok(event)) = (resource, Object::new(event)) else {
            return Ok(());
        };
        self.hub.cluster.create(&resource, &event, source).await?;
        Ok(())
    }
}
