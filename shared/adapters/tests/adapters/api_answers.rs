//! Tests of the Kubernetes adapter with answers that a real API server gives only when it fails.

use driftless_adapters::cluster::KubeCluster;
use driftless_kernel::ports::{
    ApplyRequest, Change, Cluster, ErrorKind, ListRequest, Patch, PatchRequest, Resource,
};
use driftless_manifest::{Gvk, Object};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{Method, Request, Response};
use http_body_util::Full;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub type Answer = Response<Full<bytes::Bytes>>;

/// The prepared answers, and the method, path and query of each request.
#[derive(Clone, Default)]
pub struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// The `Accept-Encoding` of each request.
    encodings: Arc<Mutex<Vec<String>>>,
}

impl Script {
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Self::default();
        script.answers.lock().unwrap().extend(answers);
        script
    }

    pub fn cluster(&self) -> KubeCluster {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri());
            script.asked.lock().unwrap().push(line);
            let accepted = request.headers().get("accept-encoding");
            let accepted = accepted.map_or("", |value| value.to_str().unwrap());
            script.encodings.lock().unwrap().push(accepted.to_owned());
            let answer = script.answers.lock().unwrap().pop_front();
            async move { answer.ok_or_else(|| std::io::Error::other("connection reset by peer")) }
        });
        KubeCluster::from_service(service, "https://k8s.example", None).unwrap()
    }

    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

pub fn answer(code: u16, body: &Value) -> Answer {
    raw(code, &body.to_string())
}

pub fn raw(code: u16, body: &str) -> Answer {
    let body = Full::new(bytes::Bytes::from(body.to_owned()));
    Response::builder().status(code).body(body).unwrap()
}

fn with(mut answer: Answer, name: &'static str, value: &str) -> Answer {
    answer.headers_mut().insert(name, value.parse().unwrap());
    answer
}

pub fn status(code: u16, reason: &str, message: &str) -> Answer {
    let body = json!({"kind": "Status", "reason": reason, "message": message, "code": code});
    answer(code, &body)
}

pub fn pods() -> Resource {
    Resource {
        gvk: Gvk::new("v1", "Pod"),
        plural: "pods".into(),
        namespaced: true,
    }
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"}})
}

fn page(names: &[&str], next: &str) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    answer(
        200,
        &json!({"kind": "PodList", "metadata": {"continue": next}, "items": items}),
    )
}

#[tokio::test(start_paused = true)]
async fn answers_may_be_compressed() {
    let names: Vec<String> = (0..5_000).map(|at| format!("p-{at}")).collect();
    let items: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    let list = json!({"kind": "PodList", "metadata": {}, "items": items}).to_string();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(list.as_bytes()).unwrap();
    let body = Full::new(bytes::Bytes::from(encoder.finish().unwrap()));
    let compressed = with(Response::new(body), "content-encoding", "gzip");
    let script = Script::new([compressed]);
    let resource = pods();
    let request = ListRequest {
        namespace: "a",
        ..ListRequest::all(&resource)
    };
    let pods = script.cluster().list(&request).await.unwrap();
    assert_eq!(pods.len(), names.len());
    assert_eq!(*script.encodings.lock().unwrap(), ["gzip"]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_read_again_and_never_written_again() {
    let busy = || with(status(429, "TooManyRequests", "busy"), "retry-after", "1");
    let script = Script::new([
        busy(),
        status(503, "ServiceUnavailable", "starting"),
        answer(200, &pod("p")),
    ]);
    let cluster = script.cluster();
    assert!(cluster.get(&pods(), "a", "p").await.unwrap().is_some());
    assert_eq!(script.take_requests().len(), 3);

    // Too long to wait here: the caller requeues itself.
    let long = with(status(429, "TooManyRequests", "busy"), "retry-after", "30");
    let script = Script::new([long]);
    let error = script.cluster().get(&pods(), "a", "p").await.unwrap_err();
    let wait = Some(Duration::from_secs(30));
    assert_eq!(
        (error.kind, error.retry_after),
        (ErrorKind::RateLimited, wait)
    );
    assert_eq!(script.take_requests().len(), 1);

    let object = Object::new(pod("p")).unwrap();
    let resource = pods();
    let request = ApplyRequest {
        resource: &resource,
        object: &object,
        manager: "m",
        force: true,
        dry_run: false,
    };
    for (code, kind) in [
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::Unavailable),
        (503, ErrorKind::Unavailable),
        (504, ErrorKind::Unavailable),
        (409, ErrorKind::Conflict),
        (422, ErrorKind::Invalid),
    ] {
        let script = Script::new([status(code, "", "no"), answer(200, &pod("p"))]);
        let cluster = script.cluster();
        let error = cluster.apply(&request).await.unwrap_err();
        assert_eq!(error.kind, kind);
        let patch = "PATCH /api/v1/namespaces/a/pods/p?fieldManager=m&force=true";
        assert_eq!(script.take_requests(), [patch], "{code}");
    }
    // The answer to a write is lost: the outcome is unknown, and the error has the cause.
    let script = Script::new([]);
    let patch = Patch::Merge(json!({}));
    let cluster = script.cluster();
    let pods = pods();
    let request = PatchRequest {
        resource: &pods,
        namespace: "a",
        name: "p",
        subresource: Some("status"),
        patch: &patch,
        manager: "m",
    };
    let lost = cluster.patch(&request);
    let error = lost.await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error.message.contains("connection reset by peer"),
        "{error}"
    );
    let path = "PATCH /api/v1/namespaces/a/pods/p/status?fieldManager=m";
    assert_eq!(script.take_requests(), [path]);
}

