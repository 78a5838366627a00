//! Interprets the answers of an API server.

use bytes::Bytes;
use driftless_kernel::ports::{ErrorKind, PortError, Resource};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// The part of the message that distinguishes a path that the server does not serve from an object
/// that does not exist.
pub const NO_SUCH_PATH: &str = "the API server does not serve this path";

/// An answer whose body was read.
pub struct ApiResponse {
    /// The HTTP status code.
    pub status: StatusCode,
    /// The HTTP headers.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
}

/// The parts of the API's `Status` that are used here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    kind: String,
    message: String,
    reason: String,
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    name: String,
    kind: String,
    causes: Vec<Cause>,
    retry_after_seconds: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    field: String,
}

/// The request of an answer: for messages, and to decide which parts of the answer may be quoted.
pub struct RequestContext<'a> {
    /// The method, the path and the server.
    pub operation: &'a str,
    /// The resource, if the request is for one.
    pub resource: Option<&'a Resource>,
}

impl ApiResponse {
    /// Returns an answer with a `Status` and its code: the last event of a watch that fails.
    pub fn of_status(status: Map<String, Value>) -> Self {
        let code = status.get("code").and_then(Value::as_u64);
        let code = code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
        Self {
            status: code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            body: Bytes::from(Value::Object(status).to_string()),
        }
    }

    /// Returns whether the API server answered that the object does not exist. A 404 alone is not
    /// enough: a proxy or another server at that address can also send one.
    pub fn is_absent(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
            && self
                .to_status()
                .is_some_and(|status| status.reason == "NotFound")
    }

    fn to_status(&self) -> Option<Status> {
        serde_json::from_slice::<Status>(&self.body)
            .ok()
            .filter(|status| status.kind == "Status")
    }

    /// Returns the wait that the header `Retry-After` names.
    pub fn retry_after_header(&self) -> Option<Duration> {
        let value = self.headers.get(header::RETRY_AFTER)?;
        let seconds: u64 = value.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds.min(3600)))
    }

    fn retry_after(&self, status: Option<&Status>) -> Option<Duration> {
        let seconds = status.map(|status| status.details.retry_after_seconds);
        let seconds = seconds.filter(|seconds| *seconds > 0);
        let named = seconds.map(|seconds| Duration::from_secs(seconds.min(3600)));
        self.retry_after_header().or(named)
    }

    /// Converts an answer without success to an error.
    pub fn to_error(&self, context: &RequestContext<'_>) -> PortError {
        let status = self.to_status();
        let kind = match (self.status.as_u16(), &status) {
            (401 | 403, _) => ErrorKind::Denied,
            (404, Some(_)) => ErrorKind::NotFound,
            (404, None) if self.body.trim_ascii() == b"404 page not found" => {
                return PortError::new(
                    ErrorKind::NotFound,
                    format!("{}: {NO_SUCH_PATH}", context.operation),
                );
            }
            (409, _) => ErrorKind::Conflict,
            (429, _) => ErrorKind::RateLimited,
            (408 | 500..=599, _) => ErrorKind::Unavailable,
            (400..=499, Some(_)) => ErrorKind::Invalid,
            _ => ErrorKind::Unreadable,
        };
        let message = match &status {
            Some(status) if may_repeat(context, self.status, status) => status.message.clone(),
            Some(status) => withheld(context, self.status, status),
            // The body is not quoted: it is not from the API server, and its content is unknown.
            None => format!(
                "{}: the answer is {} without a Status of the Kubernetes API",
                context.operation, self.status
            ),
        };
        PortError {
            kind,
            message,
            retry_after: self.retry_after(status.as_ref()),
            reason: status.map_or_else(String::new, |status| status.reason),
        }
    }
}

/// Returns whether a message certainly contains no value of a Secret. The API server quotes values
/// in its messages about invalid objects, and a message of an admission webhook may contain
/// anything.
fn may_repeat(context: &RequestContext<'_>, code: StatusCode, status: &Status) -> bool {
    let is_secret = context
        .resource
        .is_some_and(|r| r.gvk.group.is_empty() && r.gvk.kind == "Secret");
    let about_names = match code.as_u16() {
        401 | 404 | 409 | 429 => true,
        403 => status.message.contains("is forbidden: User "),
        _ => false,
    };
    !status.message.is_empty()
        && (!is_secret || about_names && !status.message.contains("admission webhook"))
}

