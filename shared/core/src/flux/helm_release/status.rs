//! `status` of a HelmRelease.

use super::super::Conditions;
use super::snapshot::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// What was done with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseAction {
    /// `install`
    Install,
    /// `upgrade`
    Upgrade,
    /// `rollback`
    Rollback,
    /// `uninstall`
    Uninstall,
    /// `uninstall-remediation`
    UninstallRemediation,
}

impl ReleaseAction {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Uninstall => "uninstall",
            Self::UninstallRemediation => "uninstall-remediation",
        }
    }
}

impl fmt::Display for ReleaseAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `status` of a HelmRelease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmReleaseStatus {
    /// The generation that was looked at last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The digest of the post-renderers of the last release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_post_renderers_digest: String,
    /// The digest of the common metadata of the last release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_common_metadata_digest: String,
    /// The generation that was tried last.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_attempted_generation: i64,
    /// The conditions.
    pub conditions: Conditions,
    /// `namespace/name` of the HelmChart that was made for this release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub helm_chart: String,
    /// The namespace of the release records.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_namespace: String,
    /// The releases that count, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Snapshot>,
    /// What was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Value>,
    /// The last install or upgrade that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_release_action: Option<ReleaseAction>,
    /// How long that took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_release_action_duration: Option<String>,
    /// Failures since the last change.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// Installs that failed and left a record.
    #[serde(skip_serializing_if = "is_zero")]
    pub install_failures: i64,
    /// Upgrades that failed and left a record.
    #[serde(skip_serializing_if = "is_zero")]
    pub upgrade_failures: i64,
    /// The chart's version that was tried last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision: String,
    /// The digest of the OCI artifact that it came in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision_digest: String,
    /// SHA-1 of the values that were tried last; of v2beta1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_values_checksum: String,
    /// The chart's version that was released last; of v2beta1 and v2beta2.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_applied_revision: String,
    /// The revision of the last release; of v2beta1.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_release_revision: i64,
    /// The digest of the values that were tried last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_config_digest: String,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The value of `forceAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_force_at: String,
    /// The value of `resetAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reset_at: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl HelmReleaseStatus {
    /// Forgets the failures.
    pub fn clear_failures(&mut self) {
        self.failures = 0;
        self.install_failures = 0;
        self.upgrade_failures = 0;
    }
}
