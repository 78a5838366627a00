//! Tests of the function with a hub in this process and a stub of GitHub: the events of a browser
//! that logs in, and of one that tries more than it may.

use crate::config::Settings;
use crate::handler::Function;
use axum::Router;
use axum::extract::Request as Asked;
use axum::response::Json;
use driftless_adapters::embedded::{Embedded, EmbeddedClusters, kubeconfig};
use driftless_apiserver::User;
use driftless_core::bootstrap;
use driftless_dashboard::access;
use driftless_dashboard::auth::{Key, Kind, Provider};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{Clock as _, Secret};
use driftless_manifest::Object;
use driftless_memory::{MemorySecrets, TestClock};
use lambda_http::{Body, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const SERVER: &str = "https://hub.internal";
const ORIGIN: &str = "https://abc.lambda-url.eu-west-1.on.aws";
const EVENT: &str = include_str!("../../../events/dashboard-get.json");
const RULES: &str = r#"[{"groups": ["acme/green"], "namespaces": ["green"], "actions": true},
    {"groups": ["acme/readers"], "namespaces": ["green"]}]"#;

/// The function, with the hub that it shows.
struct World {
    function: Function,
    hub: Hub,
    clock: Arc<TestClock>,
}

/// Answers as GitHub does to a login of a member of the team `acme/green`.
async fn github(asked: Asked) -> Json<Value> {
    Json(match asked.uri().path() {
        "/login/oauth/access_token" => json!({"access_token": "t"}),
        "/user" => json!({"login": "alice"}),
        "/user/teams" => json!([{"slug": "green", "organization": {"login": "acme"}}]),
        path => json!({ "message": format!("unexpected {path}") }),
    })
}

impl World {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let github_url = format!("http://{}", listener.local_addr().unwrap());
        let stub = axum::serve(listener, Router::new().fallback(github));
        tokio::spawn(async move { stub.await });
        let clock = Arc::<TestClock>::default();
        clock.advance(Duration::from_secs(1_772_366_400));
        let server = Embedded::new(clock.clone());
        let clusters = EmbeddedClusters::new();
        clusters.add_open(SERVER, &server, User::admin("admin"));
        let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), clock.clone());
        ports.clusters = Arc::new(clusters);
        let secret = Secret::new(kubeconfig(SERVER, None, "token"));
        ports.secrets = Arc::new(MemorySecrets([("hubs/hub".to_owned(), secret)].into()));
        let settings = hub::Settings {
            name: "hub".to_owned(),
            ..hub::Settings::default()
        };
        hub::register(&ports, &settings).await.unwrap();
        let hub = hub::connect(&ports, "hub").await.unwrap();
        let installed = bootstrap::install(hub.cluster.as_ref(), clock.as_ref());
        installed.await.unwrap();
        for namespace in ["green", "blue"] {
            create(
                &hub,
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )
            .await;
            let source = json!({"kind": "GitRepository", "name": "fleet"});
            create(
                &hub,
                json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                    "metadata": {"name": format!("app-of-{namespace}"), "namespace": namespace},
                    "spec": {"interval": "10m", "prune": true, "sourceRef": source}}),
            )
            .await;
        }
        let settings = Settings {
            provider: Provider {
                kind: Kind::GitHub {
                    web: github_url.clone(),
                    api: github_url,
                },
                client_id: "client".to_owned(),
                client_secret: Secret::new("hunter2"),
            },
            origin: String::new(),
            rules: access::rules(RULES).unwrap(),
            key: key(),
        };
        Self {
            function: Function::new(ports, settings).unwrap(),
            hub,
            clock,
        }
    }

    /// Sends an event: a GET, or a POST if there is a body.
    async fn ask(&self, address: &str, cookie: &str, body: Option<&str>) -> Response<Body> {
        self.send(address, cookie, body, &[]).await
    }

    async fn send(
        &self,
        address: &str,
        cookie: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Response<Body> {
        let mut event: Value = serde_json::from_str(EVENT).unwrap();
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        event["rawPath"] = path.into();
        event["rawQueryString"] = query.into();
        event["requestContext"]["http"]["path"] = path.into();
        if !cookie.is_empty() {
            event["cookies"] = json!([cookie]);
        }
        for (name, value) in headers {
            event["headers"][*name] = (*value).into();
        }
        if let Some(body) = body {
            event["requestContext"]["http"]["method"] = "POST".into();
            event["headers"]["content-type"] = "application/x-www-form-urlencoded".into();
            event["body"] = body.into();
        }
        let event = lambda_http::request::from_str(&event.to_string()).unwrap();
        self.function.handle(event).await.unwrap()
    }

    /// Returns a session of a user with these groups.
    fn session(&self, name: &str, groups: &[&str]) -> String {
        let now = u64::try_from(self.clock.now().as_millis()).unwrap();
        let ticket = json!({"name": name, "groups": groups, "end": now + 60_000, "id": "1"});
        format!("__Host-driftless={}", key().seal("session", &ticket))
    }

    async fn is_suspended(&self, namespace: &str) -> bool {
        let name = format!("app-of-{namespace}");
        let id = ObjectRef::new(FluxKind::Kustomization, namespace, name);
        let object = self.hub.get(&id).await.unwrap().unwrap();
        object.pointer("/spec/suspend") == Some(&json!(true))
    }
}

