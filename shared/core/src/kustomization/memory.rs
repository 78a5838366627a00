//! What a Kustomization's step remembers in the bucket. All of it can be lost: the next step reads and does more.

use crate::apply::fingerprint::Applied;
use driftless_manifest::ReadSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    /// A prune that waits for children.
    pub prune_wait: Option<PruneWait>,
}

/// A prune that waits for children which may take over what it would delete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PruneWait {
    /// The revision that was applied.
    pub revision: String,
    /// When the wait began, seconds since 1970.
    pub since: f64,
}

/// A wait for health.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The revision that was applied.
    pub revision: String,
    /// When it was applied, seconds since 1970.
    pub since: f64,
    /// Digest of what was rendered, for the history.
    #[serde(default)]
    pub digest: Option<String>,
}
