//! The memory of a HelmRelease's step in the bucket. All of it may be lost: a release that is left
//! pending is then unlocked.

use super::action::ActionKind;
use super::plan::{Cursor, Operation};
use driftless_plans::apply::fingerprint::AppliedState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The memory of a HelmRelease between its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The chart that was loaded last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartFacts>,
    /// The running action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// The fingerprints of the release's objects at the last drift check, by inventory id. The
    /// sweep compares with them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: BTreeMap<String, AppliedState>,
    /// The time of the next retry (`RetryOnFailure`), in milliseconds since 1970; 0 if none is due.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_at: u64,
}

fn is_zero(time: &u64) -> bool {
    *time == 0
}

/// The facts about a chart that decide whether its release is the desired one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChartFacts {
    /// The digest of the artifact.
    pub artifact: String,
    /// The chart's name.
    pub name: String,
    /// The chart's version, with the start of an OCI artifact's digest as build metadata.
    pub version: String,
    /// The `appVersion` of the chart, or empty.
    pub app_version: String,
    /// The digest of an OCI artifact, or empty.
    pub oci_digest: String,
}

/// A running operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The operation that runs.
    #[serde(alias = "doing")]
    pub operation: Operation,
    /// The kinds of the previous actions of this attempt.
    pub done: Vec<ActionKind>,
    /// The next phase of the operation.
    pub cursor: Cursor,
    /// The generation of the HelmRelease that the operation is for.
    pub generation: i64,
    /// The chart that the operation uses.
    pub chart: ChartFacts,
    /// The start of the operation, in milliseconds since 1970.
    #[serde(default)]
    pub since: u64,
    /// The revision that the operation creates or changes.
    pub record: i64,
    /// The revision that the operation replaces.
    pub replaces: Option<i64>,
    /// The revisions that the operation has written.
    pub written: Vec<i64>,
}

impl Running {
    /// Notes that the operation wrote a revision.
    pub fn wrote(&mut self, version: i64) {
        if !self.written.contains(&version) {
            self.written.push(version);
        }
    }
}