async fn create(hub: &Hub, object: Value) {
    let object = Object::new(object).unwrap();
    let resource = hub.cluster.resource(&object.gvk()).await.unwrap().unwrap();
    let created = hub.cluster.create(&resource, &object, "test");
    created.await.unwrap();
}

fn key() -> Key {
    Key::new(&[7; 32]).unwrap()
}

/// Returns a form of the session that [`World::session`] returns.
fn form(action: &str) -> String {
    format!("csrf={}&action={action}", key().token("csrf", "1"))
}

fn actions(namespace: &str) -> String {
    format!("/objects/hub/Kustomization/{namespace}/app-of-{namespace}/actions")
}

fn header(answer: &Response<Body>, name: &str) -> String {
    let value = answer.headers().get(name);
    value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

/// Returns a cookie that an answer sets, as the browser sends it.
fn cookie_of(answer: &Response<Body>, name: &str) -> String {
    let all = answer.headers().get_all("set-cookie");
    let mut all = all.iter().map(|value| value.to_str().unwrap());
    let found = all.find(|value| value.starts_with(&format!("{name}=")));
    found.unwrap().split(';').next().unwrap().to_owned()
}

fn text(answer: &Response<Body>) -> String {
    String::from_utf8(answer.body().to_vec()).unwrap()
}

#[tokio::test]
async fn a_login_shows_the_namespaces_of_the_users_teams() {
    let world = World::start().await;
    let first = world.ask("/login?to=%2Fobjects", "", None).await;
    let location = header(&first, "location");
    let state = location.split("state=").nth(1).unwrap();
    let state = state.split('&').next().unwrap();
    let pending = cookie_of(&first, "__Host-driftless-login");
    let callback = format!("/callback?code=c&state={state}");
    let stolen = world.ask(&callback, "", None).await;
    assert_eq!(stolen.status(), 400);
    let done = world.ask(&callback, &pending, None).await;
    assert_eq!(
        (done.status().as_u16(), &*header(&done, "location")),
        (303, "/objects")
    );
    let session = cookie_of(&done, "__Host-driftless");
    let page = world.ask("/objects", &session, None).await;
    assert_eq!(page.status(), 200);
    let page = text(&page);
    assert!(
        page.contains("app-of-green") && !page.contains("app-of-blue"),
        "{page}"
    );
    let objects = world.ask("/api/v1/objects", &session, None).await;
    let objects: Value = serde_json::from_str(&text(&objects)).unwrap();
    assert_eq!(objects["total"], 1, "{objects}");
    // A session ends.
    world.clock.advance(Duration::from_secs(9 * 3600));
    let late = world.ask("/objects", &session, None).await;
    assert_eq!(header(&late, "location"), "/login?to=%2Fobjects");
}

#[tokio::test]
async fn a_forged_cookie_is_no_session() {
    let world = World::start().await;
    let valid = world.session("alice", &["acme/green"]);
    assert_eq!(world.ask("/objects", &valid, None).await.status(), 200);
    let (ticket, signature) = valid.rsplit_once('.').unwrap();
    let other = Key::new(&[8; 32]).unwrap();
    let now = u64::try_from(world.clock.now().as_millis()).unwrap();
    let mallory = json!({"name": "root", "groups": ["acme/green"], "end": now + 60_000, "id": "1"});
    let sealed = key().seal("session", &mallory);
    let (text, _) = sealed.split_once('.').unwrap();
    for forged in [
        format!("{ticket}."),
        format!("{ticket}.AAAA"),
        format!("__Host-driftless={text}.{signature}"),
        format!("__Host-driftless={}", other.seal("session", &mallory)),
        format!("__Host-driftless={}", key().seal("login", &mallory)),
        valid.replace("__Host-driftless", "driftless"),
    ] {
        let page = world.ask("/objects", &forged, None).await;
        assert_eq!(page.status(), 303, "{forged}");
        let json = world.ask("/api/v1/objects", &forged, None).await;
        assert_eq!(json.status(), 401, "{forged}");
        let act = world
            .ask(&actions("green"), &forged, Some(&form("suspend")))
            .await;
        assert_eq!(act.status(), 401, "{forged}");
    }
    assert!(!world.is_suspended("green").await);
}

#[tokio::test]
async fn an_action_needs_the_token_of_the_session_and_a_right_in_the_namespace() {
    let world = World::start().await;
    let alice = world.session("alice", &["acme/green"]);
    let reader = world.session("bob", &["acme/readers"]);
    let (green, blue) = (actions("green"), actions("blue"));
    let foreign = format!("csrf={}&action=suspend", key().token("csrf", "2"));
    for (address, session, body, expected) in [
        (&green, &alice, "action=suspend".to_owned(), 403),
        (&green, &alice, "action=suspend&csrf=".to_owned(), 403),
        (&green, &alice, foreign, 403),
        (&green, &reader, form("suspend"), 403),
        (&blue, &alice, form("suspend"), 404),
        (&green, &alice, form("delete"), 400),
    ] {
        let answer = world.ask(address, session, Some(&body)).await;
        assert_eq!(answer.status(), expected, "{address} {body}");
    }
    for site in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let answer = world
            .send(&green, &alice, Some(&form("suspend")), &[site])
            .await;
        assert_eq!(answer.status(), 403, "{site:?}");
    }
    for namespace in ["green", "blue"] {
        assert!(!world.is_suspended(namespace).await, "{namespace}");
    }
    let page = "/objects/hub/Kustomization/blue/app-of-blue";
    let hidden = world.ask(page, &alice, None).await;
    assert_eq!(hidden.status(), 404);
    assert!(!text(&hidden).contains("10m"));
    let hidden = world.ask(&format!("/api/v1{page}"), &alice, None).await;
    assert_eq!(hidden.status(), 404);

    let own = [("origin", ORIGIN), ("sec-fetch-site", "same-origin")];
    let done = world
        .send(&green, &alice, Some(&form("suspend")), &own)
        .await;
    assert_eq!(done.status(), 303, "{}", text(&done));
    assert!(world.is_suspended("green").await);
}

#[tokio::test]
async fn every_answer_has_the_headers_that_protect_it() {
    let world = World::start().await;
    let alice = world.session("alice", &["acme/green"]);
    for (address, cookie, body) in [
        ("/objects", "", None),
        ("/objects", alice.as_str(), None),
        ("/api/v1/objects", alice.as_str(), None),
        ("/missing", alice.as_str(), None),
        ("/login", "", None),
        ("/callback?code=c&state=x", "", None),
        ("/objects", alice.as_str(), Some("action=suspend")),
    ] {
        let answer = world.ask(address, cookie, body).await;
        for (name, value) in [
            ("strict-transport-security", "max-age=31536000"),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(header(&answer, name), value, "{address}: {name}");
        }
        let policy = header(&answer, "content-security-policy");
        assert!(
            policy.contains("frame-ancestors 'none'"),
            "{address}: {policy}"
        );
        let kept = header(&answer, "cache-control");
        assert!(kept.contains("no-store"), "{address}: {kept}");
    }
}
