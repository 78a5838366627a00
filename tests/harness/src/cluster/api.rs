//! A thin JSON client for assertions, by path.

use std::fmt;

use serde_json::Value;

use super::anonymous;
use crate::http::{Answer, Http};

/// Requests to one API server with one bearer token.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    http: Http,
}

/// An error that the API server answered.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The HTTP status.
    pub code: u16,
    /// `reason` of the Status object: `NotFound`, `Forbidden`, `Conflict` …
    pub reason: String,
    /// `message` of the Status object, or the whole body.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

const JSON: &str = "application/json";
/// Server-side apply. JSON is YAML.
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

impl Api {
    pub(super) fn new(port: u16, ca: &str, token: &str) -> Self {
        Self {
            base: format!("https://127.0.0.1:{port}"),
            http: anonymous(ca).with_header("authorization", &format!("Bearer {token}")),
        }
    }

    /// Sends a request to a path such as `/api/v1/namespaces/default`; panics
    /// if the server does not answer.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let url = format!("{}{path}", self.base);
        let bytes = body.map(Value::to_string);
        let headers = [("content-type", content_type), ("accept", JSON)];
        let answer = self
            .http
            .send(method, &url, &headers, bytes.as_ref().map(String::as_bytes))
            .unwrap_or_else(|e| panic!("{method} {url}: {e}"));
        into_result(&answer)
    }

    /// Returns the object at a path.
    pub fn get(&self, path: &str) -> Result<Value, Refused> {
        self.request("GET", path, JSON, None)
    }

    /// Returns the object at a path, or `None` if it does not exist. Panics on any
    /// other error.
    pub fn find(&self, path: &str) -> Option<Value> {
        match self.get(path) {
            Ok(object) => Some(object),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => panic!("GET {path}: {refused}"),
        }
    }

    /// Returns the items of a collection.
    pub fn list(&self, path: &str) -> Result<Vec<Value>, Refused> {
        let list = self.get(path)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Creates an object in a collection.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        self.request("POST", path, JSON, Some(object))
    }

    /// Applies an object (server-side apply with force).
    pub fn apply(&self, path: &str, manager: &str, object: &Value) -> Result<Value, Refused> {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.request("PATCH", &path, APPLY, Some(object))
    }

    /// Patches an object with a JSON merge patch.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value, Refused> {
        self.request("PATCH", path, MERGE, Some(patch))
    }

    /// Replaces an object.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        self.request("PUT", path, JSON, Some(object))
    }

    /// Deletes the object at a path.
    pub fn delete(&self, path: &str) -> Result<Value, Refused> {
        self.request("DELETE", path, JSON, None)
    }

    /// Returns the plain text at a path; panics unless the status is 200.
    pub fn text(&self, path: &str) -> String {
        let answer = self.http.get(&format!("{}{path}", self.base));
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.text());
        answer.text()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.http
            .send("GET", &format!("{}/readyz", self.base), &[], None)
            .is_ok_and(|answer| answer.status == 200)
    }
}

fn into_result(answer: &Answer) -> Result<Value, Refused> {
    if (200..300).contains(&answer.status) {
        return Ok(answer.json());
    }
    let status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |field: &str| status[field].as_str().map(str::to_owned);
    Err(Refused {
        code: answer.status,
        reason: text("reason").unwrap_or_default(),
        message: text("message").unwrap_or_else(|| answer.text()),
    })
}
