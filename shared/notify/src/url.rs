//! URLs as Go's `net/url` splits them, without normalisation of hosts and ports.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The bytes that Go escapes in a path that it did not receive escaped.
const UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// The bytes that Go escapes in a segment of a path.
const SEGMENT: &AsciiSet = &UNSAFE
    .add(b'%')
    .add(b'/')
    .add(b';')
    .add(b',')
    .add(b'?')
    .add(b'#')
    .add(b'[')
    .add(b']')
    .add(b'!')
    .add(b'\'')
    .add(b'(')
    .add(b')')
    .add(b'*');

/// A URL with an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub scheme: String,
    pub userinfo: Option<String>,
    pub host: String,
    /// The path, escaped.
    pub path: String,
    pub query: Option<String>,
}

impl Url {
    /// Splits a URL; `None` without a scheme or a host. The fragment is left out.
    pub fn parse(url: &str) -> Option<Self> {
        let url = url.split('#').next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://")?;
        let mut characters = scheme.chars();
        if !characters.next()?.is_ascii_alphabetic()
            || !characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        {
            return None;
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo.to_owned()), host),
            None => (None, authority),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._~:[]%".contains(c);
        if host.is_empty() || !host.chars().all(is_host) || url.chars().any(char::is_control) {
            return None;
        }
        Some(Self {
            scheme: scheme.to_ascii_lowercase(),
            userinfo,
            host: host.to_owned(),
            path: utf8_percent_encode(path, UNSAFE).to_string(),
            query: query.map(|query| utf8_percent_encode(query, UNSAFE).to_string()),
        })
    }

    /// Returns the scheme and the host: `scheme://host`.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// Returns the host without its port.
    pub fn hostname(&self) -> &str {
        self.host.split(':').next().unwrap_or_default()
    }

    /// Returns the path without escapes.
    pub fn decoded_path(&self) -> String {
        decode(&self.path)
    }

    /// Returns the URL without its login.
    pub fn without_login(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}"));
        let query = query.unwrap_or_default();
        format!("{}://{}{}{query}", self.scheme, self.host, self.path)
    }
}

/// Removes the percent escapes of a string.
pub(crate) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Escapes a segment of a path.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Escapes a value of a query or form.
pub(crate) fn form_value(text: &str) -> String {
    const FORM: &AsciiSet = &SEGMENT
        .remove(b' ')
        .add(b'+')
        .add(b'&')
        .add(b'=')
        .add(b':')
        .add(b'@')
        .add(b'$');
    let escaped = utf8_percent_encode(text, FORM).to_string();
    escaped.replace(' ', "+")
}

/// Formats the pairs of a query or form, which must be sorted by name.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(name, value)| format!("{name}={}", form_value(value)));
    pairs.collect::<Vec<_>>().join("&")
}
