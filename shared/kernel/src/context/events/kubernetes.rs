//! Kubernetes events in the API of the hub, in the form in which Flux's recorder writes them.

use super::Sink;
use crate::context::Context;
use crate::ports::{PortError, Resource};
use async_trait::async_trait;
use driftless_flux::{FluxEvent, Severity, shorten};
use driftless_manifest::{Gvk, Object};
use serde_json::json;

/// The longest message of an event, in bytes; the API server refuses a longer one.
const MAX_MESSAGE: usize = 1024;

/// The sink that creates `v1` Events in the object's namespace.
pub struct Events;

#[async_trait]
impl Sink for Events {
    async fn send(
        &self,
        context: &Context<'_>,
        _: &Object,
        events: &[FluxEvent],
    ) -> Result<(), PortError> {
        let kind = Gvk::new("v1", "Event");
        let Some(resource) = context.hub.cluster.resource(&kind).await? else {
            return Ok(());
        };
        let mut written = Ok(());
        for event in events
            .iter()
            .filter(|event| !event.is_commit_status_update())
        {
            if let Err(error) = create(context, &resource, event).await {
                written = Err(error);
            }
        }
        written
    }
}

/// Creates one event; without a resource of events on the hub, it is left out.
///
/// # Errors
/// The errors of the cluster.
pub async fn write(context: &Context<'_>, event: &FluxEvent) -> Result<(), PortError> {
    let kind = Gvk::new("v1", "Event");
    match context.hub.cluster.resource(&kind).await? {
        Some(resource) => create(context, &resource, event).await,
        None => Ok(()),
    }
}

async fn create(
    context: &Context<'_>,
    resource: &Resource,
    event: &FluxEvent,
) -> Result<(), PortError> {
    let unique = hex::encode(&context.ports.clock.nonce()[..8]);
    let (involved, now) = (&event.involved_object, &event.timestamp);
    let (name, source) = (&involved.name, &event.reporting_controller);
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{unique}"), "namespace": involved.namespace,
            "annotations": event.metadata},
        "involvedObject": {"apiVersion": involved.api_version, "kind": involved.kind,
            "namespace": involved.namespace, "name": name, "uid": involved.uid,
            "resourceVersion": involved.resource_version},
        "reason": event.reason, "message": shorten(&event.message, MAX_MESSAGE),
        "type": match event.severity {
            Severity::Error => "Warning",
            Severity::Trace | Severity::Info => "Normal",
        },
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        "source": {"component": source}, "reportingComponent": source,
    });
    if let Ok(event) = Object::new(event) {
        context.hub.cluster.create(resource, &event, source).await?;
    }
    Ok(())
}
