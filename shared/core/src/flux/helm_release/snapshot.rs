//! The history entries in a HelmRelease's status.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::status::ReleaseAction;

/// `apiVersion` of the snapshots whose digest is made as Helm 4's types write JSON. The digest of an older one cannot be checked.
pub const SNAPSHOT_VERSION: &str = "v2";

/// An entry of `status.history`: a release record as it was seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// How the digest is made: [`SNAPSHOT_VERSION`], or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The record's digest.
    pub digest: String,
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
    /// The revision.
    pub version: i64,
    /// `deployed`, `failed`, …
    pub status: String,
    /// The action that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<ReleaseAction>,
    /// The chart's name.
    pub chart_name: String,
    /// The chart's version.
    pub chart_version: String,
    /// The version of what the chart installs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// The digest of the values.
    pub config_digest: String,
    /// When the first revision was made, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<String>,
    /// When this revision was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<String>,
    /// When it was uninstalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<String>,
    /// The tests that were run, by name. Absent: none was run yet; empty: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_hooks: Option<BTreeMap<String, Option<TestHookStatus>>>,
    /// The digest of the OCI artifact that the chart came in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oci_digest: String,
}

/// How a test went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TestHookStatus {
    /// When it started, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_started: Option<String>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completed: Option<String>,
    /// `Running`, `Succeeded`, `Failed`, `Unknown` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl Snapshot {
    /// `namespace/name.vN`, as Flux's messages name a release.
    pub fn full_name(&self) -> String {
        format!("{}/{}.v{}", self.namespace, self.name, self.version)
    }

    /// `chart@version`, as Flux's messages name a chart.
    pub fn chart(&self) -> String {
        format!("{}@{}", self.chart_name, self.chart_version)
    }

    /// Whether it is of that revision.
    pub fn targets(&self, name: &str, namespace: &str, version: i64) -> bool {
        self.name == name && self.namespace == namespace && self.version == version
    }

    /// Whether the release was good at its time.
    pub fn is_good(&self) -> bool {
        matches!(self.status.as_str(), "deployed" | "superseded")
    }

    /// Whether the tests are over: there are none, one failed, or all succeeded.
    pub fn has_been_tested(&self) -> bool {
        let Some(hooks) = &self.test_hooks else {
            return false;
        };
        let succeeded = |hook: &Option<TestHookStatus>| {
            hook.as_ref().is_some_and(|hook| hook.phase == "Succeeded")
        };
        hooks.is_empty() || self.has_failed_test() || hooks.values().all(succeeded)
    }

    /// Whether a test failed.
    pub fn has_failed_test(&self) -> bool {
        let hooks = self.test_hooks.iter().flat_map(BTreeMap::values).flatten();
        hooks.into_iter().any(|hook| hook.phase == "Failed")
    }
}
