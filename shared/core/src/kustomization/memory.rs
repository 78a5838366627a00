//! What a Kustomization's step remembers in the bucket. All of it can be lost: the next step reads and does more.

use crate::flux::KUSTOMIZE_CONTROLLER;
use crate::state::key_part;
use driftless_manifest::{Object, ReadSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// What the last successful build read.
    pub read_set: ReadSet,
    /// Digest of everything else that went into it: the spec, variables, keys' names.
    pub inputs: String,
    /// Where it was applied: the reference to the kubeconfig.
    pub target: Value,
    /// Each applied object with the fingerprint of the fields that are ours, by inventory id.
    pub applied: BTreeMap<String, Applied>,
    /// A wait for health that goes on.
    pub wait: Option<Wait>,
    /// Failures in a row.
    pub failures: u32,
}

/// An applied object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Applied {
    /// The version it was applied in.
    pub version: String,
    /// See [`fingerprint`].
    pub fields: String,
    /// A Job with `ttlSecondsAfterFinished`: it may be gone because it is done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub expires: bool,
}

/// A wait for health.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The revision that was applied.
    pub revision: String,
    /// When it was applied, seconds since 1970.
    pub since: f64,
}

/// The key of an object's record.
pub fn key(hub: &str, object: &crate::flux::ObjectRef) -> String {
    format!("state/{}/{}.json", key_part(hub), object.key())
}

/// A digest of the fields of a live object that we own. When somebody changes the value of such a field, the API server
/// takes the field from us, so the digest changes; what others own does not matter to it.
pub fn fingerprint(live: &Object) -> String {
    let ours = live
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|entry| {
            entry.get("manager").and_then(Value::as_str) == Some(KUSTOMIZE_CONTROLLER)
                && entry.get("operation").and_then(Value::as_str) == Some("Apply")
                && entry.get("subresource").is_none()
        });
    let fields = ours
        .and_then(|entry| entry.get("fieldsV1"))
        .map(Value::to_string)
        .unwrap_or_default();
    hex::encode(&Sha256::digest(fields)[..8])
}
