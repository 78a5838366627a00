//! Events about the object of a step: each [`Sink`] receives every event of a reconciler.

mod kubernetes;

use super::Context;
use crate::flux::shorten;
use crate::ports::PortError;
use async_trait::async_trait;
use driftless_manifest::Object;
use std::sync::{Mutex, PoisonError};

/// The longest message of an event, in bytes; the API server refuses a longer one.
const MAX_MESSAGE: usize = 1024;

/// The sinks that receive every event.
const SINKS: [&dyn Sink; 1] = [&kubernetes::Events];

/// A receiver of events.
#[async_trait]
trait Sink: Sync {
    /// Sends an event about the object of the step; `source` is Flux's controller for its kind.
    ///
    /// # Errors
    /// The errors of the port: the event is lost.
    async fn send(
        &self,
        context: &Context<'_>,
        object: &Object,
        source: &str,
        event: &Event,
    ) -> Result<(), PortError>;
}

/// The events of a step, which are sent at its end.
#[derive(Default)]
pub struct Recorder(Mutex<Vec<Event>>);

struct Event {
    is_warning: bool,
    reason: String,
    message: String,
    metadata: Vec<(String, String)>,
}

impl Recorder {
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
        let known = metadata.iter().filter(|(_, value)| !value.is_empty());
        let event = Event {
            is_warning,
            reason: reason.to_owned(),
            message: shorten(message, MAX_MESSAGE),
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
    /// Sends the events of the step to every sink, in order. A lost event is logged, and is not an
    /// error.
    pub async fn send_events(&self, object: &Object, source: &str) {
        for event in self.events.take() {
            for sink in SINKS {
                if let Err(error) = sink.send(self, object, source, &event).await {
                    tracing::warn!(object = %self.id, reason = event.reason, %error, "event not written");
                }
            }
        }
    }
}
