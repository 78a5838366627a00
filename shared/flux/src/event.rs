//! The events of Flux's API (event.toolkit.fluxcd.io/v1beta1), which Alerts select and Providers
//! get.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The group of the API of events: the prefix of the annotations of an object that its events
/// carry.
pub const EVENT_GROUP: &str = "event.toolkit.fluxcd.io";

/// The keys of an event's metadata, after the group of the object.
pub mod meta_key {
    #![allow(missing_docs, reason = "each constant is the word it stands for")]
    pub const REVISION: &str = "revision";
    pub const ORIGIN_REVISION: &str = "originRevision";
    pub const CHECKSUM: &str = "checksum";
    pub const DIGEST: &str = "digest";
    pub const TOKEN: &str = "token";
    pub const COMMIT: &str = "commit";
    pub const COMMIT_STATUS: &str = "commit_status";
    pub const CHANGE_REQUEST: &str = "change_request";
}

/// The value of [`meta_key::COMMIT_STATUS`] of an event that only updates the status of a commit.
pub const COMMIT_STATUS_UPDATE: &str = "update";

/// An event, in the form in which Flux's controllers send it to notification-controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxEvent {
    /// The object that the event is about.
    pub involved_object: InvolvedObject,
    /// The severity of the event.
    pub severity: Severity,
    /// The time in RFC 3339.
    pub timestamp: String,
    /// The message for people.
    pub message: String,
    /// The reason in CamelCase.
    pub reason: String,
    /// Further values; each key has the group of the object or [`EVENT_GROUP`] as its prefix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The controller of the object's kind.
    pub reporting_controller: String,
    /// The instance of the controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reporting_instance: String,
}

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InvolvedObject {
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The uid of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The API version of the object.
    pub api_version: String,
    /// The version of the object that was read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A detail, which only the Kubernetes events have: no Alert selects it.
    Trace,
    /// The normal course of an object.
    Info,
    /// A failure of an object.
    Error,
}

impl Severity {
    /// Returns the severity as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

impl InvolvedObject {
    /// Returns the API group of the object.
    pub fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }
}

impl FluxEvent {
    /// Returns the value of a key that the object's controller has set.
    pub fn own(&self, key: &str) -> Option<&str> {
        let key = format!("{}/{key}", self.involved_object.group());
        self.metadata.get(&key).map(String::as_str)
    }

    /// Returns the value of a key that an annotation of the object has set.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let key = format!("{EVENT_GROUP}/{key}");
        self.metadata.get(&key).map(String::as_str)
    }

    /// Returns whether the event only updates the status of a commit.
    pub fn is_commit_status_update(&self) -> bool {
        self.own(meta_key::COMMIT_STATUS) == Some(COMMIT_STATUS_UPDATE)
    }
}
