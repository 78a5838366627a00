//! What comes in and what goes out.

use jiff::Timestamp;
use serde_json::Value;

use crate::error::ApiError;
use crate::watch::Watch;

/// One HTTP request, its user already authenticated.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `POST`, `PUT`, `PATCH`, `DELETE`.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query without `?`, as it was sent.
    pub query: String,
    /// Header names and values; names are compared without case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Who asks; impersonation comes on top of it.
    pub user: User,
}

/// A user as RBAC sees one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub name: String,
    /// The uid, often empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known, by name.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// A member of `system:masters`, who may do everything.
    pub fn admin(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..Self::default()
        }
    }
}

/// The time of a request and the source of its uids and generated names.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Now.
    pub now: Timestamp,
    /// Different for each request of a server; equal seeds give equal uids.
    pub seed: u128,
}

impl Moment {
    /// Now, as objects carry it.
    pub fn stamp(&self) -> String {
        seconds(self.now)
    }

    /// The next uid.
    pub(crate) fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            0x8000 | (b >> 48) & 0x3fff,
            b & 0xffff_ffff_ffff
        )
    }

    /// The five letters behind a generated name.
    pub(crate) fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        let mut out = String::new();
        for _ in 0..5 {
            let index = usize::try_from(bits % LETTERS.len() as u64).unwrap_or_default();
            out.push(char::from(LETTERS[index]));
            bits /= LETTERS.len() as u64;
        }
        out
    }

    /// A number, from splitmix64 over the seed.
    pub(crate) fn next(&mut self) -> u64 {
        let low = u64::try_from(self.seed & u128::from(u64::MAX)).unwrap_or_default();
        let high = u64::try_from(self.seed >> 64).unwrap_or_default();
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = low.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ high.rotate_left(17);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// RFC 3339 with seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Headers but the content type.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Body {
    /// `application/json`, or the media type given.
    Json(Value, String),
    /// `text/plain`.
    Text(String),
    /// A stream of events, one JSON document a line: see [`crate::Server::poll`].
    Watch(Box<Watch>),
}

const JSON: &str = "application/json";

impl Response {
    /// A JSON answer.
    pub fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Json(body, JSON.to_owned()),
        }
    }

    /// A text answer.
    pub fn text(body: &str) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: Body::Text(body.to_owned()),
        }
    }

    /// The content type of the body.
    pub fn content_type(&self) -> &str {
        match &self.body {
            Body::Json(_, media) => media,
            Body::Text(_) => "text/plain; charset=utf-8",
            Body::Watch(_) => JSON,
        }
    }

    /// The body as JSON; `None` for text and watches.
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
    /// A header's value; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.as_str())
    }

    /// All values of a header.
    pub fn header_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// The parameters of a request, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=b&c=d`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// A parameter; empty when it is absent.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// A parameter, if it was given.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Is it there, and neither `0` nor `false`?
    pub fn flag(&self, name: &str) -> bool {
        self.find(name)
            .is_some_and(|value| !matches!(value, "0" | "false"))
    }
}

/// Decodes `%XX` and `+`.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
