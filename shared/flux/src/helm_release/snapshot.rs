//! The history entries in a HelmRelease's status.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::release_action::ReleaseAction;

/// The `apiVersion` of snapshots whose digest is over the JSON of Helm 4's types. The digest of an
/// older snapshot cannot be checked.
pub const SNAPSHOT_VERSION: &str = "v2";

/// An entry of `status.history`: the last observed state of a release record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// The version of the digest format: [`SNAPSHOT_VERSION`], or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The digest of the record.
    pub digest: String,
    /// The name of the release.
    pub name: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The revision of the release.
    pub version: i64,
    /// Helm's status of the record: `deployed`, `failed`, …
    pub status: String,
    /// The action that made the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<ReleaseAction>,
    /// The name of the chart.
    pub chart_name: String,
    /// The version of the chart.
    pub chart_version: String,
    /// The `appVersion` of the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// The digest of the values.
    pub config_digest: String,
    /// The time at which the first revision was deployed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<String>,
    /// The time at which this revision was deployed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<String>,
    /// The time at which the release was uninstalled, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<String>,
    /// The results of the tests by name; absent if no test was run yet, empty if the chart has no
    /// tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_hooks: Option<BTreeMap<String, Option<TestHookStatus>>>,
    /// The digest of the OCI artifact of the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oci_digest: String,
}

/// The result of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TestHookStatus {
    /// The time at which the test started, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_started: Option<String>,
    /// The time at which the test ended, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completed: Option<String>,
    /// The phase: `Running`, `Succeeded`, `Failed`, `Unknown` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl Snapshot {
    /// Returns `namespace/name.vN`, the name of a release in Flux's messages.
    pub fn full_name(&self) -> String {
        format!("{}/{}.v{}", self.namespace, self.name, self.version)
    }

    /// Returns `chart@version`, the name of a chart in Flux's messages.
    pub fn chart(&self) -> String {
        format!("{}@{}", self.chart_name, self.chart_version)
    }

    /// Returns whether the snapshot is of this revision of this release.
    pub fn targets(&self, name: &str, namespace: &str, version: i64) -> bool {
        self.name == name && self.namespace == namespace && self.version == version
    }

    /// Returns whether the release was deployed successfully.
    pub fn is_good(&self) -> bool {
        matches!(self.status.as_str(), "deployed" | "superseded")
    }

    /// Returns whether the tests have ended: there are none, one failed, or all succeeded.
    pub fn has_been_tested(&self) -> bool {
        let Some(hooks) = &self.test_hooks else {
            return false;
        };
        let succeeded = |hook: &Option<TestHookStatus>| {
            hook.as_ref().is_some_and(|hook| hook.phase == "Succeeded")
        };
        hooks.is_empty() || self.has_failed_test() || hooks.values().all(succeeded)
    }

    /// Returns whether a test failed.
    pub fn has_failed_test(&self) -> bool {
        let hooks = self.test_hooks.iter().flat_map(BTreeMap::values).flatten();
        hooks.into_iter().any(|hook| hook.phase == "Failed")
    }
}
