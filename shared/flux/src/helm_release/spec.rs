//! The `spec` of a HelmRelease.

use super::super::kustomization::{
    CommonMetadata, DependsOn, HealthCheckExpr, IgnoreRule, Image, Json6902Patch, KubeConfigRef,
    LocalRef, Patch, is_false,
};
use super::super::schema::DURATION;
use super::actions::{Install, Rollback, Test, Uninstall, Upgrade};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The `spec` of a HelmRelease.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))",
     "message": "either chart or chartRef must be set"},
]))]
pub struct HelmReleaseSpec {
    /// The template of the HelmChart to create for this release; exclusive with `chartRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartTemplate>,
    /// The object whose artifact is the chart; exclusive with `chart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_ref: Option<ChartRef>,
    /// The interval between two reconciliations, such as `10m`.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// The remote cluster; the cluster of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigRef>,
    /// Suspends the reconciliation of this object.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// The name of the release; `[targetNamespace-]name` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53))]
    pub release_name: Option<String>,
    /// The namespace to install in; that of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// The namespace of the release records; that of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: Option<String>,
    /// The objects that must be ready before this one is reconciled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// The timeout of one operation of an action; five minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// The number of release records to keep; five when absent, all when zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_history: Option<i64>,
    /// The service account to impersonate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Keeps a client for a whole reconciliation; accepted, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_client: Option<bool>,
    /// The detection of changes that others make to the objects of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    /// The options of an install.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
    /// The options of an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// The options of the tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// The options of a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// The options of an uninstall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uninstall: Option<Uninstall>,
    /// The ConfigMaps and Secrets with values, merged in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_from: Vec<ValuesRef>,
    /// Values that override those of `valuesFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub values: Option<Map<String, Value>>,
    /// Labels and annotations to add to all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// Changes to the rendered objects, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_renderers: Option<Vec<PostRenderer>>,
    /// The documents that the post-renderers get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_render_strategy: Option<PostRenderStrategy>,
    /// The strategy of waiting for the objects of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_strategy: Option<WaitStrategy>,
    /// CEL expressions for the health of custom kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpr>,
}

/// The template of the HelmChart of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ChartTemplate {
    /// The labels and annotations of the HelmChart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ChartTemplateMetadata>,
    /// The `spec` of the HelmChart.
    pub spec: ChartTemplateSpec,
}

/// Labels and annotations of a release's HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ChartTemplateMetadata {
    /// The labels to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The `spec` of a release's HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartTemplateSpec {
    /// The name of the chart in a HelmRepository, or its path in another source.
    #[schemars(length(min = 1, max = 2048))]
    pub chart: String,
    /// The version or semver range of the chart; `*` when absent. Only for HelmRepositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "*"))]
    pub version: Option<String>,
    /// The source of the chart.
    pub source_ref: ChartSourceRef,
    /// The interval between two checks of the source; that of the release when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub interval: Option<String>,
    /// The cause of a new artifact: `ChartVersion` (when absent) or `Revision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ChartVersion", "Revision"], "x-default" = "ChartVersion"))]
    pub reconcile_strategy: Option<String>,
    /// Values files in the source that replace the chart's `values.yaml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_files: Vec<String>,
    /// A values file that is merged before `valuesFiles` (v2beta1 and v2beta2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-older" = true))]
    pub values_file: Option<String>,
    /// Skips values files that do not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_values_files: bool,
    /// The signatures that the chart must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<ChartVerification>,
}

/// The signatures that a chart must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartVerification {
    /// The format of the signature: `cosign` or `notation`.
    #[schemars(extend("enum" = ["cosign", "notation"], "x-default" = "cosign"))]
    pub provider: String,
    /// The Secret with the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
}

/// A reference to the source of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSourceRef {
    /// The API version; optional, because the kind implies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind: `HelmRepository`, `GitRepository` or `Bucket`.
    #[schemars(extend("enum" = ["HelmRepository", "GitRepository", "Bucket"]))]
    pub kind: String,
    /// The name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace of the object; that of the HelmRelease when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// A reference to the object whose artifact is the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartRef {
    /// The API version; optional, because the kind implies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind: `OCIRepository`, `HelmChart` or `ExternalArtifact`.
    #[schemars(extend("enum" = ["OCIRepository", "HelmChart", "ExternalArtifact"]))]
    pub kind: String,
    /// The name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace of the object; that of the HelmRelease when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// The detection of drift: changes that others make to the objects of a release.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct DriftDetection {
    /// The mode: detect and correct, detect and warn, or disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriftMode>,
    /// Fields to ignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
}

/// The detection of drift: changes that others make to the objects of a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// Detect drift and correct it.
    Enabled,
    /// Detect drift, and report it in an event and a condition.
    Warn,
    /// Do not detect drift.
    #[default]
    Disabled,
}

/// A reference to values in a ConfigMap or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesRef {
    /// The kind: `ConfigMap` or `Secret`.
    #[schemars(extend("enum" = ["Secret", "ConfigMap"]))]
    pub kind: String,
    /// The name of the ConfigMap or Secret, in the namespace of the HelmRelease.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key with the values; `values.yaml` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^[\-._a-zA-Z0-9]+$"))]
    pub values_key: Option<String>,
    /// The path at which the value is set, in the syntax of `--set`; without a path the key holds a
    /// values file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 250),
        regex(pattern = r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$")
    )]
    pub target_path: Option<String>,
    /// Ignores an object or key that does not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Sets the value at `targetPath` as a literal string.
    #[serde(default, skip_serializing_if = "is_false")]
    pub literal: bool,
}

/// A change to the rendered objects.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct PostRenderer {
    /// The changes to make with kustomize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<KustomizeRenderer>,
}

/// Patches and images in the format of kustomize.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeRenderer {
    /// Strategic merge and JSON patches with their targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// Strategic merge patches (v2beta1 and v2beta2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-older" = true))]
    pub patches_strategic_merge: Vec<Map<String, Value>>,
    /// JSON patches (v2beta1 and v2beta2).
    #[serde(
        default,
        rename = "patchesJson6902",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-older" = true))]
    pub patches_json6902: Vec<Json6902Patch>,
    /// The image names, tags and digests to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// The documents that post-renderers get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PostRenderStrategy {
    /// Only the manifests.
    NoHooks,
    /// The manifests and hooks together.
    #[default]
    Combined,
    /// The manifests and the hooks, one after the other.
    Separate,
}

/// The strategy of waiting for the objects of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct WaitStrategy {
    /// The name of the strategy.
    pub name: WaitStrategyName,
}

/// The strategy of waiting for the objects of the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitStrategyName {
    /// Determine readiness from the status of each object, like Helm 4.
    #[default]
    Poller,
    /// Determine readiness by Helm 3's rules for built-in kinds.
    Legacy,
}
