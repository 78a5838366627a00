//! The fields of a HelmRelease's `spec` for its actions: install, upgrade, test, rollback and
//! uninstall.

use super::super::kustomization::is_false;
use super::super::schema::{DURATION, without};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The options of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Install {
    /// The timeout of one operation; `spec.timeout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// The strategy after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
         "message": ".retryInterval cannot be set when .name is 'RemediateOnFailure'"},
    ]))]
    pub strategy: Option<ActionStrategy>,
    /// The remediation of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = without("strategy"))]
    pub remediation: Option<RemediationSpec>,
    /// Fails if an object exists that another release or client owns.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_take_ownership: bool,
    /// Does not wait until the objects are ready.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// Does not wait until jobs are complete.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait_for_jobs: bool,
    /// Does not run hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Does not validate the objects against the OpenAPI schema. Without effect, as with Helm since
    /// Kubernetes 1.27, where the API server validates the fields: an apply refuses unknown ones, a
    /// create drops them.
    #[serde(rename = "disableOpenAPIValidation", skip_serializing_if = "is_false")]
    pub disable_open_api_validation: bool,
    /// Does not validate the values against the chart's schema.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_schema_validation: bool,
    /// Reuses the name of a release that was uninstalled or failed.
    #[serde(skip_serializing_if = "is_false")]
    pub replace: bool,
    /// A field of older versions; accepted, without effect as in Flux: use `crds`.
    #[serde(rename = "skipCRDs", skip_serializing_if = "is_false")]
    pub skip_crds: bool,
    /// The policy for the CustomResourceDefinitions in the chart's crds/; `Create` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Creates the target namespace if it does not exist.
    #[serde(skip_serializing_if = "is_false")]
    pub create_namespace: bool,
    /// Uses server-side apply; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<bool>,
}

/// The options of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Upgrade {
    /// The timeout of one operation; `spec.timeout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// The strategy after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
         "message": ".retryInterval can only be set when .name is 'RetryOnFailure'"},
    ]))]
    pub strategy: Option<ActionStrategy>,
    /// The remediation of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationSpec>,
    /// Fails if an object exists that another release or client owns.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_take_ownership: bool,
    /// Does not wait until the objects are ready.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// Does not wait until jobs are complete.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait_for_jobs: bool,
    /// Does not run hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Does not validate the objects against the OpenAPI schema. Without effect, as with Helm since
    /// Kubernetes 1.27, where the API server validates the fields: an apply refuses unknown ones, a
    /// create drops them.
    #[serde(rename = "disableOpenAPIValidation", skip_serializing_if = "is_false")]
    pub disable_open_api_validation: bool,
    /// Does not validate the values against the chart's schema.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_schema_validation: bool,
    /// Replaces objects instead of patching them; only without server-side apply.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    /// Merges the new values over those of the last release.
    #[serde(skip_serializing_if = "is_false")]
    pub preserve_values: bool,
    /// Deletes the objects that a failed upgrade created.
    #[serde(skip_serializing_if = "is_false")]
    pub cleanup_on_fail: bool,
    /// The policy for the CustomResourceDefinitions in the chart's crds/; `Skip` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Uses server-side apply; like the last release when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideMode>,
    /// The strategy when the chart's name changes; `Reinstall` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_name_change_strategy: Option<ChartNameChange>,
}

/// The options of the tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Test {
    /// Runs the tests after an install or upgrade.
    #[serde(skip_serializing_if = "is_false")]
    pub enable: bool,
    /// The timeout of one test; `spec.timeout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// Ignores failed tests.
    #[serde(skip_serializing_if = "is_false")]
    pub ignore_failures: bool,
    /// The tests to run; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<TestFilter>>,
}

/// A filter that includes or excludes a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct TestFilter {
    /// The name of the test.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Excludes the test instead of including it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude: bool,
}

/// The options of a rollback.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollback {
    /// The timeout of one operation; `spec.timeout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// Does not wait until the objects are ready.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// Does not wait until jobs are complete.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait_for_jobs: bool,
    /// Does not run hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// A field of older versions; accepted, without effect as in Flux.
    #[serde(skip_serializing_if = "is_false")]
    pub recreate: bool,
    /// Replaces objects instead of patching them; only without server-side apply.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    /// Deletes the objects that a failed rollback created.
    #[serde(skip_serializing_if = "is_false")]
    pub cleanup_on_fail: bool,
    /// Uses server-side apply; like the release that is rolled back to when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideMode>,
}

/// The options of an uninstall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Uninstall {
    /// The timeout of one operation; `spec.timeout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// Does not run hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Keeps the release records.
    #[serde(skip_serializing_if = "is_false")]
    pub keep_history: bool,
    /// Does not wait until the objects are gone.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// The deletion propagation policy; `background` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "background"))]
    pub deletion_propagation: Option<DeletionPropagation>,
}

/// The strategy after a failure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionStrategy {
    /// The name of the strategy: remediate, or only retry.
    pub name: ActionStrategyName,
    /// The interval before a retry with `RetryOnFailure`; five minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub retry_interval: Option<String>,
}

/// The strategy after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ActionStrategyName {
    /// Remediate the failure as configured in `remediation`.
    RemediateOnFailure,
    /// Retry the action after `retryInterval`.
    RetryOnFailure,
}

/// The remediation of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemediationSpec {
    /// The number of retries; unlimited when negative.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: i64,
    /// Ignores failed tests; `test.ignoreFailures` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_test_failures: Option<bool>,
    /// Remediates the last failure also. When absent: false for an install, true for an upgrade
    /// with retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediate_last_failure: Option<bool>,
    /// The remediation of an upgrade: `rollback` (when absent) or `uninstall`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RemediationStrategy>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The remediation strategy of a failed upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemediationStrategy {
    /// Roll back to the last good release.
    #[default]
    Rollback,
    /// Uninstall the release.
    Uninstall,
}

/// The policy for the CustomResourceDefinitions in a chart's crds/.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CrdsPolicy {
    /// Do not apply them.
    Skip,
    /// Create new ones, and leave existing ones unchanged.
    Create,
    /// Create new ones, and replace existing ones.
    CreateReplace,
}

/// The use of server-side apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerSideMode {
    /// Use server-side apply.
    Enabled,
    /// Use client-side apply.
    Disabled,
    /// Use the method of the previous release.
    #[default]
    Auto,
}

/// The strategy when the chart's name changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ChartNameChange {
    /// Upgrade the release.
    InPlaceUpdate,
    /// Uninstall the release and install it again.
    #[default]
    Reinstall,
}

/// The deletion propagation policy of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeletionPropagation {
    /// Delete the dependents after the object.
    #[default]
    Background,
    /// Delete the dependents before the object.
    Foreground,
    /// Keep the dependents.
    Orphan,
}
