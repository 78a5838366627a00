//! API servers: embedded ones behind the gate, which can be dark or hang, and whose writes are
//! checked.

use crate::bugs::Bug;
use crate::check::{CONFIGS, Checker, OWNER_NAME, OWNER_NAMESPACE, RECORDS};
use crate::fleet::APPS;
use crate::gate::{Gate, Kind, Trouble};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::cluster::KubeCluster;
use driftless_adapters::embedded::{Embedded, ResponseBody};
use driftless_apiserver::{Body, Request as ServerRequest, Server, User};
use driftless_kernel::ports::{
    Access, Clock, Cluster, Clusters, ErrorKind, Impersonation, PortError, Result,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::FutureExt as _;
use http::request::Parts;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body as KubeBody;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// A time that is longer than any client waits.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// The size in bytes above which API servers compress an answer (`defaultGzipThresholdBytes` of
/// k8s.io/apiserver).
const COMPRESSED: usize = 128 * 1024;

/// Compresses an answer with the level of API servers (`defaultGzipContentEncodingLevel`: 1).
fn compress(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(1));
    encoder.write_all(body).expect("a vector takes all bytes");
    encoder.finish().expect("a vector takes all bytes").into()
}

/// The availability of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Light {
    /// The server answers.
    Lit,
    /// The server refuses connections.
    Dark,
    /// The server accepts connections and never answers.
    Hung,
}

/// An embedded API server behind the gate, with a switch that makes it dark or hung.
pub struct ApiServer {
    /// The name of the cluster.
    pub name: String,
    /// The URL in kubeconfigs.
    pub url: String,
    embedded: Embedded,
    light: Mutex<Light>,
    client: Mutex<Option<KubeCluster>>,
    gate: Arc<Gate>,
    checker: Arc<Checker>,
    bug: Option<Bug>,
    /// The change of another writer, done to an object just before the core deletes it.
    ambush: Mutex<Option<Ambush>>,
    /// True if another writer changes the next record of a release just before the core does.
    record_changes: AtomicBool,
    /// The number of requests other than reads.
    writes: AtomicU64,
}

type Ambush = Box<dyn FnOnce(&ApiServer, &str) + Send>;

impl ApiServer {
    /// Returns a server with this content.
    pub fn new(
        name: &str,
        content: &Server,
        clock: Arc<dyn Clock>,
        gate: Arc<Gate>,
        checker: Arc<Checker>,
        bug: Option<Bug>,
    ) -> Self {
        let embedded = Embedded::with_server(content.clone(), clock);
        Self {
            name: name.to_owned(),
            url: format!("https://{name}.internal:443"),
            embedded,
            light: Mutex::new(Light::Lit),
            client: Mutex::default(),
            gate,
            checker,
            bug,
            ambush: Mutex::default(),
            record_changes: AtomicBool::new(false),
            writes: AtomicU64::new(0),
        }
    }

    /// Sets the availability.
    pub fn set(&self, light: Light) {
        *self.light.lock().expect("the switch") = light;
    }

    /// Returns the availability.
    pub fn light(&self) -> Light {
        *self.light.lock().expect("the switch")
    }

    /// Restarts the server: connections and the caches of clients are lost.
    pub fn restart(&self) {
        *self.client.lock().expect("the client") = None;
    }

    /// Calls `change` with the path of the next object that the core deletes, just before the
    /// delete.
    pub fn ambush(&self, change: impl FnOnce(&Self, &str) + Send + 'static) {
        *self.ambush.lock().expect("the ambush") = Some(Box::new(change));
    }

    /// Changes the next record of a release that the core updates, just before the update.
    pub fn change_record(&self) {
        self.record_changes.store(true, Ordering::Relaxed);
    }