#[tokio::test]
async fn a_list_starts_again_when_its_continuation_is_too_old() {
    let expired = || {
        status(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result.",
        )
    };
    let script = Script::new([
        page(&["a", "b"], "t1"),
        expired(),
        page(&["b"], "t2"),
        page(&["c"], ""),
    ]);
    let resource = pods();
    let request = ListRequest {
        selector: "x=y",
        ..ListRequest::all(&resource)
    };
    let found = script.cluster().list(&request).await.unwrap();
    let names: Vec<&str> = found.iter().map(Object::name).collect();
    assert_eq!(names, ["b", "c"], "no item of the first try");
    let asked = script.take_requests();
    assert!(asked[3].ends_with("/api/v1/pods?labelSelector=x%3Dy&limit=500&continue=t2"));
    // The number of restarts is limited.
    let always = (0..20).map(|n| {
        if n % 2 == 0 {
            page(&["a"], "t")
        } else {
            expired()
        }
    });
    let error = Script::new(always)
        .cluster()
        .list(&ListRequest::all(&pods()))
        .await
        .unwrap_err();
    assert!(error.message.contains("too old"), "{error}");
}

#[tokio::test]
async fn answers_of_other_servers_are_errors_and_not_absent_or_empty() {
    let html = "<html>canary</html>";
    for (broken, kind) in [
        (raw(200, html), ErrorKind::Unreadable),
        (raw(200, ""), ErrorKind::Unreadable),
        (raw(404, html), ErrorKind::Unreadable),
        (raw(404, "404 page not found\n"), ErrorKind::NotFound),
        (
            with(raw(302, ""), "location", "https://evil.example/"),
            ErrorKind::Unreadable,
        ),
        (raw(401, html), ErrorKind::Denied),
        (raw(500, html), ErrorKind::Unavailable),
        (
            answer(
                200,
                &json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "canary"}}),
            ),
            ErrorKind::Unreadable,
        ),
        (
            answer(200, &json!({"kind": "Status", "status": "Success"})),
            ErrorKind::Unreadable,
        ),
    ] {
        let code = broken.status();
        let (first, second) = (copy(&broken), copy(&broken));
        let script = Script::new([first]);
        let error = script.cluster().get(&pods(), "a", "p").await.unwrap_err();
        assert_eq!(error.kind, kind, "{code}: {error}");
        assert!(!error.message.contains("canary"), "{error}");
        assert!(error.message.contains("https://k8s.example"), "{error}");
        assert_eq!(
            script.take_requests().len(),
            1,
            "a redirect is not followed"
        );
        let error = Script::new([second])
            .cluster()
            .list(&ListRequest::all(&pods()))
            .await
            .unwrap_err();
        assert_eq!(error.kind, kind, "{code}: {error}");
    }
    let absent = Script::new([status(404, "NotFound", "pods \"p\" not found")]);
    assert!(
        absent
            .cluster()
            .get(&pods(), "a", "p")
            .await
            .unwrap()
            .is_none()
    );
}

