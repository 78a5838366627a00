//! Bodies that several types of providers share: the event as JSON, and strings of its fields.

use crate::{Event, InvolvedObject, Severity};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The metadata with the number of the change request.
pub(crate) const CHANGE_REQUEST: &str = "change_request";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonEvent<'a> {
    involved_object: JsonObject<'a>,
    severity: &'static str,
    timestamp: &'a str,
    message: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    reporting_controller: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reporting_instance: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonObject<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

impl Severity {
    /// Returns the severity in Flux's form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

impl InvolvedObject {
    /// Returns `kind/name.namespace`, with the kind in lower case.
    pub(crate) fn title(&self) -> String {
        format!(
            "{}/{}.{}",
            self.kind.to_lowercase(),
            self.name,
            self.namespace
        )
    }

    /// Returns `Kind: namespace/name`.
    pub(crate) fn summary(&self) -> String {
        format!("{}: {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Event {
    /// Returns the event in the JSON of Go, byte for byte: signatures and ids are computed from it.
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        let object = &self.involved_object;
        driftless_go::json::to_string(&JsonEvent {
            involved_object: JsonObject {
                kind: &object.kind,
                namespace: &object.namespace,
                name: &object.name,
                uid: &object.uid,
                api_version: &object.api_version,
                resource_version: &object.resource_version,
            },
            severity: self.severity.name(),
            timestamp: &self.timestamp,
            message: &self.message,
            reason: &self.reason,
            metadata: &self.metadata,
            reporting_controller: &self.reporting_controller,
            reporting_instance: &self.reporting_instance,
        })
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns whether the reason is that of an object that still progresses.
    pub(crate) fn is_progressing(&self) -> bool {
        self.reason == "Progressing"
    }

    /// Returns `kind/name` and the words of the reason, in lower case.
    pub(crate) fn name_and_description(&self) -> (String, String) {
        let object = &self.involved_object;
        let name = format!("{}/{}", object.kind, object.name).to_lowercase();
        let words = words(&self.reason).join(" ");
        (name, words.to_lowercase())
    }

    /// Returns the metadata without the number of the change request.
    pub(crate) fn visible_metadata(&self) -> impl Iterator<Item = (&String, &String)> {
        let pairs = self.metadata.iter();
        pairs.filter(|(key, _)| *key != CHANGE_REQUEST)
    }

    /// Returns the Markdown of comments and of Zulip.
    pub(crate) fn markdown(&self) -> String {
        let mark = if self.is_error() { "⚠️" } else { "ℹ️" };
        let InvolvedObject {
            kind,
            namespace,
            name,
            ..
        } = &self.involved_object;
        let message = &self.message;
        let mut text = format!(
            "## Flux Status\n\n{mark} {kind}/{namespace}/{name}\n\n{message}\n\nMetadata:\n"
        );
        for (key, value) in self.visible_metadata() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "* `{key}`: {value}");
        }
        text
    }

    /// Returns the message in the format of Slack, which Discord and Rocket.Chat accept.
    pub(crate) fn slack(&self, username: &str, channel: &str, [info, error]: [&str; 2]) -> Value {
        let fields = self.metadata.iter();
        let fields =
            fields.map(|(key, value)| json!({"title": key, "value": value, "short": false}));
        json!({
            "channel": channel, "username": username, "icon_url": "", "icon_emoji": "",
            "attachments": [{
                "fallback": "", "color": if self.is_error() { error } else { info },
                "author_name": self.involved_object.title(), "text": self.message,
                "mrkdwn_in": ["text"], "fields": fields.collect::<Vec<_>>(),
            }],
        })
    }

    /// Returns the username of a chat message: the given one, else the controller.
    pub(crate) fn author<'a>(&'a self, username: &'a str) -> &'a str {
        match username.is_empty() {
            true => &self.reporting_controller,
            false => username,
        }
    }
}

/// Splits a string in CamelCase into words.
fn words(text: &str) -> Vec<String> {
    let class = |c: char| match c {
        c if c.is_lowercase() => 1,
        c if c.is_uppercase() => 2,
        c if c.is_numeric() => 3,
        _ => 4,
    };
    let mut words: Vec<String> = Vec::new();
    let mut last = 0;
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if class(c) == last => word.push(c),
            _ => words.push(c.to_string()),
        }
        last = class(c);
    }
    // The last capital before small letters belongs to their word: "PDFL", "oader".
    for index in 1..words.len() {
        let is_upper = words[index - 1].starts_with(char::is_uppercase);
        if is_upper
            && words[index].starts_with(char::is_lowercase)
            && let Some(capital) = words[index - 1].pop()
        {
            words[index].insert(0, capital);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
