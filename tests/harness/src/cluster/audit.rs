//! Reads the requests to the API server from its audit log.

use std::path::Path;

use serde_json::Value;

/// Logs every answered request except for the server's own, and the resulting object of each write
/// of a ConfigMap.
pub(super) const POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
  - level: None
    users: ["system:apiserver", "system:anonymous"]
  - level: None
    nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/metrics"]
  - level: RequestResponse
    verbs: [create, update, patch, delete]
    resources: [{group: "", resources: [configmaps]}]
  - level: Metadata
"#;

/// Logs every answered request except for the server's own, without objects.
pub(super) const SHORT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: None
    users: ["system:apiserver", "system:anonymous"]
  - level: None
    nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/metrics"]
  - level: Metadata
"#;

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// The authenticated user.
    pub user: String,
    /// The `User-Agent` of the client.
    pub agent: String,
    /// The impersonated user, or empty.
    pub as_user: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// The resource in plural; empty for discovery.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object's name, or empty.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

impl Request {
    /// Returns whether the request changes something, which a dry run does not.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && !self.uri.contains("dryRun=All")
    }
}

/// Returns the requests of the log.
pub(super) fn read(path: &Path) -> Vec<Request> {
    events(path).iter().map(parse).collect()
}

/// Returns the writes of ConfigMaps, each with the resulting object; a delete has none.
pub(super) fn written(path: &Path) -> Vec<(Request, Option<Value>)> {
    let events = events(path).into_iter();
    let found = events.map(|mut event| (parse(&event), event["responseObject"].take()));
    let of_configs = |request: &Request| {
        request.is_write() && request.resource == "configmaps" && request.code < 300
    };
    found
        .filter(|(request, _)| of_configs(request))
        .map(|(request, object)| {
            let is_object = object["kind"] == "ConfigMap" && request.verb != "delete";
            (request, is_object.then_some(object))
        })
        .collect()
}

/// Returns the complete lines of the log; a line that is still being written is skipped.
fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = complete.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn parse(event: &Value) -> Request {
    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Request {
        verb: text("/verb"),
        uri: text("/requestURI"),
        user: text("/user/username"),
        agent: text("/userAgent"),
        as_user: text("/impersonatedUser/username"),
        group: text("/objectRef/apiGroup"),
        resource: text("/objectRef/resource"),
        subresource: text("/objectRef/subresource"),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event
            .pointer("/responseStatus/code")
            .and_then(Value::as_u64)
            .and_then(|code| code.try_into().ok())
            .unwrap_or_default(),
    }
}
