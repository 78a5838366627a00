use driftless_core::ports::Ports;
use driftless_core::sweep;
use lambda_runtime::{Error, LambdaEvent};
use serde_json::{Value, json};

/// Sweeps every hub. The event says only that a minute is over.
///
/// # Errors
/// The registry could not be read; the next minute tries again.
pub async fn handle(ports: &Ports, _event: LambdaEvent<Value>) -> Result<Value, Error> {
    let reports = sweep::sweep(ports).await?;
    let hubs = reports.iter().map(|report| {
        tracing::info!(
            hub = report.hub,
            queued = report.queued.len(),
            failed = report.failure.is_some(),
            "swept"
        );
        json!({
            "hub": report.hub,
            "queued": report.queued.iter().map(|one| one.object.to_string()).collect::<Vec<_>>(),
            "failure": report.failure.as_ref().map(|failure| &failure.message),
        })
    });
    Ok(json!({"hubs": hubs.collect::<Vec<_>>()}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use driftless_core::flux::{FluxKind, ObjectRef};
    use driftless_core::hub::{self, Settings};
    use driftless_core::ports::{
        Abilities, Access, Apply, Cause, Cluster, Clusters, Delete, Deleted, ErrorKind,
        Impersonation, Patch, PortError, Resource, Result, Secret, Token, TokenAsk,
    };
    use driftless_core::testing::{self, MemoryBlobs, MemoryKeys, MemoryQueue, TestClock};
    use driftless_manifest::{Gvk, Object};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    const MINUTE: &str = include_str!("../../../events/drift-schedule.json");

    /// A hub with one GitRepository that nobody looked at yet; the hub at `dark` does not answer.
    struct Hubs;

    struct OneSource;

    #[async_trait]
    impl Clusters for Hubs {
        async fn connect(
            &self,
            access: &Access,
            _: Option<&Impersonation>,
        ) -> Result<Arc<dyn Cluster>> {
            match access.server.contains("dark") {
                true => refused(),
                false => Ok(Arc::new(OneSource)),
            }
        }
    }

    fn refused<T>() -> Result<T> {
        Err(PortError::new(ErrorKind::Unavailable, "no answer"))
    }

    #[async_trait]
    impl Cluster for OneSource {
        async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
            Ok(self.versions(&gvk.group, &gvk.kind).await?.pop())
        }
        async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
            let served = kind == FluxKind::GitRepository.as_str();
            let resource = Resource {
                gvk: Gvk::new(&format!("{group}/v1"), kind),
                plural: "gitrepositories".into(),
                namespaced: true,
            };
            Ok(served.then_some(resource).into_iter().collect())
        }
        async fn abilities(&self) -> Result<Abilities> {
            refused()
        }
        async fn get(&self, _: &Resource, _: &str, _: &str) -> Result<Option<Object>> {
            refused()
        }
        async fn list(&self, resource: &Resource, _: &str, _: &str) -> Result<Vec<Object>> {
            let source = json!({
                "apiVersion": resource.gvk.api_version(),
                "kind": resource.gvk.kind,
                "metadata": {"name": "flux-system", "namespace": "flux-system", "generation": 1},
                "spec": {"url": "https://github.com/acme/fleet", "interval": "1m"},
            });
            Ok(vec![Object::new(source).unwrap()])
        }
        async fn apply(&self, _: &Resource, _: &Object, _: Apply<'_>) -> Result<Object> {
            refused()
        }
        async fn create(&self, _: &Resource, _: &Object, _: &str) -> Result<Object> {
            refused()
        }
        async fn patch(
            &self,
            _: &Resource,
            _: &str,
            _: &str,
            _: Option<&str>,
            _: &Patch,
            _: &str,
        ) -> Result<Object> {
            refused()
        }
        async fn delete(&self, _: &Resource, _: &str, _: &str, _: &Delete) -> Result<Deleted> {
            refused()
        }
        async fn token(&self, _: &TokenAsk, _: Duration) -> Result<Token> {
            refused()
        }
    }

    fn kubeconfig(server: &str) -> Secret {
        Secret::new(format!(
            "{{apiVersion: v1, kind: Config, current-context: c,\
             clusters: [{{name: c, cluster: {{server: 'https://{server}.example'}}}}],\
             users: [{{name: c, user: {{token: t}}}}],\
             contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}"
        ))
    }

    async fn world(hubs: &[&str]) -> (Ports, Arc<MemoryQueue>) {
        let queue = Arc::<MemoryQueue>::default();
        let mut ports = testing::ports(
            Arc::<MemoryBlobs>::default(),
            queue.clone(),
            Arc::<TestClock>::default(),
        );
        let keys = hubs
            .iter()
            .map(|hub| (format!("hubs/{hub}"), kubeconfig(hub)));
        ports.keys = Arc::new(MemoryKeys(keys.collect()));
        ports.clusters = Arc::new(Hubs);
        for hub in hubs {
            let settings = Settings {
                name: (*hub).into(),
                ..Settings::default()
            };
            hub::register(&ports, &settings).await.unwrap();
        }
        (ports, queue)
    }

    async fn invoke(ports: &Ports) -> Value {
        let event = LambdaEvent::new(
            serde_json::from_str(MINUTE).unwrap(),
            lambda_runtime::Context::default(),
        );
        handle(ports, event).await.unwrap()
    }

    #[tokio::test]
    async fn each_minute_queues_what_is_due_and_says_so() {
        let (ports, queue) = world(&["staging"]).await;
        let name = "GitRepository/flux-system/flux-system";
        let report = |queued: &[&str]| json!({"hubs": [{"hub": "staging", "queued": queued, "failure": null}]});
        assert_eq!(invoke(&ports).await, report(&[name]));
        let sent = queue.take();
        assert_eq!(sent.len(), 1);
        let (request, delay) = &sent[0];
        let object = ObjectRef::new(FluxKind::GitRepository, "flux-system", "flux-system");
        assert_eq!(
            (&request.object, request.hub.as_str()),
            (&object, "staging")
        );
        assert!(request.cause == Cause::Timer && delay.is_zero());
        // A moment later nothing is due.
        assert_eq!(invoke(&ports).await, report(&[]));
        assert!(queue.take().is_empty());
    }

    #[tokio::test]
    async fn a_dark_hub_fails_alone() {
        let (ports, queue) = world(&["dark", "staging"]).await;
        let answer = invoke(&ports).await;
        let hubs = BTreeMap::from([
            (answer["hubs"][0]["hub"].as_str(), &answer["hubs"][0]),
            (answer["hubs"][1]["hub"].as_str(), &answer["hubs"][1]),
        ]);
        assert_eq!(hubs[&Some("dark")]["failure"], "no answer");
        assert_eq!(hubs[&Some("staging")]["failure"], Value::Null);
        assert_eq!(queue.take().len(), 1);
    }

    #[tokio::test]
    async fn a_queue_that_takes_nothing_is_told_and_tried_again_in_a_minute() {
        let (ports, queue) = world(&["staging"]).await;
        queue.set_broken(true);
        let answer = invoke(&ports).await;
        assert_eq!(answer["hubs"][0]["queued"], json!([]));
        assert_eq!(answer["hubs"][0]["failure"], "the queue does not answer");
        queue.set_broken(false);
        let answer = invoke(&ports).await;
        assert_eq!(answer["hubs"][0]["queued"].as_array().unwrap().len(), 1);
    }
}
