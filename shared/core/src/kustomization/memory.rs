//! The memory of a Kustomization's steps in the bucket. All of it can be lost: the next step then
//! reads and does more.

use driftless_kernel::ports::PushedCommit;
use driftless_manifest::ReadSet;
use driftless_plans::apply::fingerprint::AppliedState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The memory of one Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The files that the last successful build read.
    pub read_set: ReadSet,
    /// The digest of the artifact whose files were last found to have this read set.
    pub artifact: String,
    /// True if that build fetched remote bases or files.
    pub has_remote_files: bool,
    /// Digest of all other inputs of that build: the spec, the variables and the names of the keys.
    pub inputs: String,
    /// The reference to the kubeconfig of the cluster on which it was applied.
    pub target: Value,
    /// The fingerprints of our fields of each applied object, by inventory id.
    pub applied: BTreeMap<String, AppliedState>,
    /// The name of the last apply; a process that has kept the live objects under it knows them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub live: String,
    /// An unfinished wait for health.
    pub wait: Option<HealthWait>,
    /// A prune that waits for children, if there is one.
    pub prune_wait: Option<PruneWait>,
    /// The commit of the last artifact that came from the record of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<PushedCommit>,
}

/// A prune that waits for children which may take over what it would delete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PruneWait {
    /// The revision that was applied.
    pub revision: String,
    /// Start of the wait for this revision, in seconds since 1970.
    pub since: f64,
    /// Digest of the objects that would be deleted.
    #[serde(default)]
    pub stale: String,
    /// Start of the wait for these objects, in seconds since 1970: earlier than `since` if other
    /// revisions came meanwhile.
    #[serde(default)]
    pub begun: f64,
}

/// A wait for health.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HealthWait {
    /// The revision that was applied.
    pub revision: String,
    /// Time of the apply, in seconds since 1970.
    pub since: f64,
    /// Digest of the rendered objects, for the history.
    #[serde(default)]
    pub digest: Option<String>,
}
