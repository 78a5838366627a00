//! One request each.

use super::breaker::{Breaker, SILENCE, no_answer};
use super::connect::REQUEST_TIMEOUT;
use super::path::{self, encode};
use super::response::{ApiResponse, RequestContext};
use driftless_core::ports::{
    Apply, Delete, Deleted, ErrorKind, Patch, PortError, Resource, Result,
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
use std::time::Duration;

/// Bytes of one answer: a page of 500 objects stays far below it.
const ANSWER_LIMIT: usize = 256 << 20;
/// Objects of one page.
const PAGE: usize = 500;
/// How often a list starts again when its continuation expires on the way.
const LIST_STARTS: usize = 3;
/// How often a read is tried, and the wait before the second try; it doubles.
const READ_TRIES: u32 = 3;
const READ_WAIT: Duration = Duration::from_millis(150);
/// The longest wait that a server may ask of a read before it is given up here.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Where a server says its version.
const VERSION: &str = "/version";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// What is asked and answered in, where nothing else is said.
pub const JSON: &str = "application/json";

/// A client as one user.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The connections.
    pub client: &'a kube::Client,
    /// The user to act as.
    pub user: Option<&'a HeaderValue>,
    /// The server's name, for messages.
    pub server: &'a str,
    /// Whether the server answers.
    pub breaker: &'a Breaker,
}

/// The answer to `/version`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

