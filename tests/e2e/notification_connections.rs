//! The ways to the services of Providers: proxies, certificates, the identities of clouds, and what
//! a worker that dies on the way leaves.

use crate::notifications::{SPACE, alert, create, messages, provider, state};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_adapters::clouds::{AzureLogins, CloudHosts, GoogleLogins};
use driftless_adapters::notifications::Notifications;
use driftless_adapters::offline::Offline;
use driftless_harness::github::Change;
use driftless_harness::service::Service;
use driftless_kernel::ports::{Connection, Notifiers};
use driftless_notify::{Transport, TransportError};
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

const FLEET: &str = "acme/fleet";
const PASSWORD: &str = "password-of-the-proxy";
const CHANGED: &str = "ConfigMap/default/one configured";
const POOL: &str = "projects/1/locations/global/workloadIdentityPools/pool/providers/hub";

fn config(value: &str) -> Change {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "one", "namespace": "default"}, "data": {"value": value}});
    Change::write("clusters/hub/one.yaml", object.to_string())
}

fn first_sync(world: &Embedded) {
    world.allow_local("hub");
    world.commit(FLEET, &[config("1")]);
    world.sweep_after(Duration::from_secs(900));
}

fn world() -> Embedded {
    let world = Embedded::start(&one_hub(FLEET), &[]);
    first_sync(&world);
    world
}

fn push(world: &Embedded, value: &str) {
    world.push(FLEET, &[config(value)]);
    world.settle();
}

/// Creates a Provider with an Alert of the same name for the root.
fn notify(world: &Embedded, name: &str, spec: Value) {
    create(world, "Provider", name, spec);
    alert(world, name, json!({}));
}

/// Checks that no object but the Secrets has one of these texts.
fn no_secret(world: &Embedded, secrets: &[&str]) {
    let hub = world.cluster("hub");
    for place in [
        path("Provider", SPACE, ""),
        path("Alert", SPACE, ""),
        format!("/api/v1/namespaces/{SPACE}/events"),
    ] {
        let text = hub.get(&place).to_string();
        for secret in secrets {
            assert!(!text.contains(secret), "{place} has {secret}");
        }
    }
}

#[test]
fn messages_go_through_the_proxy_of_the_provider() {
    let (world, proxy) = (world(), Service::start());
    // Nothing listens at this port.
    let address = "http://127.0.0.1:1/hook";
    let login = json!({"address": proxy.origin(), "username": "me", "password": PASSWORD});
    world.cluster("hub").secret(SPACE, "proxy", &login);
    let by_secret =
        json!({"type": "generic", "address": address, "proxySecretRef": {"name": "proxy"}});
    notify(&world, "by-secret", by_secret);
    push(&world, "2");
    assert_eq!(state(&world, "Provider", "by-secret").0, "True");
    let got = proxy.take_requests();
    let expected = format!("Basic {}", STANDARD.encode(format!("me:{PASSWORD}")));
    assert!(!got.is_empty());
    for request in &got {
        assert_eq!(request.line, format!("POST {address}"));
        assert_eq!(request.header("proxy-authorization"), expected);
    }
    assert!(got[0].body.contains(CHANGED), "{}", got[0].body);

    // The proxy refuses, with an answer that has the password, or its Secret is gone.
    proxy.answer(407, Duration::ZERO, PASSWORD);
    push(&world, "3");
    let (status, message) = state(&world, "Provider", "by-secret");
    assert_eq!(status, "False", "{message}");
    proxy.answer(200, Duration::ZERO, "");
    let secret = format!("/api/v1/namespaces/{SPACE}/secrets/proxy");
    world.cluster("hub").delete(&secret);
    push(&world, "4");
    let (status, message) = state(&world, "Provider", "by-secret");
    assert_eq!(status, "False");
    assert!(message.contains("proxy"), "{message}");
    no_secret(&world, &[PASSWORD, &expected]);

    let by_field = json!({"type": "generic", "address": address, "proxy": proxy.origin()});
    notify(&world, "by-field", by_field);
    proxy.take_requests();
    push(&world, "5");
    let got = proxy.take_requests();
    assert!(!got.is_empty());
    for request in &got {
        assert_eq!(request.line, format!("POST {address}"));
        assert_eq!(request.header("proxy-authorization"), "");
    }
    assert_eq!(state(&world, "Provider", "by-field").0, "True");
}

