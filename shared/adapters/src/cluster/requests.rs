//! The requests to an API server: reads with retries, writes that are sent once.

use super::breaker::{Breaker, NoAnswer, PROBE_AFTER};
use super::connect::REQUEST_TIMEOUT;
use super::limiter::Limiter;
use super::path;
use super::response::{ApiResponse, RequestContext};
use crate::percent::encode;
use crate::trace;
use bytes::{Bytes, BytesMut};
use driftless_kernel::ports::{
    ApplyRequest, Change, Changes, Delete, Deleted, ErrorKind, ListRequest, Page, Patch,
    PatchRequest, PortError, Resource, Result, all_pages,
};
use driftless_manifest::Object;
use futures::FutureExt as _;
use futures::future::{Either, select};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::pin::pin;
use std::time::Duration;
use tower::BoxError;

/// The limit of one answer in bytes, which is much more than a page of 500 objects.
const ANSWER_LIMIT: usize = 256 << 20;
/// The limit of the changes of one watch in bytes: of more changes, a list is read.
const WATCH_LIMIT: usize = 32 << 20;
/// The time that the answer of a watch may take in addition to the length of the watch.
const WATCH_SLACK: Duration = Duration::from_secs(3);
/// The shortest time that an API server watches for.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// The shortest silence after which a server has sent the events that it knows.
const SILENCE: Duration = Duration::from_millis(250);
/// The silence of a slow server, as a multiple of the time until its answer began.
const SILENCE_FACTOR: u32 = 4;

/// The number of objects of one page.
const PAGE: usize = 500;
/// The number of attempts of a read.
const READ_TRIES: u32 = 3;
/// The number of attempts of a write that the server refuses unread.
const WRITE_TRIES: u32 = 3;
/// The delay before the second attempt; it doubles for each further one.
const READ_WAIT: Duration = Duration::from_millis(150);
/// The longest `Retry-After` for which a request is retried here.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The path of a server's version.
const VERSION: &str = "/version";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// The default media type of requests and answers.
pub const JSON: &str = "application/json";

/// A client of an API server as one user.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The HTTP client with its connections.
    pub client: &'a kube::Client,
    /// The user to impersonate.
    pub user: Option<&'a HeaderValue>,
    /// The server's name, for messages.
    pub server: &'a str,
    /// The circuit breaker of the server.
    pub breaker: &'a Breaker,
    /// The bound of the requests in flight to the server.
    pub limiter: &'a Limiter,
}

/// The answer to `/version`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

/// The part of an answer that is read.
#[derive(Clone, Copy)]
enum Reading {
    /// The whole answer.
    Whole,
    /// The events of a watch, up to its first bookmark.
    Bookmark,
    /// The events of a watch, until none has come for a moment.
    Silence,
}

