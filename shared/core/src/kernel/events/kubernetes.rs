//! Kubernetes events in the API of the hub, in the form in which Flux's recorder writes them.

use super::{Event, Sink};
use crate::flux::{ObjectRef, rfc3339};
use crate::kernel::Context;
use crate::ports::PortError;
use async_trait::async_trait;
use driftless_manifest::{Gvk, Object};
use serde_json::{Map, Value, json};

/// The sink that creates `v1` Events in the object's namespace.
pub struct Events;

#[async_trait]
impl Sink for Events {
    async fn send(
        &self,
        context: &Context<'_>,
        object: &Object,
        source: &str,
        event: &Event,
    ) -> Result<(), PortError> {
        let cluster = &context.hub.cluster;
        let now = rfc3339(context.ports.clock.now());
        let ObjectRef {
            namespace, name, ..
        } = &context.id;
        let unique = hex::encode(&context.ports.clock.nonce()[..8]);
        let group = context.id.kind.group();
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
        let resource = cluster.resource(&Gvk::new("v1", "Event")).await?;
        let (Some(resource), Ok(event)) = (resource, Object::new(event)) else {
            return Ok(());
        };
        cluster.create(&resource, &event, source).await?;
        Ok(())
    }
}