#[test]
fn certificates_of_the_provider_open_a_service_with_a_private_authority() {
    let world = world();
    let (service, client) = Service::with_tls();
    let (other, wrong) = Service::with_tls();
    let secrets = [
        (
            "whole",
            json!({"ca.crt": client.authority, "tls.crt": client.certificate, "tls.key": client.key}),
        ),
        ("no-client", json!({"ca.crt": client.authority})),
        (
            "wrong",
            json!({"ca.crt": wrong.authority, "tls.crt": wrong.certificate, "tls.key": wrong.key}),
        ),
    ];
    for (name, data) in &secrets {
        world.cluster("hub").secret(SPACE, name, data);
        let spec =
            json!({"type": "generic", "address": service.url(), "certSecretRef": {"name": name}});
        notify(&world, name, spec);
    }
    notify(
        &world,
        "none",
        json!({"type": "generic", "address": service.url()}),
    );
    push(&world, "2");
    let got = service.take();
    assert_eq!(messages(&got), [CHANGED], "{got:#?}");
    assert_eq!(state(&world, "Provider", "whole").0, "True");
    for name in ["no-client", "wrong", "none"] {
        let (status, message) = state(&world, "Provider", name);
        assert_eq!(status, "False", "{name}: {message}");
        assert!(
            message.contains("failed to send notification"),
            "{name}: {message}"
        );
    }
    assert_eq!(other.take(), [] as [Value; 0]);
    no_secret(&world, &[client.key.lines().nth(1).expect("a line")]);

    // A Secret without a certificate names what is missing.
    world
        .cluster("hub")
        .secret(SPACE, "half", &json!({"tls.crt": client.certificate}));
    let spec =
        json!({"type": "generic", "address": service.url(), "certSecretRef": {"name": "half"}});
    notify(&world, "half", spec);
    push(&world, "3");
    let (status, message) = state(&world, "Provider", "half");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("failed to get TLS config"), "{message}");
}

/// Sends the requests of Providers to one server, which plays all hosts: `https://HOST/PATH`
/// becomes `ORIGIN/HOST/PATH`.
struct OneServer {
    real: Notifications,
    origin: String,
}

struct ToOneServer {
    real: Arc<dyn Transport>,
    origin: String,
}

impl Notifiers for OneServer {
    fn transport(&self, connection: Connection) -> Arc<dyn Transport> {
        Arc::new(ToOneServer {
            real: Arc::new(self.real.transport(connection)),
            origin: self.origin.clone(),
        })
    }
}

#[async_trait]
impl Transport for ToOneServer {
    async fn http(
        &self,
        mut request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError> {
        let uri = request.uri();
        let (host, path) = (uri.host().unwrap_or_default(), uri.path());
        let uri = format!("{}/{host}{path}", self.origin);
        *request.uri_mut() = uri.parse().expect("a URL");
        self.real.http(request).await
    }
}

fn account(world: &Embedded, name: &str, annotations: Value) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "annotations": annotations}});
    let path = format!("/api/v1/namespaces/{SPACE}/serviceaccounts");
    world.cluster("hub").create(&path, &account);
}

/// Returns a world whose clouds and services are one server.
fn cloud_world(server: &Service) -> Embedded {
    let hosts = CloudHosts {
        stand_in: Some(server.origin()),
        ..CloudHosts::default()
    };
    let world = Embedded::start(&one_hub(FLEET), &[])
        .with_clouds(Arc::new(Offline), Arc::new(AzureLogins::new(hosts.clone())))
        .with_google(Arc::new(GoogleLogins::new(hosts)))
        .with_notifiers(Arc::new(OneServer {
            real: Notifications::default(),
            origin: server.origin(),
        }));
    first_sync(&world);
    let azure = json!({"azure.workload.identity/client-id": "a-client",
        "azure.workload.identity/tenant-id": "acme.example"});
    account(&world, "azure", azure);
    account(
        &world,
        "google",
        json!({"gcp.auth.fluxcd.io/workload-identity-provider": POOL}),
    );
    world
}