impl Caller<'_> {
    /// Sends a request through the circuit breaker and reads the whole answer, with any status.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<ApiResponse> {
        self.send_within(REQUEST_TIMEOUT, method, path, headers, body, Reading::Whole)
            .await
    }

    /// Sends a request with a timeout, and reads the part of the answer that `reading` names.
    async fn send_within(
        &self,
        limit: Duration,
        method: &Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
        reading: Reading,
    ) -> Result<ApiResponse> {
        trace::count_api_request();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(user) = self.user {
            request = request.header("impersonate-user", user);
        }
        let operation = format!("{method} {} on {}", plain(path), self.server);
        let request = request
            .body(Body::from(body))
            .map_err(|error| PortError::new(ErrorKind::Invalid, format!("{operation}: {error}")))?;
        let fail = |reason: String| {
            PortError::new(ErrorKind::Unavailable, format!("{operation}: {reason}"))
        };
        let down = |error: PortError| fail(error.message);
        let place = match reading {
            Reading::Whole => Some(self.limiter.enter().await),
            Reading::Bookmark | Reading::Silence => None,
        };
        self.breaker.pass(self.probe()).await.map_err(down)?;
        let start = tokio::time::Instant::now();
        let exchange = tokio::time::timeout(limit, self.exchange(request, reading)).boxed();
        let silence = tokio::time::sleep(PROBE_AFTER).boxed();
        let answer = match select(exchange, silence).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), exchange)) => {
                match select(exchange, self.breaker.probe(self.probe()).boxed()).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right((Ok(()), exchange)) => exchange.await,
                    Either::Right((Err(error), _)) => return Err(down(error)),
                }
            }
        };
        match answer.unwrap_or(Err(NoAnswer::InTime(limit))) {
            Ok(answer) => {
                if let Some(place) = place {
                    place.answered(answer.status, answer.retry_after_header());
                }
                Ok(answer)
            }
            Err(reason) => {
                if Breaker::is_suspicious(start.elapsed()) {
                    self.breaker.probe(self.probe()).await.map_err(down)?;
                }
                Err(fail(reason.to_string()))
            }
        }
    }

    /// Sends a request and reads the answer. Of a failed watch, the answer is read whole.
    async fn exchange(
        &self,
        request: Request<Body>,
        reading: Reading,
    ) -> Result<ApiResponse, NoAnswer> {
        let start = tokio::time::Instant::now();
        let sent = self.client.send(request).await;
        let (head, body) = sent.map_err(|error| cause(&error))?.into_parts();
        let silence = match reading {
            Reading::Silence => (start.elapsed() * SILENCE_FACTOR).max(SILENCE),
            Reading::Bookmark | Reading::Whole => Duration::MAX,
        };
        let body = match reading {
            Reading::Bookmark | Reading::Silence if head.status.is_success() => {
                events(body, silence).await
            }
            _ => {
                let body = Limited::new(body, ANSWER_LIMIT).collect().await;
                body.map(|body| body.to_bytes())
            }
        };
        Ok(ApiResponse {
            status: head.status,
            headers: head.headers,
            body: body.map_err(|error| cause(error.as_ref()))?,
        })
    }

    /// Requests the version, which every API server serves. Any answer counts as success.
    async fn probe(&self) -> Result<(), NoAnswer> {
        let request = Request::get(VERSION).body(Body::empty());
        let request = request.map_err(|error| cause(&error))?;
        self.exchange(request, Reading::Whole).await.map(|_| ())
    }

    /// Sends a GET request, and retries it if the server is busy but not if the server cannot be
    /// reached.
    ///
    /// # Errors
    /// Fails without an answer, and for any status except success, "not modified" and "not found"
    /// of an object.
    pub async fn read(
        &self,
        path: &str,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        resource: Option<&Resource>,
    ) -> Result<ApiResponse> {
        if !headers.iter().any(|(name, _)| name == header::ACCEPT) {
            headers.push((header::ACCEPT, HeaderValue::from_static(JSON)));
        }
        let operation = format!("GET {} on {}", plain(path), self.server);
        let mut wait = READ_WAIT;
        for attempt in 1.. {
            let answer = self
                .send(&Method::GET, path, &headers, Bytes::new())
                .await?;
            if answer.status.is_success()
                || answer.status == StatusCode::NOT_MODIFIED
                || answer.is_absent()
            {
                return Ok(answer);
            }
            let error = answer.to_error(&RequestContext {
                operation: &operation,
                resource,
            });
            let again = matches!(answer.status.as_u16(), 429 | 502 | 503 | 504);
            let pause = error.retry_after.unwrap_or(wait);
            if !again || attempt == READ_TRIES || pause > MAX_WAIT {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            wait *= 2;
        }
        Err(PortError::new(ErrorKind::Unavailable, operation))
    }

    /// Sends a write once, and again only if the server has refused it unread because it is busy
    /// (429): the limiter keeps the wait that the server names.
    ///
    /// # Errors
    /// Fails without an answer, and for any status except success.
    pub async fn write(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &Value,
        resource: &Resource,
    ) -> Result<ApiResponse> {
        let headers = [
            (header::ACCEPT, HeaderValue::from_static(JSON)),
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        ];
        let body = serde_json::to_vec(body).map_err(|error| {
            PortError::new(
                ErrorKind::Invalid,
                format!("write the request as JSON: {error}"),
            )
        })?;
        let body = Bytes::from(body);
        let mut answer = self.send(&method, path, &headers, body.clone()).await?;
        for _ in 1..WRITE_TRIES {
            let wait = answer.retry_after_header().filter(|wait| *wait <= MAX_WAIT);
            if answer.status != StatusCode::TOO_MANY_REQUESTS || wait.is_none() {
                break;
            }
            answer = self.send(&method, path, &headers, body.clone()).await?;
        }
        if answer.status.is_success() {
            return Ok(answer);
        }
        let operation = format!("{method} {} on {}", plain(path), self.server);
        Err(answer.to_error(&RequestContext {
            operation: &operation,
            resource: Some(resource),
        }))
    }

    /// Parses the JSON of a successful answer.
    ///
    /// # Errors
    /// Fails for any other status, and if the JSON is not valid.
    pub fn decode<T: DeserializeOwned>(
        &self,
        path: &str,
        answer: &ApiResponse,
        resource: Option<&Resource>,
    ) -> Result<T> {
        let operation = format!("GET {} on {}", plain(path), self.server);
        if !answer.status.is_success() {
            return Err(answer.to_error(&RequestContext {
                operation: &operation,
                resource,
            }));
        }
        serde_json::from_slice(&answer.body).map_err(|error| unreadable(&operation, &error))
    }

    /// Parses the object of a successful answer.
    fn object(&self, operation: &str, resource: &Resource, answer: &ApiResponse) -> Result<Object> {
        let operation = format!("{operation} on {}", self.server);
        let object: Object =
            serde_json::from_slice(&answer.body).map_err(|error| unreadable(&operation, &error))?;
        if object.kind() != resource.gvk.kind {
            let message = format!(
                "{operation}: the answer is a {}, not a {}",
                object.kind(),
                resource.gvk.kind
            );
            return Err(PortError::new(ErrorKind::Unreadable, message));
        }
        Ok(object)
    }

    /// Requests the server's version.
    ///
    /// # Errors
    /// Fails if the server does, or if the answer is not valid.
    pub async fn version(&self) -> Result<String> {
        let answer = self.read(VERSION, Vec::new(), None).await?;
        let found: Version = self.decode(VERSION, &answer, None)?;
        Ok(found.git_version)
    }

    pub async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        let path = path::object(resource, namespace, name)?;
        let answer = self.read(&path, Vec::new(), Some(resource)).await?;
        if answer.is_absent() {
            return Ok(None);
        }
        self.object(&format!("GET {path}"), resource, &answer)
            .map(Some)
    }

    pub async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        let ListRequest {
            resource,
            namespace,
            selector,
        } = *request;
        let read =
            |next: String| async move { self.page(resource, namespace, selector, &next).await };
        let (items, _) = all_pages(read, Vec::extend).await?;
        Ok(items)
    }

    /// Reads one page of a list.
    pub async fn page(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
        next: &str,
    ) -> Result<Page> {
        let mut path = selection(resource, namespace, selector)?;
        path.push_str(&format!("limit={PAGE}"));
        if !next.is_empty() {
            path.push_str(&format!("&continue={}", encode(next)));
        }
        let answer = self.read(&path, Vec::new(), Some(resource)).await?;
        let list: List = self.decode(&path, &answer, Some(resource))?;
        if list.kind != format!("{}List", resource.gvk.kind) {
            let message = format!(
                "GET {} on {}: '{}' is not a list of {}",
                plain(&path),
                self.server,
                list.kind,
                resource.gvk.kind
            );
            return Err(PortError::new(ErrorKind::Unreadable, message));
        }
        let items = list.items.unwrap_or_default().into_iter();
        let objects = items.map(|item| self.item(resource, item));
        Ok(Page {
            objects: objects.collect::<Result<_>>()?,
            next: list.metadata.next,
            version: list.metadata.version,
        })
    }

    /// Reads the changes since a version. The request is sent once: the caller lists instead.
    pub async fn watch(
        &self,
        resource: &Resource,
        selector: &str,
        version: &str,
        time: Duration,
    ) -> Result<Changes> {
        let (reading, time) = match time.is_zero() {
            true => (Reading::Silence, SHORTEST_WATCH),
            false => (Reading::Bookmark, time),
        };
        let mut path = selection(resource, "", selector)?;
        path.push_str(&format!(
            "watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
            encode(version),
            time.as_secs()
        ));
        let headers = [(header::ACCEPT, HeaderValue::from_static(JSON))];
        let limit = time + WATCH_SLACK;
        let answer = self
            .send_within(limit, &Method::GET, &path, &headers, Bytes::new(), reading)
            .await?;
        let operation = format!("GET {} on {}", plain(&path), self.server);
        let context = RequestContext {
            operation: &operation,
            resource: Some(resource),
        };
        if !answer.status.is_success() {
            return Err(answer.to_error(&context));
        }
        let mut seen = Changes {
            changes: Vec::new(),
            version: version.to_owned(),
        };
        let lines = answer.body.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            let event: Event =
                serde_json::from_slice(line).map_err(|error| unreadable(&operation, &error))?;
            if event.kind == "ERROR" {
                return Err(ApiResponse::of_status(event.object).to_error(&context));
            }
            // A bookmark has no name, so it is not an object.
            let kind = event.object.get("kind").and_then(Value::as_str);
            let metadata = event.object.get("metadata");
            let version = metadata.and_then(|metadata| metadata["resourceVersion"].as_str());
            let version = version.filter(|version| !version.is_empty());
            let (true, Some(version)) = (kind == Some(resource.gvk.kind.as_str()), version) else {
                let message = format!("{operation}: an event is not of a {}", resource.gvk.kind);
                return Err(PortError::new(ErrorKind::Unreadable, message));
            };
            seen.version = version.to_owned();
            match event.kind.as_str() {
                "ADDED" | "MODIFIED" => {
                    let object = self.item(resource, event.object)?;
                    seen.changes.push(Change::Written(object));
                }
                "DELETED" => {
                    let object = self.item(resource, event.object)?;
                    seen.changes.push(Change::Deleted(object));
                }
                "BOOKMARK" => {}
                _ => {
                    let message = format!("{operation}: an event has an unknown type");
                    return Err(PortError::new(ErrorKind::Unreadable, message));
                }
            }
        }
        Ok(seen)
    }

    /// Converts an item of a list. Items of built-in kinds have no apiVersion and kind: the list
    /// has them for all items.
    fn item(&self, resource: &Resource, mut item: Map<String, Value>) -> Result<Object> {
        item.entry("apiVersion")
            .or_insert_with(|| resource.gvk.api_version().into());
        item.entry("kind")
            .or_insert_with(|| resource.gvk.kind.clone().into());
        Object::new(Value::Object(item)).map_err(|error| {
            let message = format!(
                "an item of the list of {} on {}: {error}",
                resource.plural, self.server
            );
            PortError::new(ErrorKind::Unreadable, message)
        })
    }

    pub async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object> {
        let ApplyRequest {
            resource,
            object,
            manager,
            force,
            dry_run,
        } = *request;
        let mut path = path::object(resource, object.namespace(), object.name())?;
        let operation = format!("PATCH {path}");
        path.push_str(&format!("?fieldManager={}&force={force}", encode(manager)));
        if dry_run {
            path.push_str("&dryRun=All");
        }
        let answer = self
            .write(
                Method::PATCH,
                &path,
                APPLY_PATCH,
                &object.clone().into(),
                resource,
            )
            .await?;
        self.object(&operation, resource, &answer)
    }

    pub async fn create(
        &self,
        resource: &Resource,
        object: &Object,
        manager: &str,
    ) -> Result<Object> {
        let mut path = path::directory(resource, object.namespace(), object.name())?;
        let operation = format!("POST {path}");
        path.push_str(&format!("?fieldManager={}", encode(manager)));
        let answer = self
            .write(Method::POST, &path, JSON, &object.clone().into(), resource)
            .await?;
        self.object(&operation, resource, &answer)
    }

    pub async fn patch(&self, request: &PatchRequest<'_>) -> Result<Object> {
        let PatchRequest {
            resource,
            namespace,
            name,
            subresource,
            patch,
            manager,
        } = *request;
        let mut path = path::object(resource, namespace, name)?;
        if let Some(subresource) = subresource {
            path.push_str(&format!("/{}", encode(subresource)));
        }
        let operation = format!("PATCH {path}");
        path.push_str(&format!("?fieldManager={}", encode(manager)));
        let (content_type, body) = match patch {
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
        };
        let answer = self
            .write(Method::PATCH, &path, content_type, body, resource)
            .await?;
        self.object(&operation, resource, &answer)
    }

    pub async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        delete: &Delete,
    ) -> Result<Deleted> {
        let path = path::object(resource, namespace, name)?;
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(policy) = delete.propagation {
            options["propagationPolicy"] = policy.into();
        }
        if let Some(uid) = &delete.uid {
            options["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &delete.resource_version {
            options["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        let headers = [
            (header::ACCEPT, HeaderValue::from_static(JSON)),
            (header::CONTENT_TYPE, HeaderValue::from_static(JSON)),
        ];
        let answer = self
            .send(&Method::DELETE, &path, &headers, options.to_string().into())
            .await?;
        let operation = format!("DELETE {path} on {}", self.server);
        if answer.is_absent() {
            return Ok(Deleted::Gone);
        }
        if !answer.status.is_success() {
            return Err(answer.to_error(&RequestContext {
                operation: &operation,
                resource: Some(resource),
            }));
        }
        let body: Value =
            serde_json::from_slice(&answer.body).map_err(|error| unreadable(&operation, &error))?;
        match (body["kind"].as_str(), body["status"].as_str()) {
            (Some("Status"), Some("Success")) if answer.status == StatusCode::OK => {
                Ok(Deleted::Gone)
            }
            (Some("Status"), Some("Success")) => Ok(Deleted::Pending),
            (Some(kind), _) if kind == resource.gvk.kind => Ok(pending(&body)),
            _ => Err(PortError::new(
                ErrorKind::Unreadable,
                format!("{operation}: the response is not an object and not a success"),
            )),
        }
    }
}

/// Returns whether a deleted object still exists: the answer is an object while something blocks
/// its deletion, but some resources also return the last state of an object that is gone.
fn pending(object: &Value) -> Deleted {
    let metadata = &object["metadata"];
    let held = |field: &str| {
        metadata[field]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    };
    let marked = metadata["deletionTimestamp"].is_string();
    let graceful = metadata["deletionGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds > 0);
    let namespace = object["spec"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    if !marked || held("finalizers") || graceful || namespace {
        Deleted::Pending
    } else {
        Deleted::Gone
    }
}

/// Returns the path of a resource's objects in a namespace, or in all if it is empty, with the
/// selector as the first parameter of an unfinished query.
fn selection(resource: &Resource, namespace: &str, selector: &str) -> Result<String> {
    let mut path = format!("{}?", path::collection(resource, namespace)?);
    if !selector.is_empty() {
        path.push_str(&format!("labelSelector={}&", encode(selector)));
    }
    Ok(path)
}

/// Reads the lines of a watch: up to the first bookmark, which shows that the changes are complete,
/// to the end of the watch, or until nothing has come for the time `silence`.
async fn events<B>(body: B, silence: Duration) -> Result<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = pin!(Limited::new(body, WATCH_LIMIT));
    let (mut read, mut start) = (BytesMut::new(), 0);
    loop {
        let Ok(frame) = tokio::time::timeout(silence, body.frame()).await else {
            // The last event may not be complete: it is that of the next watch.
            read.truncate(start);
            return Ok(read.freeze());
        };
        let Some(frame) = frame else {
            return Ok(read.freeze());
        };
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
        while let Some(length) = read[start..].iter().position(|byte| *byte == b'\n') {
            let end = start + length;
            let event = serde_json::from_slice::<EventType>(&read[start..end]);
            if event.is_ok_and(|event| event.kind == "BOOKMARK") {
                read.truncate(end);
                return Ok(read.freeze());
            }
            start = end + 1;
        }
    }
}

/// Returns the path without its query: continuation tokens would make messages unreadable.
fn plain(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

/// Returns the error for an answer that is not the expected JSON, without quoting the answer.
pub fn unreadable(operation: &str, error: &serde_json::Error) -> PortError {
    // serde_json's own message can quote a value.
    let message = format!(
        "{operation}: the response is not the expected JSON (line {}, column {})",
        error.line(),
        error.column()
    );
    PortError::new(ErrorKind::Unreadable, message)
}

/// Returns the innermost cause of a failed exchange: the outer errors have no details.
fn cause(error: &(dyn std::error::Error + 'static)) -> NoAnswer {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    NoAnswer::Broken(innermost.to_string())
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<Map<String, Value>>>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default, rename = "resourceVersion")]
    version: String,
}

/// An event of a watch.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Map<String, Value>,
}

/// The type of an event, without its object.
#[derive(Deserialize)]
struct EventType {
    #[serde(rename = "type")]
    kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use http_body_util::StreamBody;

    #[tokio::test(start_paused = true)]
    async fn events_end_with_the_silence_of_the_server() {
        let first = "{\"type\":\"ADDED\"}\n";
        let late = "{\"type\":\"MODIFIED\"}\n";
        let frames = futures::stream::unfold(0, |at| async move {
            let (pause, text) = match at {
                0 => (50, first),
                1 => (240, "{\"type\":"),
                _ => (300, late),
            };
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let frame = http_body::Frame::data(Bytes::from_static(text.as_bytes()));
            Some((Ok::<_, BoxError>(frame), at + 1))
        });
        let body = StreamBody::new(frames.take(3).boxed());
        let read = events(body, SILENCE).await.unwrap();
        assert_eq!(
            read, first,
            "the incomplete event is left to the next watch"
        );
    }
}
