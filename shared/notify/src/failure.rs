//! Failures that name the Provider, and the part of an answer that a failure may quote.

use crate::{Failure, Settings, TransportError};
use http::StatusCode;
use std::collections::BTreeSet;

/// The number of characters of an answer that a message quotes.
const EXCERPT: usize = 256;
/// Parts of a secret with fewer bytes are ordinary words.
const SHORTEST: usize = 3;
/// The shortest word of an address that may be a key, in bytes.
const SHORTEST_KEY: usize = 6;

impl Settings {
    /// Returns a failure that no later attempt changes.
    pub(crate) fn refusal(&self, reason: impl AsRef<str>) -> Failure {
        self.failure(reason.as_ref(), false)
    }

    /// Returns a failure to send a request.
    pub(crate) fn unreachable(&self, error: &TransportError) -> Failure {
        self.failure(&error.message, error.is_retryable)
    }

    /// Returns the failure for an answer without success. Its body is quoted unless it has a part
    /// of a secret.
    pub(crate) fn answer(&self, action: &str, status: StatusCode, body: &[u8]) -> Failure {
        let excerpt = self.excerpt(body);
        let separator = if excerpt.is_empty() { "" } else { ": " };
        let reason = format!("{action}: the server answered {status}{separator}{excerpt}");
        self.failure(&reason, is_retryable(status))
    }

    /// Returns the start of an answer for a message; an empty string if it is not printable or has
    /// a part of a secret.
    pub(crate) fn excerpt(&self, body: &[u8]) -> String {
        let Ok(body) = std::str::from_utf8(body) else {
            return String::new();
        };
        let is_secret = |part: &String| body.contains(part.as_str());
        if self.secret_parts().iter().any(is_secret) {
            return String::new();
        }
        let words: Vec<&str> = body.split_whitespace().collect();
        let body: String = words.join(" ").chars().take(EXCERPT).collect();
        match body.chars().any(char::is_control) {
            true => String::new(),
            false => body,
        }
    }

    /// The strings that no message may have: the values of the Secret, their words, and what is
    /// computed from them for a request.
    fn secret_parts(&self) -> BTreeSet<String> {
        let mut parts = BTreeSet::new();
        let mut add = |value: &str| {
            parts.insert(value.to_owned());
            let is_separator = |c: char| c.is_whitespace() || ":;,/?&=@\"'".contains(c);
            parts.extend(value.split(is_separator).map(str::to_owned));
        };
        for (key, value) in &self.secret {
            if key != "username" {
                add(&String::from_utf8_lossy(value));
            }
        }
        self.withheld.iter().for_each(|text| add(text));
        add(self.identity.as_deref().unwrap_or_default());
        self.add_address(&mut parts);
        let basic = crate::login::Login::of(self).basic();
        parts.insert(basic);
        let is_word = |part: &String| part.len() >= SHORTEST && !part.contains('\u{fffd}');
        parts.retain(is_word);
        parts
    }

    /// Adds the parts of the address that may be the key of a webhook. Ordinary words, such as the
    /// name of a repository, are in many answers.
    fn add_address(&self, parts: &mut BTreeSet<String>) {
        let address = &self.address;
        let (_, rest) = address.split_once("://").unwrap_or(("", address));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if let Some((login, _)) = authority.rsplit_once('@') {
            parts.extend(login.split(':').map(str::to_owned));
        }
        let words = path.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        let is_key = |word: &&str| {
            word.len() >= SHORTEST_KEY && word.bytes().any(|byte| byte.is_ascii_digit())
        };
        parts.extend(words.filter(is_key).map(str::to_owned));
        if address.contains("SharedAccessKey") {
            parts.extend(address.split([';', '=']).map(str::to_owned));
        }
    }

    fn failure(&self, reason: &str, is_retryable: bool) -> Failure {
        let Self {
            provider_namespace,
            provider_name,
            kind,
            ..
        } = self;
        Failure {
            message: format!("Provider '{provider_namespace}/{provider_name}' ({kind}): {reason}"),
            is_retryable,
        }
    }
}

/// Returns whether a later attempt can succeed after an answer, as Flux's HTTP client decides.
fn is_retryable(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED)
}