    /// Returns the number of requests other than reads: while it stays the same, so do the objects.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    fn count(&self, is_read: bool) {
        self.writes
            .fetch_add(u64::from(!is_read), Ordering::Relaxed);
    }

    /// Returns a copy of the whole state.
    pub fn content(&self) -> Server {
        self.embedded.with(|server, _| server.clone())
    }

    /// Sends a request as an administrator, without the gate.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> std::result::Result<Value, (u16, String)> {
        self.count(method == "GET");
        let request = ServerRequest::new(method, path, User::admin("operator"));
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = self.embedded.handle(&request.with_body(media, body));
        let Body::Json(value, _) = answer.body else {
            return Err((
                answer.status,
                format!("{method} {path}: the answer is not JSON"),
            ));
        };
        match answer.status {
            200..300 => Ok(value),
            code => Err((
                code,
                value["message"].as_str().unwrap_or_default().to_owned(),
            )),
        }
    }

    /// Returns an object; `None` if it does not exist.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, "application/json", None).ok()
    }

    /// Creates an object. Returns whether that succeeded.
    pub fn create(&self, path: &str, object: &Value) -> bool {
        self.send("POST", path, "application/json", Some(object))
            .is_ok()
    }

    /// Merges a patch into an object. Returns whether the object exists.
    pub fn merge(&self, path: &str, patch: &Value) -> bool {
        let media = "application/merge-patch+json";
        self.send("PATCH", path, media, Some(patch)).is_ok()
    }

    /// Deletes an object. Returns whether it existed.
    pub fn delete(&self, path: &str) -> bool {
        self.send("DELETE", path, "application/json", None).is_ok()
    }

    /// Returns the items of a list.
    pub fn list(&self, path: &str) -> Vec<Value> {
        let mut list = self.get(path).unwrap_or_default();
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// Answers a request, and lets the checker see what it changed.
    fn answer(&self, parts: Parts, body: Bytes) -> Answer {
        self.count(parts.method == http::Method::GET);
        let path = parts.uri.path().to_owned();
        let is_dry = parts
            .uri
            .query()
            .is_some_and(|query| query.contains("dryRun"));
        let is_write = parts.method != http::Method::GET && !is_dry;
        let watched = is_write && self.checker.watches(&path);
        let object = path.trim_end_matches("/status").to_owned();
        let method = parts.method.clone();
        let media = parts.headers.get(http::header::CONTENT_TYPE);
        let merges = media.is_some_and(|media| media == "application/merge-patch+json");
        if self.bug == Some(Bug::UnreadableIsAbsent)
            && method == http::Method::GET
            && path.starts_with(CONFIGS)
            && path != CONFIGS
            && self.gate.number().is_multiple_of(4)
        {
            return self.refuse(&parts, Trouble::TimedOut);
        }
        if self.bug == Some(Bug::UnreadableSecretIsAbsent)
            && path.ends_with("-kubeconfig")
            && self.gate.number().is_multiple_of(3)
        {
            return self.refuse(&parts, Trouble::TimedOut);
        }
        if method == http::Method::DELETE && watched {
            let ambush = self.ambush.lock().expect("the ambush").take();
            if let Some(ambush) = ambush {
                ambush(self, &object);
            }
        }
        let is_record = path.starts_with(RECORDS) && is_write && method != http::Method::POST;
        let changed = is_record && self.record_changes.swap(false, Ordering::Relaxed);
        if changed {
            let at = self.gate.number().to_string();
            let by = json!({"metadata": {"annotations": {"changed-at": at}}});
            self.merge(&object, &by);
        }
        let before = watched.then(|| self.get(&object)).flatten();
        let body = match self.bug {
            Some(bug) if is_write => match self.apply_bug(bug, &parts, body, before.as_ref()) {
                Ok(body) => body,
                Err(answer) => return Ok(answer),
            },
            _ => body,
        };
        let is_watch = parts
            .uri
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let request = http::Request::from_parts(parts, Full::new(body));
        let mut service = self.embedded.service(User::admin("driftless"));
        let answer = tower::Service::call(&mut service, request)
            .now_or_never()
            .expect("the server answers at once")
            .expect("the server answers");
        let answer = match is_watch {
            true => self.disturb(answer),
            false => answer,
        };
        if changed && answer.status().is_success() {
            let message =
                format!("{object} was changed by a user, and {method} replaced that change");
            self.gate.trace.violation('P', &message);
        }
        if is_record
            && answer.status().is_success()
            && let Some(record) = self.get(&object)
        {
            self.checker.note_record(self, &record);
        }
        if self.bug == Some(Bug::ForeignDelete) && method == http::Method::GET {
            return Ok(self.with_owner_labels(&object, answer));
        }
        if watched && answer.status().is_success() {
            let after = self.get(&object);
            let violations =
                self.checker
                    .check_write(self, &object, merges, before.as_ref(), after.as_ref());
            for (invariant, message) in violations {
                self.gate.trace.violation(invariant, &message);
            }
        }
        Ok(answer)
    }

    /// Sends an answer to the function: compressed if it is large and the client accepts that, and
    /// counted.
    async fn transfer(
        &self,
        kind: Kind,
        request: &Parts,
        answer: http::Response<ResponseBody>,
    ) -> http::Response<ResponseBody> {
        let query = request.uri.query().unwrap_or_default();
        if query.contains("watch=true") {
            let gate = self.gate.clone();
            return answer.map(|body| {
                let counted = body.map_frame(move |frame| {
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    gate.receive(kind, bytes, bytes);
                    frame
                });
                counted.boxed_unsync()
            });
        }
        let (mut head, body) = answer.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let accepted = request.headers.get(http::header::ACCEPT_ENCODING);
        let sent = match accepted.is_some_and(|value| value == "gzip") && body.len() > COMPRESSED {
            false => body.clone(),
            true => {
                let gzip = http::HeaderValue::from_static("gzip");
                head.headers.insert(http::header::CONTENT_ENCODING, gzip);
                head.headers.remove(http::header::CONTENT_LENGTH);
                compress(&body)
            }
        };
        self.gate.receive(kind, body.len(), sent.len());
        http::Response::from_parts(head, Full::new(sent).boxed_unsync())
    }

    /// Returns a watch as a server may answer it: some versions are too old, some changes come too
    /// late, and some bookmarks are lost.
    fn disturb(&self, answer: http::Response<ResponseBody>) -> http::Response<ResponseBody> {
        let number = self.gate.number();
        if number % 13 == 5 {
            let gone = status(410, "Expired", json!({}));
            return response(200, &json!({"type": "ERROR", "object": gone}), None);
        }
        if number % 11 == 3 {
            return answer.map(|_| Full::default().boxed_unsync());
        }
        if number % 3 != 1 {
            return answer;
        }
        let without_bookmarks = |data: Bytes| {
            let lines = data.split_inclusive(|byte| *byte == b'\n');
            let kept = lines.filter(|line| {
                let event = serde_json::from_slice::<Value>(line).unwrap_or_default();
                event["type"] != "BOOKMARK"
            });
            kept.collect::<Vec<_>>().concat().into()
        };
        answer.map(|body| {
            body.map_frame(move |frame| frame.map_data(without_bookmarks))
                .boxed_unsync()
        })
    }

    /// Returns the answer with the object's former owner labels, for [`Bug::ForeignDelete`]; other
    /// answers are unchanged.
    fn with_owner_labels(
        &self,
        path: &str,
        answer: http::Response<ResponseBody>,
    ) -> http::Response<ResponseBody> {
        let Some(mut object) = self.get(path).filter(|_| self.checker.watches(path)) else {
            return answer;
        };
        let Some((namespace, name)) = self.checker.last_owner(&self.name, path) else {
            return answer;
        };
        object["metadata"]["labels"][OWNER_NAME] = name.into();
        object["metadata"]["labels"][OWNER_NAMESPACE] = namespace.into();
        response(200, &object, None)
    }

    /// Changes a write as a planted bug does: returns another body, or as the error an answer
    /// without an effect.
    #[expect(
        clippy::result_large_err,
        reason = "the answer is as large as answers are"
    )]
    fn apply_bug(
        &self,
        bug: Bug,
        parts: &Parts,
        body: Bytes,
        before: Option<&Value>,
    ) -> std::result::Result<Bytes, http::Response<ResponseBody>> {
        let is_delete = parts.method == http::Method::DELETE;
        let path = parts.uri.path();
        match bug {
            Bug::LostPurge if is_delete && path.starts_with(RECORDS) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
                Err(response(200, &status, None))
            }
            Bug::LostDelete if is_delete && path.contains("/configmaps/") => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
                Err(response(200, &status, None))
            }
            Bug::UnconditionalRecords if !path.starts_with(RECORDS) => Ok(body),
            Bug::NoApiPreconditions | Bug::UnconditionalRecords => {
                let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
                    return Ok(body);
                };
                if let Some(map) = value.as_object_mut() {
                    map.remove("preconditions");
                }
                if let Some(map) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                    map.remove("resourceVersion");
                }
                Ok(Bytes::from(value.to_string()))
            }
            Bug::InventoryAdvances => {
                let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
                    return Ok(body);
                };
                let place = "/status/inventory/entries";
                let written = value.pointer(place);
                let known = before.and_then(|before| before.pointer(place));
                let entries = written.or(known).and_then(Value::as_array);
                let Some(mut entries) = entries.cloned().filter(|_| path.ends_with("/status"))
                else {
                    return Ok(body);
                };
                let forgotten = self.gate.forgotten.lock().expect("the forgotten entries");
                entries.retain(|entry| {
                    let id = entry["id"].as_str().unwrap_or_default();
                    !forgotten.contains(id)
                });
                value["status"]["inventory"] = json!({"entries": entries});
                Ok(Bytes::from(value.to_string()))
            }
            Bug::LostInventory if String::from_utf8_lossy(&body).contains("\"inventory\"") => {
                match before {
                    Some(before) => Err(response(200, before, None)),
                    None => Ok(body),
                }
            }
            _ => Ok(body),
        }
    }

    /// Returns a refusal of the server, or a connection error.
    fn refuse(&self, parts: &Parts, trouble: Trouble) -> Answer {
        let is_read = parts.method == http::Method::GET;
        let is_one = parts.uri.path().contains("/namespaces/")
            && parts.uri.path().split('/').count() > 5
            && !parts
                .uri
                .query()
                .is_some_and(|query| query.contains("limit"));
        if self.bug == Some(Bug::UnreadableIsAbsent) && is_read && is_one {
            let name = parts.uri.path().rsplit('/').next().unwrap_or_default();
            let details = json!({"name": name, "kind": "configmaps"});
            return Ok(response(404, &status(404, "NotFound", details), None));
        }
        let path = parts.uri.path();
        if self.bug == Some(Bug::UnreadableSecretIsAbsent)
            && is_read
            && path.ends_with("-kubeconfig")
        {
            return Ok(response(404, &status(404, "NotFound", json!({})), None));
        }
        if let Some(object) = path.strip_prefix(&format!("{CONFIGS}/")) {
            let is_delete = parts.method == http::Method::DELETE;
            if self.bug == Some(Bug::InventoryAdvances) && is_delete {
                let mut forgotten = self.gate.forgotten.lock().expect("the forgotten entries");
                forgotten.insert(format!("{APPS}_{object}__ConfigMap"));
            }
            if self.bug == Some(Bug::ForceOnRefusal) && !is_read && !is_delete {
                let before = self.get(path);
                self.delete(path);
                let violations = self
                    .checker
                    .check_write(self, path, false, before.as_ref(), None);
                for (invariant, message) in violations {
                    self.gate.trace.violation(invariant, &message);
                }
            }
        }
        let dice = match trouble {
            Trouble::Before(dice) => dice,
            Trouble::After(_) => return Err("connection reset".into()),
            Trouble::TimedOut => return Err("no answer".into()),
        };
        let answer =
            |code, reason, after| Ok(response(code, &status(code, reason, json!({})), after));
        match dice % 6 {
            0 => answer(429, "TooManyRequests", Some(1 + dice / 6 % 10)),
            1 => answer(503, "ServiceUnavailable", None),
            2 => answer(500, "InternalError", None),
            3 if !is_read => answer(409, "Conflict", None),
            4 => answer(504, "Timeout", None),
            _ => Err("connection reset".into()),
        }
    }
}

