//! What a HelmRelease's step remembers in the bucket. All of it can be lost: a release that is left pending is unlocked then.

use super::action::{Action, ActionKind};
use super::plan::{self, Cursor, Phase};
use crate::apply::fingerprint::Applied;
use crate::flux::HelmRelease;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The chart that was looked at last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartFacts>,
    /// The action that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// The release's objects as they were when drift was looked for last, by inventory id. The timer compares.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: BTreeMap<String, Applied>,
}

/// What of a chart tells whether its release is the one that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChartFacts {
    /// The digest of the artifact.
    pub artifact: String,
    /// The chart's name.
    pub name: String,
    /// The chart's version, with that of an OCI artifact's digest.
    pub version: String,
    /// The version of what the chart installs, or empty.
    pub app_version: String,
    /// The digest of an OCI artifact, or empty.
    pub oci_digest: String,
}

/// Something that is done to a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// An action of an attempt.
    Act(Action),
    /// An uninstall that is no remediation: the object is deleted, or what it releases is another one now.
    Uninstall,
}

impl Operation {
    /// Its phases.
    pub fn phases(&self, release: &HelmRelease) -> Vec<Phase> {
        match self {
            Self::Act(action) => plan::phases(action, release),
            Self::Uninstall => plan::uninstall(release),
        }
    }
}

/// An action that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// What is done.
    #[serde(alias = "doing")]
    pub operation: Operation,
    /// The kinds of the actions of this attempt before it.
    pub done: Vec<ActionKind>,
    /// How far it is.
    pub cursor: Cursor,
    /// The generation that it is done for.
    pub generation: i64,
    /// The chart that it is done with.
    pub chart: ChartFacts,
    /// When it began, in milliseconds since 1970.
    #[serde(default)]
    pub since: u64,
    /// The revision that it makes, or that it is done to.
    pub record: i64,
    /// The revision that it replaces.
    pub replaces: Option<i64>,
    /// The revisions that it has written.
    pub written: Vec<i64>,
}

impl Running {
    /// Notes that a revision was written.
    pub fn wrote(&mut self, version: i64) {
        if !self.written.contains(&version) {
            self.written.push(version);
        }
    }
}
