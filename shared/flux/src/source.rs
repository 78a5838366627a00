//! The model that all kinds of sources share: the object, its status and its artifact.

use super::{Conditions, FluxKind, FluxSpec, ObjectRef, Typed, parse_duration};
use crate::error::FieldError;
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The `spec.accessFrom` of a source: the namespaces that may use it; without effect, as in Flux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessFrom {
    /// The selectors of the namespaces.
    pub namespace_selectors: Vec<NamespaceSelector>,
}

/// A selector of namespaces by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceSelector {
    /// The labels that a namespace must have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// The `spec` of a kind of source.
pub trait SourceSpec: FluxSpec<Status = SourceStatus> {
    /// Returns `spec.interval` as a string.
    fn interval(&self) -> &str;
}

/// A source object of source.toolkit.fluxcd.io, of any served version.
pub type Source<S> = Typed<S>;

/// The `status` of a source. Fields that a kind does not have stay empty and are not serialized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceStatus {
    /// The generation that was reconciled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions of the object.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The newest artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactStatus>,
    /// The URL of the artifact, for kinds that repeat it here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The ignore patterns that the artifact was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,
    /// The directories that the artifact was made with (GitRepository).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_sparse_checkout: Vec<String>,
    /// The includes that the artifact was made with (GitRepository).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_include: Vec<super::GitInclude>,
    /// The artifacts of the included repositories that the artifact was made with (GitRepository).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub included_artifacts: Vec<ArtifactStatus>,
    /// The mode of the last verification of signatures (GitRepository).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_verification_mode: Option<String>,
    /// The layer selector that the artifact was made with (OCIRepository).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_layer_selector: Option<super::LayerSelector>,
    /// The revision of the source that the chart was made from (HelmChart).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_source_artifact_revision: String,
    /// The name of the chart (HelmChart).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_chart_name: String,
    /// The values files that the chart was made with (HelmChart).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_values_files: Vec<String>,
}

/// The `status.artifact` of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactStatus {
    /// The key of the blob.
    pub path: String,
    /// The URL of the blob.
    pub url: String,
    /// The revision: `main@sha1:…`, the version of a chart, or `sha256:…` of an index.
    pub revision: String,
    /// The digest of the blob: `sha256:…`.
    pub digest: String,
    /// The time at which the artifact was stored, RFC 3339.
    pub last_update_time: String,
    /// The size of the blob in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Metadata from the source, such as the revision of the origin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl<S: SourceSpec> Source<S> {
    /// Returns `spec.interval`.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn interval(&self) -> Result<Duration, FieldError> {
        parse_duration(self.spec.interval()).map_err(FieldError::in_field("spec.interval"))
    }
}

/// Returns the source of a Kustomization or chart. The source of a release is its chart.
pub fn source_of(object: &Object) -> Option<ObjectRef> {
    let chart = object.pointer("/status/helmChart").and_then(Value::as_str);
    if let Some((namespace, name)) = chart.and_then(|chart| chart.split_once('/')) {
        return Some(ObjectRef::new(FluxKind::HelmChart, namespace, name));
    }
    let places = [
        "/spec/sourceRef",
        "/spec/chartRef",
        "/spec/chart/spec/sourceRef",
    ];
    let reference = places.iter().find_map(|place| object.pointer(place))?;
    let text = |field: &str| {
        reference
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let namespace = text("namespace").unwrap_or(object.namespace());
    Some(ObjectRef::new(
        FluxKind::parse(text("kind")?)?,
        namespace,
        text("name")?,
    ))
}