fn withheld(context: &RequestContext<'_>, code: StatusCode, status: &Status) -> String {
    let mut message = format!("{}: {code}", context.operation);
    if !status.reason.is_empty() {
        message.push_str(&format!(" ({})", status.reason));
    }
    if !status.details.name.is_empty() {
        message.push_str(&format!(
            ": {} \"{}\"",
            status.details.kind, status.details.name
        ));
    }
    for cause in &status.details.causes {
        message.push_str(&format!(", {}: {}", cause.field, cause.reason));
    }
    if !status.message.is_empty() {
        message.push_str(
            "; the server's message is withheld, because it may contain values of the Secret",
        );
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::Gvk;
    use serde_json::json;

    fn answer(code: u16, body: &str) -> ApiResponse {
        ApiResponse {
            status: StatusCode::from_u16(code).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from(body.to_owned()),
        }
    }

    fn error(answer: &ApiResponse, kind: &str) -> PortError {
        let resource = Resource {
            gvk: Gvk::new("v1", kind),
            plural: "x".into(),
            namespaced: true,
        };
        answer.to_error(&RequestContext {
            operation: "PATCH /x",
            resource: Some(&resource),
        })
    }

    #[test]
    fn kinds() {
        let status = |code: u16| {
            answer(
                code,
                &json!({"kind": "Status", "message": format!("says {code}"), "reason": "NotFound"})
                    .to_string(),
            )
        };
        for (code, kind) in [
            (400, ErrorKind::Invalid),
            (401, ErrorKind::Denied),
            (403, ErrorKind::Denied),
            (404, ErrorKind::NotFound),
            (409, ErrorKind::Conflict),
            (415, ErrorKind::Invalid),
            (422, ErrorKind::Invalid),
            (429, ErrorKind::RateLimited),
            (500, ErrorKind::Unavailable),
            (503, ErrorKind::Unavailable),
            (504, ErrorKind::Unavailable),
        ] {
            let error = error(&status(code), "ConfigMap");
            assert_eq!((error.kind, error.message), (kind, format!("says {code}")));
        }
    }

    #[test]
    fn only_the_api_server_reports_an_absent_object() {
        assert!(
            answer(
                404,
                r#"{"kind":"Status","reason":"NotFound","message":"x"}"#
            )
            .is_absent()
        );
        for body in ["404 page not found\n", "<html>404</html>", "", "{}"] {
            assert!(!answer(404, body).is_absent(), "{body}");
        }
        let page = error(&answer(404, "404 page not found\n"), "ConfigMap");
        assert!(page.kind == ErrorKind::NotFound && page.message.contains(NO_SUCH_PATH));
        assert_eq!(
            error(&answer(404, "<html>hi</html>"), "ConfigMap").kind,
            ErrorKind::Unreadable
        );
        assert_eq!(
            error(&answer(302, ""), "ConfigMap").kind,
            ErrorKind::Unreadable
        );
        assert_eq!(
            error(&answer(502, "<html>canary</html>"), "ConfigMap").kind,
            ErrorKind::Unavailable
        );
        assert!(
            !error(&answer(502, "<html>canary</html>"), "ConfigMap")
                .message
                .contains("canary")
        );
    }

    #[test]
    fn delays() {
        let mut limited = answer(429, "slow down");
        limited
            .headers
            .insert(header::RETRY_AFTER, "7".parse().unwrap());
        assert_eq!(
            error(&limited, "ConfigMap").retry_after,
            Some(Duration::from_secs(7))
        );
        let body = json!({"kind": "Status", "details": {"retryAfterSeconds": 3}}).to_string();
        assert_eq!(
            error(&answer(503, &body), "ConfigMap").retry_after,
            Some(Duration::from_secs(3))
        );
    }

    #[test]
    fn values_of_secrets_stay_out() {
        let body = json!({
            "kind": "Status", "reason": "Invalid",
            "message": "Secret \"s\" is invalid: data[a b]: Invalid value: \"canary\"",
            "details": {"name": "s", "kind": "Secret", "causes": [
                {"reason": "FieldValueInvalid", "field": "data[a b]", "message": "Invalid value: \"canary\""}]}
        })
        .to_string();
        for code in [400, 422, 500] {
            let message = error(&answer(code, &body), "Secret").message;
            assert!(
                !message.contains("canary") && message.contains("data[a b]: FieldValueInvalid"),
                "{message}"
            );
        }
        assert!(
            error(&answer(422, &body), "ConfigMap")
                .message
                .contains("canary")
        );
        let webhook = json!({"kind": "Status", "message": "admission webhook \"w\" denied the request: canary"}).to_string();
        assert!(
            !error(&answer(403, &webhook), "Secret")
                .message
                .contains("canary")
        );
        let rbac = json!({"kind": "Status", "message": "secrets \"s\" is forbidden: User \"u\" cannot get"}).to_string();
        assert!(
            error(&answer(403, &rbac), "Secret")
                .message
                .contains("User \"u\"")
        );
    }
}
