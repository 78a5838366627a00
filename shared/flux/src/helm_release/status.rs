//! The `status` of a HelmRelease.

use super::super::Conditions;
use super::release_action::ReleaseAction;
use super::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `status` of a HelmRelease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmReleaseStatus {
    /// The generation that was reconciled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The digest of the post-renderers of the last release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_post_renderers_digest: String,
    /// The digest of the common metadata of the last release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_common_metadata_digest: String,
    /// The generation that was attempted last.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_attempted_generation: i64,
    /// The conditions of the object.
    pub conditions: Conditions,
    /// The HelmChart that was created for this release: `namespace/name`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub helm_chart: String,
    /// The namespace of the release records.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_namespace: String,
    /// The snapshots of the releases that are still relevant, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Snapshot>,
    /// The objects that were applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Value>,
    /// The last attempted action: install or upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_release_action: Option<ReleaseAction>,
    /// The duration of the last attempted action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_release_action_duration: Option<String>,
    /// The number of failures since the last change.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// The number of failed installs that left a record.
    #[serde(skip_serializing_if = "is_zero")]
    pub install_failures: i64,
    /// The number of failed upgrades that left a record.
    #[serde(skip_serializing_if = "is_zero")]
    pub upgrade_failures: i64,
    /// The chart version that was attempted last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision: String,
    /// The digest of the OCI artifact of that chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision_digest: String,
    /// The SHA-1 of the values that were attempted last (v2beta1).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_values_checksum: String,
    /// The chart version that was released last (v2beta1 and v2beta2).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_applied_revision: String,
    /// The revision of the last release (v2beta1).
    #[serde(skip_serializing_if = "is_zero")]
    pub last_release_revision: i64,
    /// The digest of the values that were attempted last.
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
    /// Resets the failure counters.
    pub fn clear_failures(&mut self) {
        self.failures = 0;
        self.install_failures = 0;
        self.upgrade_failures = 0;
    }
}
