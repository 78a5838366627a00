//! `spec` of a HelmRelease.

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

/// `spec` of a HelmRelease.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))",
     "message": "either chart or chartRef must be set"},
]))]
pub struct HelmReleaseSpec {
    /// The HelmChart to make for this release; this or `chartRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartTemplate>,
    /// The object whose artifact is the chart; this or `chart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_ref: Option<ChartRef>,
    /// How often to reconcile.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// The remote cluster; the hub itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigRef>,
    /// Leave everything as it is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// The release's name; `[targetNamespace-]name` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53))]
    pub release_name: Option<String>,
    /// The namespace to install in; the object's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// The namespace of the release records; the object's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: Option<String>,
    /// Objects that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// How long one operation of an action may take; five minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// How many release records to keep; five when absent, all when zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_history: Option<i64>,
    /// The service account to act as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Whether a client lives through a whole reconciliation; accepted and without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_client: Option<bool>,
    /// What to do about changes that others make to the release's objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    /// How to install.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
    /// How to upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// How to test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// How to roll back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// How to uninstall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uninstall: Option<Uninstall>,
    /// Values from ConfigMaps and Secrets, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_from: Vec<ValuesRef>,
    /// Values given here, over those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub values: Option<Map<String, Value>>,
    /// Labels and annotations of all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// Changes to what the chart renders, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_renderers: Option<Vec<PostRenderer>>,
    /// Which documents the changes see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_render_strategy: Option<PostRenderStrategy>,
    /// How to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_strategy: Option<WaitStrategy>,
    /// Health of custom kinds, as CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpr>,
}

/// The HelmChart to make for a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ChartTemplate {
    /// Its labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ChartTemplateMetadata>,
    /// Its spec.
    pub spec: ChartTemplateSpec,
}

/// Labels and annotations of a release's HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ChartTemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// `spec` of a release's HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartTemplateSpec {
    /// The chart's name in a HelmRepository, or its path in another source.
    #[schemars(length(min = 1, max = 2048))]
    pub chart: String,
    /// A version or range; `*` when absent. Only for HelmRepositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "*"))]
    pub version: Option<String>,
    /// The source.
    pub source_ref: ChartSourceRef,
    /// How often to look; the release's interval when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub interval: Option<String>,
    /// `ChartVersion` (when absent) or `Revision`: what makes a new artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ChartVersion", "Revision"], "x-default" = "ChartVersion"))]
    pub reconcile_strategy: Option<String>,
    /// Files of the source to take as the chart's values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_files: Vec<String>,
    /// The one such file of v2beta1 and v2beta2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-older" = true))]
    pub values_file: Option<String>,
    /// Leave out values files that do not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_values_files: bool,
    /// Which signatures are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<ChartVerification>,
}

/// Which signatures a chart needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartVerification {
    /// `cosign` or `notation`.
    #[schemars(extend("enum" = ["cosign", "notation"], "x-default" = "cosign"))]
    pub provider: String,
    /// The Secret with the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
}

/// The source of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSourceRef {
    /// Not needed: the kind says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `HelmRepository`, `GitRepository` or `Bucket`.
    #[schemars(extend("enum" = ["HelmRepository", "GitRepository", "Bucket"]))]
    pub kind: String,
    /// The name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace; the object's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// The object whose artifact is the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartRef {
    /// Not needed: the kind says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `OCIRepository`, `HelmChart` or `ExternalArtifact`.
    #[schemars(extend("enum" = ["OCIRepository", "HelmChart", "ExternalArtifact"]))]
    pub kind: String,
    /// The name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace; the object's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// What to do about changes that others make.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct DriftDetection {
    /// Nothing, tell, or correct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriftMode>,
    /// Fields to leave to others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
}

/// What to do about changes that others make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// Look for them and correct them.
    Enabled,
    /// Look for them and tell.
    Warn,
    /// Do not look.
    #[default]
    Disabled,
}

/// Values in a ConfigMap or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesRef {
    /// `ConfigMap` or `Secret`.
    #[schemars(extend("enum" = ["Secret", "ConfigMap"]))]
    pub kind: String,
    /// The name, in the object's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key; `values.yaml` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^[\-._a-zA-Z0-9]+$"))]
    pub values_key: Option<String>,
    /// Where one value goes, as `--set` writes paths; without it the key holds a values file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 250),
        regex(pattern = r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$")
    )]
    pub target_path: Option<String>,
    /// Go on when it does not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Take the value for `targetPath` as one text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub literal: bool,
}

/// A change to what the chart renders.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct PostRenderer {
    /// By kustomize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<KustomizeRenderer>,
}

/// Patches and images, as kustomize has them.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeRenderer {
    /// Patches with their targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// Strategic merge patches of v2beta1 and v2beta2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-older" = true))]
    pub patches_strategic_merge: Vec<Map<String, Value>>,
    /// JSON patches of v2beta1 and v2beta2.
    #[serde(
        default,
        rename = "patchesJson6902",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-older" = true))]
    pub patches_json6902: Vec<Json6902Patch>,
    /// Image names, tags and digests to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// Which documents post-renderers see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PostRenderStrategy {
    /// Manifests only.
    NoHooks,
    /// Manifests and hooks together.
    #[default]
    Combined,
    /// Manifests and hooks, one after the other.
    Separate,
}

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct WaitStrategy {
    /// The strategy.
    pub name: WaitStrategyName,
}

/// How to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitStrategyName {
    /// By the status of every object, as Helm 4.
    #[default]
    Poller,
    /// By Helm 3's rules for built-in kinds.
    Legacy,
}