impl Caller<'_> {
    /// One request and its whole answer, whatever its code.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<ApiResponse> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(user) = self.user {
            request = request.header("impersonate-user", user);
        }
        let what = format!("{method} {} on {}", plain(path), self.server);
        let request = request
            .body(Body::from(body))
            .map_err(|error| PortError::new(ErrorKind::Invalid, format!("{what}: {error}")))?;
        let fail = |why: String| PortError::new(ErrorKind::Unavailable, format!("{what}: {why}"));
        let down = |error: PortError| fail(error.message);
        self.breaker.pass(self.probe()).await.map_err(down)?;
        let start = tokio::time::Instant::now();
        let exchange = tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(request)).boxed();
        let silence = tokio::time::sleep(SILENCE).boxed();
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
        match answer.unwrap_or_else(|_| Err(no_answer(REQUEST_TIMEOUT))) {
            Ok(answer) => Ok(answer),
            Err(why) => {
                if Breaker::is_suspicious(start.elapsed()) {
                    self.breaker.probe(self.probe()).await.map_err(down)?;
                }
                Err(fail(why))
            }
        }
    }

    /// One request and its whole answer.
    async fn exchange(&self, request: Request<Body>) -> Result<ApiResponse, String> {
        let sent = self.client.send(request).await;
        let (head, body) = sent.map_err(|error| cause(&error))?.into_parts();
        let body = Limited::new(body, ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| cause(error.as_ref()))?;
        Ok(ApiResponse {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    }

    /// Asks for what every API server answers; what it answers does not matter.
    async fn probe(&self) -> Result<(), String> {
        let request = Request::get(VERSION).body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        self.exchange(request).await.map(|_| ())
    }

    /// A GET, tried again when the server is busy. A server that cannot be reached is left alone at once.
    ///
    /// # Errors
    /// No answer, or none but a success or "not modified"; an object that is not there is an answer.
    pub async fn read(
        &self,
        path: &str,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        resource: Option<&Resource>,
    ) -> Result<ApiResponse> {
        if !headers.iter().any(|(name, _)| name == header::ACCEPT) {
            headers.push((header::ACCEPT, HeaderValue::from_static(JSON)));
        }
        let what = format!("GET {} on {}", plain(path), self.server);
        let mut wait = READ_WAIT;
        for attempt in 1.. {
            let answer = self.send(&Method::GET, path, &headers, Vec::new()).await?;
            if answer.status.is_success()
                || answer.status == StatusCode::NOT_MODIFIED
                || answer.says_absent()
            {
                return Ok(answer);
            }
            let error = answer.to_error(&RequestContext {
                what: &what,
                resource,
            });
            let again = matches!(answer.status.as_u16(), 429 | 502 | 503 | 504);
            let pause = error.retry_after.unwrap_or(wait);
            if !again || attempt == READ_TRIES || pause > LONGEST_WAIT {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            wait *= 2;
        }
        Err(PortError::new(ErrorKind::Unavailable, what))
    }

    /// A write, sent once.
    ///
    /// # Errors
    /// No answer, or none but a success.
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
        let answer = self.send(&method, path, &headers, body).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let what = format!("{method} {} on {}", plain(path), self.server);
        Err(answer.to_error(&RequestContext {
            what: &what,
            resource: Some(resource),
        }))
    }

    /// The JSON of a successful answer.
    ///
    /// # Errors
    /// Another code, or no such JSON.
    pub fn decode<T: DeserializeOwned>(
        &self,
        path: &str,
        answer: &ApiResponse,
        resource: Option<&Resource>,
    ) -> Result<T> {
        let what = format!("GET {} on {}", plain(path), self.server);
        if !answer.status.is_success() {
            return Err(answer.to_error(&RequestContext {
                what: &what,
                resource,
            }));
        }
        serde_json::from_slice(&answer.body).map_err(|error| unreadable(&what, &error))
    }

    /// The object of a successful answer.
    fn object(&self, what: &str, resource: &Resource, answer: &ApiResponse) -> Result<Object> {
        let what = format!("{what} on {}", self.server);
        let object: Object =
            serde_json::from_slice(&answer.body).map_err(|error| unreadable(&what, &error))?;
        if object.kind() != resource.gvk.kind {
            let message = format!(
                "{what}: a {} came back, not a {}",
                object.kind(),
                resource.gvk.kind
            );
            return Err(PortError::new(ErrorKind::Unreadable, message));
        }
        Ok(object)
    }

    /// The server's version.
    ///
    /// # Errors
    /// An answer that is none.
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
        if answer.says_absent() {
            return Ok(None);
        }
        self.object(&format!("GET {path}"), resource, &answer)
            .map(Some)
    }

    pub async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>> {
        let mut path = format!("{}?limit={PAGE}", path::collection(resource, namespace)?);
        if !selector.is_empty() {
            path.push_str(&format!("&labelSelector={}", encode(selector)));
        }
        let mut starts = 0;
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let page = if next.is_empty() {
                path.clone()
            } else {
                format!("{path}&continue={}", encode(&next))
            };
            let answer = match self.read(&page, Vec::new(), Some(resource)).await {
                // Pages of two moments make no list: from the start.
                Err(error) if !next.is_empty() && starts < LIST_STARTS && is_expired(&error) => {
                    starts += 1;
                    items.clear();
                    next.clear();
                    continue;
                }
                answer => answer?,
            };
            let list: List = self.decode(&page, &answer, Some(resource))?;
            if list.kind != format!("{}List", resource.gvk.kind) {
                let message = format!(
                    "GET {} on {}: '{}' is not a list of {}",
                    plain(&page),
                    self.server,
                    list.kind,
                    resource.gvk.kind
                );
                return Err(PortError::new(ErrorKind::Unreadable, message));
            }
            for item in list.items.unwrap_or_default() {
                items.push(self.item(resource, item)?);
            }
            next = list.metadata.next;
            if next.is_empty() {
                return Ok(items);
            }
        }
    }

    /// An item of a list; built-in kinds leave out what the list says for all.
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

    pub async fn apply(
        &self,
        resource: &Resource,
        object: &Object,
        how: Apply<'_>,
    ) -> Result<Object> {
        let mut path = path::object(resource, object.namespace(), object.name())?;
        let what = format!("PATCH {path}");
        path.push_str(&format!(
            "?fieldManager={}&force={}",
            encode(how.manager),
            how.force
        ));
        if how.dry_run {
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
        self.object(&what, resource, &answer)
    }

    pub async fn create(
        &self,
        resource: &Resource,
        object: &Object,
        manager: &str,
    ) -> Result<Object> {
        let mut path = path::directory(resource, object.namespace(), object.name())?;
        let what = format!("POST {path}");
        path.push_str(&format!("?fieldManager={}", encode(manager)));
        let answer = self
            .write(Method::POST, &path, JSON, &object.clone().into(), resource)
            .await?;
        self.object(&what, resource, &answer)
    }

    pub async fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        patch: &Patch,
        manager: &str,
    ) -> Result<Object> {
        let mut path = path::object(resource, namespace, name)?;
        if let Some(subresource) = subresource {
            path.push_str(&format!("/{}", encode(subresource)));
        }
        let what = format!("PATCH {path}");
        path.push_str(&format!("?fieldManager={}", encode(manager)));
        let (content_type, body) = match patch {
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
        };
        let answer = self
            .write(Method::PATCH, &path, content_type, body, resource)
            .await?;
        self.object(&what, resource, &answer)
    }

    pub async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        how: &Delete,
    ) -> Result<Deleted> {
        let path = path::object(resource, namespace, name)?;
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(policy) = how.propagation {
            options["propagationPolicy"] = policy.into();
        }
        if let Some(uid) = &how.uid {
            options["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &how.resource_version {
            options["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        let headers = [
            (header::ACCEPT, HeaderValue::from_static(JSON)),
            (header::CONTENT_TYPE, HeaderValue::from_static(JSON)),
        ];
        let answer = self
            .send(
                &Method::DELETE,
                &path,
                &headers,
                options.to_string().into_bytes(),
            )
            .await?;
        let what = format!("DELETE {path} on {}", self.server);
        if answer.says_absent() {
            return Ok(Deleted::Gone);
        }
        if !answer.status.is_success() {
            return Err(answer.to_error(&RequestContext {
                what: &what,
                resource: Some(resource),
            }));
        }
        let body: Value =
            serde_json::from_slice(&answer.body).map_err(|error| unreadable(&what, &error))?;
        match (body["kind"].as_str(), body["status"].as_str()) {
            (Some("Status"), Some("Success")) if answer.status == StatusCode::OK => {
                Ok(Deleted::Gone)
            }
            (Some("Status"), Some("Success")) => Ok(Deleted::Pending),
            (Some(kind), _) if kind == resource.gvk.kind => Ok(pending(&body)),
            _ => Err(PortError::new(
                ErrorKind::Unreadable,
                format!("{what}: the response is neither an object nor a success"),
            )),
        }
    }
}

/// An object comes back while something holds it, and by some resources as it last was.
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

/// Whether a LIST must start again, because its continuation token is too old. By the reason alone: the message about Secrets is
/// withheld.
fn is_expired(error: &PortError) -> bool {
    matches!(error.reason.as_str(), "Expired" | "Gone")
}

/// The path without its query: continuation tokens make messages unreadable.
fn plain(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

/// An answer that is no such JSON; its text is not repeated.
pub fn unreadable(what: &str, error: &serde_json::Error) -> PortError {
    // serde_json's own text can quote a value.
    let message = format!(
        "{what}: the response is not the expected JSON (line {}, column {})",
        error.line(),
        error.column()
    );
    PortError::new(ErrorKind::Unreadable, message)
}

/// The innermost cause of a failed exchange: the outer ones only say that it failed.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_starts_again_by_the_reason_alone() {
        let error = |kind, reason: &str| PortError {
            reason: reason.to_owned(),
            ..PortError::new(
                kind,
                "GET /api/v1/secrets: 410 Gone; the server's text is withheld",
            )
        };
        assert!(is_expired(&error(ErrorKind::Invalid, "Expired")));
        assert!(is_expired(&error(ErrorKind::Invalid, "Gone")));
        assert!(!is_expired(&error(ErrorKind::Invalid, "BadRequest")));
        assert!(!is_expired(&error(ErrorKind::Denied, "Forbidden")));
    }
}
