//! Requests and responses.

use serde_json::Value;

use crate::error::ApiError;
use crate::request::watch::Watch;
use crate::user::User;

/// One HTTP request of an authenticated user.
///
/// [`Request::new`] makes one; a literal ends with `..Request::default()`, since fields may be
/// added.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `POST`, `PUT`, `PATCH`, `DELETE`.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query without `?`, still encoded.
    pub query: String,
    /// Header names and values; names are compared without case.
    pub headers: Vec<(String, String)>,
    /// The bytes of the body.
    pub body: Vec<u8>,
    /// The authenticated user. Impersonation headers are applied to it.
    pub user: User,
}

/// The response to a request: the result, or the Status object of an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Headers except the content type, which [`Response::content_type`] returns.
    pub headers: Vec<(String, String)>,
    /// The body of the response.
    pub body: Body,
}

/// The body of a response. The sender of a response handles every kind.
#[derive(Clone, Debug)]
pub enum Body {
    /// `application/json`, or the media type given.
    Json(Value, String),
    /// Plain text (`text/plain`).
    Text(String),
    /// A stream of events, one JSON document a line, from [`crate::Server::poll`].
    Watch(Box<Watch>),
}

const JSON: &str = "application/json";

impl Response {
    /// Returns a JSON response.
    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Json(body, JSON.to_owned()),
        }
    }

    /// Returns a response in plain text.
    pub(crate) fn text(body: &str) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: Body::Text(body.to_owned()),
        }
    }

    /// Returns the answer of a watch.
    pub(crate) fn watch(watch: Watch) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: Body::Watch(Box::new(watch)),
        }
    }

    /// Returns the content type of the body.
    pub fn content_type(&self) -> &str {
        match &self.body {
            Body::Json(_, media) => media,
            Body::Text(_) => "text/plain; charset=utf-8",
            Body::Watch(_) => JSON,
        }
    }

    /// Returns the body as JSON; `None` for text and watches.
    pub fn value(&self) -> Option<&Value> {
        match &self.body {
            Body::Json(value, _) => Some(value),
            _ => None,
        }
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Self {
        let mut response = Self::json(error.code, error.to_status());
        if let Some(after) = error.retry_after {
            response
                .headers
                .push(("Retry-After".into(), after.to_string()));
        }
        response
    }
}

impl Request {
    /// Returns a request without headers and body. `target` is a path, with a query behind `?` if
    /// it has one.
    pub fn new(method: &str, target: &str, user: User) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            user,
            ..Self::default()
        }
    }

    /// Adds a header. A request may have a header more than once.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a JSON body, and its content type.
    #[must_use]
    pub fn with_json(self, body: &Value) -> Self {
        self.with_body(JSON, body.to_string())
    }

    /// Sets a body, and its content type.
    #[must_use]
    pub fn with_body(mut self, media: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.with_header("content-type", media)
    }

    /// Returns a header's value; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.as_str())
    }
}
