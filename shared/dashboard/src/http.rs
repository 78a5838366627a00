//! Requests and responses without a server.

use std::collections::BTreeMap;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET or HEAD.
    Get,
    /// The method POST.
    Post,
}

/// A request without a connection.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method; `None` for one that is not served.
    pub method: Option<Method>,
    /// The path, still percent-encoded.
    pub path: String,
    /// The query without `?`.
    pub query: String,
    /// The headers by their names in lower case. Of several with one name, the first.
    pub headers: BTreeMap<String, String>,
    /// The body of the request.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns a request with the method GET, from a path with a query.
    pub fn get(target: &str) -> Self {
        Self::new(Method::Get, target)
    }

    /// Returns a request with the method POST and a form as its body.
    pub fn post(target: &str, form: &str) -> Self {
        Self {
            body: form.as_bytes().to_vec(),
            ..Self::new(Method::Post, target)
        }
    }

    fn new(method: Method, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: Some(method),
            path: path.to_owned(),
            query: query.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers
            .insert(name.to_ascii_lowercase(), value.to_owned());
        self
    }

    /// Returns a header; an empty string if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.header("cookie").split(';');
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    }
}

/// A response without a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status of the response.
    pub status: u16,
    /// The headers of the response.
    pub headers: Vec<(&'static str, String)>,
    /// The body of the response.
    pub body: Vec<u8>,
}

/// The policy of every page: scripts, styles and connections of this origin only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

impl Response {
    /// Returns a response with the headers that every response has.
    pub fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let fixed = [
            ("content-type", kind),
            ("content-security-policy", POLICY),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ];
        Self {
            status,
            headers: fixed.map(|(name, value)| (name, value.to_owned())).into(),
            body: body.into(),
        }
    }

    /// Returns a page.
    pub fn html(status: u16, page: maud::Markup) -> Self {
        Self::new(status, "text/html; charset=utf-8", page.into_string())
    }

    /// Returns a JSON document.
    pub fn json(status: u16, document: &serde_json::Value) -> Self {
        Self::new(status, "application/json", document.to_string())
    }

    /// Returns a redirect that is followed with GET.
    pub fn redirect(location: &str) -> Self {
        Self::new(303, "text/plain; charset=utf-8", "").with("location", location)
    }

    /// Adds a header, or replaces it; a cookie is added.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if name != "set-cookie" {
            self.headers.retain(|(known, _)| *known != name);
        }
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Returns a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(known, value)| (*known == name).then_some(value.as_str()))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Encodes a name or a value of a form.
pub fn encode(text: &str) -> String {
    crate::text::segment(text)
}
