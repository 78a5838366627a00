//! The `spec` of a HelmRelease's actions: install, upgrade, test, rollback, uninstall.

use super::super::kustomization::is_false;
use super::super::schema::{DURATION, without};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Install {
    /// How long one operation may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// What happens after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
         "message": ".retryInterval cannot be set when .name is 'RemediateOnFailure'"},
    ]))]
    pub strategy: Option<ActionStrategy>,
    /// How a failure is made good.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = without("strategy"))]
    pub remediation: Option<RemediationSpec>,
    /// Fail when an object exists that another one owns.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_take_ownership: bool,
    /// Do not wait for the objects.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// Do not wait for jobs.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait_for_jobs: bool,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Do not check the objects' schema before they are sent. Accepted and without effect, as with Helm where the API server checks
    /// the fields itself (Kubernetes 1.27 and newer): an apply refuses unknown ones, a create drops them.
    #[serde(rename = "disableOpenAPIValidation", skip_serializing_if = "is_false")]
    pub disable_open_api_validation: bool,
    /// Do not check the values against the chart's schema.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_schema_validation: bool,
    /// Take the name of a release that was uninstalled or failed.
    #[serde(skip_serializing_if = "is_false")]
    pub replace: bool,
    /// Of older versions; accepted and without effect, as in Flux: see `crds`.
    #[serde(rename = "skipCRDs", skip_serializing_if = "is_false")]
    pub skip_crds: bool,
    /// What happens to the chart's definitions; `Create` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Create the target namespace.
    #[serde(skip_serializing_if = "is_false")]
    pub create_namespace: bool,
    /// Apply on the server; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<bool>,
}

/// How to upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Upgrade {
    /// How long one operation may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// What happens after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
         "message": ".retryInterval can only be set when .name is 'RetryOnFailure'"},
    ]))]
    pub strategy: Option<ActionStrategy>,
    /// How a failure is made good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationSpec>,
    /// Fail when an object exists that another one owns.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_take_ownership: bool,
    /// Do not wait for the objects.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// Do not wait for jobs.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait_for_jobs: bool,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Do not check the objects' schema before they are sent. Accepted and without effect, as with Helm where the API server checks
    /// the fields itself (Kubernetes 1.27 and newer): an apply refuses unknown ones, a create drops them.
    #[serde(rename = "disableOpenAPIValidation", skip_serializing_if = "is_false")]
    pub disable_open_api_validation: bool,
    /// Do not check the values against the chart's schema.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_schema_validation: bool,
    /// Replace objects instead of changing them; only where they are not applied on the server.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    /// Keep the values of the last release under the new ones.
    #[serde(skip_serializing_if = "is_false")]
    pub preserve_values: bool,
    /// Delete what a failed upgrade created.
    #[serde(skip_serializing_if = "is_false")]
    pub cleanup_on_fail: bool,
    /// What happens to the chart's definitions; `Skip` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Apply on the server; as the last release when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideMode>,
    /// What happens when the chart's name changes; `Reinstall` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_name_change_strategy: Option<ChartNameChange>,
}

/// How to test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Test {
    /// Run the tests after an install or upgrade.
    #[serde(skip_serializing_if = "is_false")]
    pub enable: bool,
    /// How long one test may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// A failed test is no failure.
    #[serde(skip_serializing_if = "is_false")]
    pub ignore_failures: bool,
    /// Which tests to run; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<TestFilter>>,
}

/// A test to run or to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct TestFilter {
    /// The test's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Leave it out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude: bool,
}

/// How to roll back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollback {
    /// How long one operation may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// Do not wait for the objects.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// Do not wait for jobs.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait_for_jobs: bool,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(skip_serializing_if = "is_false")]
    pub recreate: bool,
    /// Replace objects instead of changing them; only where they are not applied on the server.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    /// Delete what a failed rollback created.
    #[serde(skip_serializing_if = "is_false")]
    pub cleanup_on_fail: bool,
    /// Apply on the server; as the release that is rolled back to when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideMode>,
}

/// How to uninstall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Uninstall {
    /// How long one operation may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_hooks: bool,
    /// Keep the release records.
    #[serde(skip_serializing_if = "is_false")]
    pub keep_history: bool,
    /// Do not wait until the objects are gone.
    #[serde(skip_serializing_if = "is_false")]
    pub disable_wait: bool,
    /// What happens to the dependents of the objects; `background` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "background"))]
    pub deletion_propagation: Option<DeletionPropagation>,
}

/// What happens after a failure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionStrategy {
    /// Make it good, or only try again.
    pub name: ActionStrategyName,
    /// How soon to try again, with `RetryOnFailure`; five minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub retry_interval: Option<String>,
}

/// What happens after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ActionStrategyName {
    /// It is made good as `remediation` says.
    RemediateOnFailure,
    /// It is tried again.
    RetryOnFailure,
}

/// How a failure is made good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemediationSpec {
    /// How often to try again; without end when negative.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: i64,
    /// A failed test is no failure; as `test.ignoreFailures` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_test_failures: Option<bool>,
    /// Make the last failure good, too. When absent: for an install no, for an upgrade with retries yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediate_last_failure: Option<bool>,
    /// Of an upgrade: roll back (when absent) or uninstall.
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

/// How a failed upgrade is made good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemediationStrategy {
    /// By a rollback to the last release that was good.
    #[default]
    Rollback,
    /// By uninstalling the release.
    Uninstall,
}

/// What happens to the definitions in a chart's crds/.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CrdsPolicy {
    /// Nothing.
    Skip,
    /// New ones are created.
    Create,
    /// New ones are created, those that exist are replaced.
    CreateReplace,
}

/// Whether objects are applied on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerSideMode {
    /// They are.
    Enabled,
    /// They are not.
    Disabled,
    /// As the release before was.
    #[default]
    Auto,
}

/// What happens when the chart's name changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ChartNameChange {
    /// The release is upgraded.
    InPlaceUpdate,
    /// The release is uninstalled and installed.
    #[default]
    Reinstall,
}

/// What happens to the dependents of an object that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeletionPropagation {
    /// They are deleted afterwards.
    #[default]
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}