fn copy(answer: &Answer) -> Answer {
    let mut copy = Response::new(answer.body().clone());
    *copy.status_mut() = answer.status();
    *copy.headers_mut() = answer.headers().clone();
    copy
}

#[tokio::test]
async fn servers_before_aggregated_discovery() {
    let groups = json!({"kind": "APIGroupList", "groups": [{
        "name": "apps",
        "versions": [{"version": "v1beta1"}, {"version": "v1"}],
        "preferredVersion": {"version": "v1"},
    }]});
    let kinds = |version: &str| {
        answer(
            200,
            &json!({"kind": "APIResourceList", "groupVersion": version, "resources": [
                {"name": "deployments", "kind": "Deployment", "namespaced": true},
                {"name": "deployments/scale", "kind": "Scale", "namespaced": true},
            ]}),
        )
    };
    let script = Script::new([
        answer(200, &groups),
        kinds("apps/v1"),
        kinds("apps/v1beta1"),
    ]);
    let cluster = script.cluster();
    let found = cluster.versions("apps", "Deployment").await.unwrap();
    let versions: Vec<&str> = found.iter().map(|one| one.gvk.version.as_str()).collect();
    assert_eq!(versions, ["v1", "v1beta1"], "the preferred one first");
    let gvk = Gvk::new("apps/v1", "Deployment");
    assert_eq!(
        cluster.resource(&gvk).await.unwrap().unwrap().plural,
        "deployments"
    );
    let expected = ["/apis", "/apis/apps/v1", "/apis/apps/v1beta1"];
    assert_eq!(
        script.take_requests(),
        expected.map(|path| format!("{} {path}", Method::GET))
    );
}

/// The kinds of an aggregated API server that does not answer are unknown, which is not the same as
/// not served.
#[tokio::test]
async fn a_stale_group_is_not_an_absent_kind() {
    let stale = json!({"kind": "APIGroupDiscoveryList", "items": [{
        "metadata": {"name": "metrics.k8s.io"},
        "versions": [{"version": "v1beta1", "freshness": "Stale"}],
    }]});
    let script = Script::new([answer(200, &stale), answer(200, &stale)]);
    let gvk = Gvk::new("metrics.k8s.io/v1beta1", "PodMetrics");
    let error = script.cluster().resource(&gvk).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let unknown = Script::new([answer(200, &stale)]);
    let gvk = Gvk::new("acme.example/v1", "Gadget");
    assert_eq!(unknown.cluster().resource(&gvk).await.unwrap(), None);
}

/// A server that answers only `/version`, and only when it is `up`; and the paths of its requests.
struct Silent {
    up: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<String>>>,
    cluster: KubeCluster,
}

impl Silent {
    fn new() -> Self {
        let (up, asked) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (is_up, paths) = (up.clone(), asked.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let answers = path == "/version" && is_up.load(Ordering::Relaxed);
            paths.lock().unwrap().push(path);
            async move {
                if !answers {
                    std::future::pending::<()>().await;
                }
                Ok::<_, std::io::Error>(raw(200, "{}"))
            }
        });
        Self {
            up,
            asked,
            cluster: KubeCluster::from_service(service, "https://k8s.example", None).unwrap(),
        }
    }

    /// Returns the number of requests that one `get` caused, its duration in seconds, and its error
    /// message.
    async fn get(&self) -> (usize, u64, String) {
        let start = tokio::time::Instant::now();
        let error = self.cluster.get(&pods(), "a", "a").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        let asked = std::mem::take(&mut *self.asked.lock().unwrap()).len();
        (asked, start.elapsed().as_secs(), error.message)
    }
}

/// A server that is down costs one probe, regardless of the number of requests; each failed probe
/// doubles the pause.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_probed_by_one_request() {
    let server = Silent::new();
    let (asked, took, message) = server.get().await;
    assert_eq!((asked, took), (2, 10), "the request and a concurrent probe");
    let expected = "GET /api/v1/namespaces/a/pods/a on https://k8s.example: no answer in 5 s";
    assert_eq!(message, expected);
    for _ in 0..40 {
        assert_eq!(server.get().await, (0, 0, expected.to_owned()));
    }
    for pause in [5, 10, 20, 40, 60, 60] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        let both = tokio::join!(server.get(), server.get());
        assert_eq!(
            (both.0.0 + both.1.0, both.0.1, both.1.1),
            (1, 5, 5),
            "{pause} s"
        );
        assert_eq!(server.get().await.0, 0);
    }
    // The server is up again: a request passes after the probe.
    server.up.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(60)).await;
    let (asked, took, _) = server.get().await;
    assert_eq!(
        (asked, took),
        (4, 30),
        "probes before, during and after the request"
    );
}