#[test]
fn services_of_clouds_get_the_identity_of_the_service_account() {
    let server = Service::start();
    server.answer(200, Duration::ZERO, "{}");
    let token = |name: &str| json!({"access_token": name, "expires_in": 3600}).to_string();
    server.answer_at("/oauth2/v2.0/token", &token("entra-token"));
    server.answer_at("/sts.googleapis.com/v1/token", &token("google-token"));
    let world = cloud_world(&server);
    notify(
        &world,
        "hub",
        json!({"type": "azureeventhub", "address": "fleet", "channel": "acme", "serviceAccountName": "azure"}),
    );
    notify(
        &world,
        "topic",
        json!({"type": "googlepubsub", "address": "acme", "channel": "fleet", "serviceAccountName": "google"}),
    );
    notify(
        &world,
        "commits",
        json!({"type": "azuredevops", "address": "https://dev.azure.com/acme/project/_git/fleet",
            "serviceAccountName": "azure"}),
    );
    server.take_requests();
    push(&world, "2");
    for name in ["hub", "topic", "commits"] {
        let (status, message) = state(&world, "Provider", name);
        assert_eq!(status, "True", "{name}: {message}");
    }
    let got = server.take_requests();
    let find = |place: &str| {
        let mut found = got.iter().filter(|one| one.line.contains(place));
        found
            .next()
            .unwrap_or_else(|| panic!("no {place}: {got:#?}"))
    };
    let exchange = find("/oauth2/v2.0/token");
    assert_eq!(
        exchange.line,
        "POST /login.microsoftonline.com/acme.example/oauth2/v2.0/token"
    );
    assert!(
        exchange.body.contains("client_id=a-client"),
        "{}",
        exchange.body
    );
    let event = find("/acme.servicebus.windows.net/fleet/messages");
    assert_eq!(event.header("authorization"), "Bearer entra-token");
    assert!(event.body.contains(CHANGED), "{}", event.body);
    let published = find("/pubsub.googleapis.com/v1/projects/acme/topics/fleet:publish");
    assert_eq!(published.header("authorization"), "Bearer google-token");
    let status = find("POST /dev.azure.com/acme/project/_apis/git/repositories/fleet/commits/");
    let login = format!("Basic {}", STANDARD.encode(":entra-token"));
    assert_eq!(status.header("authorization"), login);
    assert!(status.body.contains("succeeded"), "{}", status.body);
    no_secret(&world, &["entra-token", "google-token"]);

    // The cloud refuses the identity.
    server.answer_at("/oauth2/v2.0/token", r#"{"error": "invalid_client"}"#);
    let clients = path("Provider", SPACE, "hub");
    account(
        &world,
        "other",
        json!({"azure.workload.identity/client-id": "another",
        "azure.workload.identity/tenant-id": "acme.example"}),
    );
    let other = json!({"spec": {"serviceAccountName": "other"}});
    world.cluster("hub").patch(&clients, &other);
    push(&world, "3");
    let (status, message) = state(&world, "Provider", "hub");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("failed to get token"), "{message}");
}

/// Sends one message of a Provider, and then keeps the worker from going on.
#[derive(Default)]
struct Deadly {
    real: Notifications,
    is_armed: Arc<AtomicBool>,
    death: Arc<Notify>,
}

struct DeadlyTransport {
    real: Arc<dyn Transport>,
    is_armed: Arc<AtomicBool>,
    death: Arc<Notify>,
}

impl Notifiers for Deadly {
    fn transport(&self, connection: Connection) -> Arc<dyn Transport> {
        Arc::new(DeadlyTransport {
            real: Arc::new(self.real.transport(connection)),
            is_armed: self.is_armed.clone(),
            death: self.death.clone(),
        })
    }
}

#[async_trait]
impl Transport for DeadlyTransport {
    async fn http(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError> {
        let answer = self.real.http(request).await;
        if self.is_armed.swap(false, Ordering::SeqCst) {
            self.death.notify_one();
            std::future::pending::<()>().await;
        }
        answer
    }
}

/// Returns the messages that a service got before and after its worker died between the sending
/// and the record of a message.
fn after_death(annotations: Value) -> (Vec<Value>, Vec<Value>) {
    let service = Service::start();
    let deadly = Deadly::default();
    let (is_armed, death) = (deadly.is_armed.clone(), deadly.death.clone());
    let world = Embedded::start(&one_hub(FLEET), &[]).with_notifiers(Arc::new(deadly));
    first_sync(&world);
    provider(&world, "service", &service);
    alert(&world, "service", json!({}));
    let patch = json!({"metadata": {"annotations": annotations}});
    let hub = world.cluster("hub");
    hub.patch(&path("Alert", SPACE, "service"), &patch);
    is_armed.store(true, Ordering::SeqCst);
    world.push(FLEET, &[config("2")]);
    for _ in 0..100 {
        while world.step_until(death.notified()) {}
        if !is_armed.load(Ordering::SeqCst) {
            break;
        }
        world.advance(Duration::from_secs(1));
    }
    assert!(!is_armed.load(Ordering::SeqCst), "nothing was sent");
    let before = service.take();
    assert_eq!(before.len(), 1, "{before:#?}");
    assert!(!world.stored("notifications/hub/pending/").is_empty());
    for _ in 0..10 {
        world.sweep_after(Duration::from_secs(60));
    }
    assert!(world.stored("notifications/hub/pending/").is_empty());
    (before, service.take())
}

#[test]
fn a_worker_that_dies_after_sending_repeats_one_message_and_loses_none() {
    let (before, after) = after_death(json!({}));
    let all: Vec<Value> = before.iter().chain(&after).cloned().collect();
    let sent = messages(&all);
    assert!((1..=2).contains(&sent.len()), "{all:#?}");
    assert!(sent.iter().all(|message| *message == CHANGED), "{sent:?}");
    // The event that follows is sent once.
    let updates = all.iter();
    let updates = updates.filter(|event| event["metadata"]["commit_status"] == "update");
    assert_eq!(updates.count(), 1, "{all:#?}");
}

#[test]
fn a_worker_that_dies_after_sending_a_digest_repeats_it_at_most_once() {
    let (before, after) = after_death(json!({"driftless.dev/digest": "true"}));
    assert_eq!(before[0]["reason"], "PushLanded");
    assert!(after.len() <= 1, "{after:#?}");
    for event in &after {
        assert_eq!(event["message"], before[0]["message"]);
    }
}