fn status(code: u16, reason: &str, details: Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("simulated error {reason}"), "reason": reason, "code": code, "details": details})
}

fn response(code: u16, body: &Value, after: Option<u64>) -> http::Response<ResponseBody> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    let mut response = http::Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if let Some(after) = after {
        response = response.header("retry-after", after);
    }
    response.body(body).expect("an answer")
}

type Failed = Box<dyn std::error::Error + Send + Sync>;
type Answer = std::result::Result<http::Response<ResponseBody>, Failed>;

/// The HTTP service of a server, behind the gate.
struct Gated(Arc<ApiServer>);

impl tower::Service<http::Request<KubeBody>> for Gated {
    type Response = http::Response<ResponseBody>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<KubeBody>) -> Self::Future {
        let server = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let name = format!("{} {} {}", server.name, parts.method, parts.uri);
            match server.light() {
                Light::Lit => {}
                Light::Dark => {
                    server.gate.trace.line(&format!("dark: {name}"));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    return Err("connection refused".into());
                }
                Light::Hung => {
                    server.gate.trace.line(&format!("hung: {name}"));
                    tokio::time::sleep(FOR_EVER).await;
                    return Err("no answer".into());
                }
            }
            let kind = match parts.method == http::Method::GET {
                true => Kind::ApiRead,
                false => Kind::ApiWrite,
            };
            let request = parts.clone();
            let effect = || server.answer(parts, body);
            let refuse = |trouble| server.refuse(&request, trouble);
            let answer = server
                .gate
                .call(kind, &name, Some(FOR_EVER), effect, refuse)
                .await?;
            Ok(server.transfer(kind, &request, answer).await)
        })
    }
}

/// Connects kubeconfigs to the servers. Each server has one client, as in a function that stays
/// warm.
pub struct SimClusters {
    /// The servers by name.
    pub servers: BTreeMap<String, Arc<ApiServer>>,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
}

#[async_trait]
impl Clusters for SimClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let mut all = self.servers.values();
        let mut found = all.find(|server| server.url == access.server);
        if self.bug == Some(Bug::WrongCluster)
            && found.is_some_and(|server| server.light() != Light::Lit)
        {
            found = self.servers.values().find(|one| one.light() == Light::Lit);
        }
        let server =
            found.ok_or_else(|| PortError::new(ErrorKind::Unavailable, "no such server"))?;
        let mut client = server.client.lock().expect("the client");
        let client = match &mut *client {
            Some(client) => client,
            none => none.insert(KubeCluster::from_service(
                Gated(server.clone()),
                &access.server,
                None,
            )?),
        };
        Ok(Arc::new(client.as_user(user)?))
    }
}