/// A hanging aggregated API server or webhook does not block other requests to the server.
#[tokio::test(start_paused = true)]
async fn a_hanging_request_does_not_block_the_server() {
    let server = Silent::new();
    server.up.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let (asked, took, message) = server.get().await;
        assert_eq!((asked, took), (3, 30), "the request is sent each time");
        assert!(message.ends_with("no answer in 30 s"), "{message}");
    }
}

pub fn events(lines: &[Value]) -> Answer {
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    raw(200, &lines.concat())
}

pub fn event(kind: &str, name: &str, version: &str) -> Value {
    let mut object = pod(name);
    object["metadata"]["resourceVersion"] = version.into();
    json!({"type": kind, "object": object})
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_watch_is_read_up_to_its_bookmark() {
    let script = Script::new([
        events(&[
            event("ADDED", "a", "5"),
            event("MODIFIED", "a", "6"),
            event("DELETED", "b", "7"),
            event("BOOKMARK", "", "9"),
            event("ADDED", "later", "10"),
        ]),
        events(&[event("ADDED", "c", "11")]),
        raw(200, ""),
    ]);
    let cluster = script.cluster();
    let watch = async |version: &str| cluster.watch(&pods(), "x=y", version, SECOND).await;
    let seen = watch("4").await.unwrap();
    let texts = seen.changes.iter().map(|change| match change {
        Change::Written(object) => format!("+{}", object.name()),
        Change::Deleted(object) => format!("-{}", object.name()),
    });
    let texts: Vec<String> = texts.collect();
    assert_eq!(
        (texts.join(" "), seen.version.as_str()),
        ("+a +a -b".to_owned(), "9")
    );
    // Without a bookmark, the next watch continues from the last change, or from the same version.
    assert_eq!(watch("9").await.unwrap().version, "11");
    let last = watch("11").await.unwrap();
    assert!(last.version == "11" && last.changes.is_empty());
    assert!(script.take_requests()[0].ends_with(
        "/api/v1/pods?labelSelector=x%3Dy&watch=true&allowWatchBookmarks=true&resourceVersion=4&timeoutSeconds=1"
    ));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_gives_no_changes() {
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let gone = json!({"type": "ERROR", "object": gone});
    let other = json!({"type": "ADDED", "object": {"kind": "Node", "apiVersion": "v1",
        "metadata": {"name": "n", "resourceVersion": "5"}}});
    let cases = [
        (
            events(&[event("ADDED", "a", "5"), gone]),
            ErrorKind::Invalid,
            true,
        ),
        (status(410, "Gone", "too old"), ErrorKind::Invalid, true),
        (
            status(403, "Forbidden", "cannot watch"),
            ErrorKind::Denied,
            false,
        ),
        (
            status(503, "ServiceUnavailable", "starting"),
            ErrorKind::Unavailable,
            false,
        ),
        (events(&[other]), ErrorKind::Unreadable, false),
        (
            events(&[event("RENAMED", "a", "5")]),
            ErrorKind::Unreadable,
            false,
        ),
        (
            events(&[event("ADDED", "a", "")]),
            ErrorKind::Unreadable,
            false,
        ),
        (
            raw(200, r#"{"type": "ADDED", "object": {"ki"#),
            ErrorKind::Unreadable,
            false,
        ),
        (
            raw(200, "<html>canary</html>"),
            ErrorKind::Unreadable,
            false,
        ),
    ];
    for (answer, kind, is_expired) in cases {
        let script = Script::new([answer]);
        let watch = script.cluster().watch(&pods(), "", "4", SECOND).await;
        let error = watch.unwrap_err();
        assert_eq!(
            (error.kind, error.is_expired()),
            (kind, is_expired),
            "{error}"
        );
        assert!(!error.message.contains("canary"), "{error}");
        assert_eq!(script.take_requests().len(), 1, "a watch is sent once");
    }
    let lost = Script::default().cluster();
    let error = lost.watch(&pods(), "", "4", SECOND).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
}
