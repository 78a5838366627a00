//! The kind `HelmChart` of source.toolkit.fluxcd.io.

use super::schema::{DURATION, without};
use super::source::AccessFrom;
use super::{FluxKind, FluxSpec, ObjectRef, Source, SourceSpec, SourceStatus, Verification};
use crate::error::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A HelmChart object of Flux.
pub type HelmChart = Source<HelmChartSpec>;

/// The `spec` of a HelmChart.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.verify) || self.sourceRef.kind == 'HelmRepository'",
     "message": "spec.verify is only supported when spec.sourceRef.kind is 'HelmRepository'"},
]))]
pub struct HelmChartSpec {
    /// The name of the chart in a HelmRepository, or the path of its directory or archive in
    /// another source.
    pub chart: String,
    /// The version, or a semver range, of a chart in a HelmRepository; the newest when absent.
    #[serde(default)]
    #[schemars(extend("x-default" = "*"))]
    pub version: Option<String>,
    /// The source of the chart.
    pub source_ref: ChartSource,
    /// The interval between two checks of the source, such as `5m`.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// The cause of a new artifact: a new version of the chart (`ChartVersion`) or a new revision
    /// of the source (`Revision`).
    #[serde(default)]
    #[schemars(extend("enum" = ["ChartVersion", "Revision"], "x-default" = "ChartVersion"))]
    pub reconcile_strategy: Option<String>,
    /// Values files in the source that are merged in this order, and replace the chart's
    /// `values.yaml`.
    #[serde(default)]
    pub values_files: Vec<String>,
    /// A field of older versions: a values file that is merged before `valuesFiles`.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub values_file: Option<String>,
    /// Skips values files that do not exist.
    #[serde(default)]
    pub ignore_missing_values_files: bool,
    /// The signatures that the artifact must have.
    #[serde(default)]
    #[schemars(transform = without("trustedRootSecretRef"))]
    pub verify: Option<Verification>,
    /// Suspends the reconciliation of this object.
    #[serde(default)]
    pub suspend: bool,
    /// A field of older versions; accepted, without effect as in Flux.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub access_from: Option<AccessFrom>,
}

/// The `spec.sourceRef` of a HelmChart: a source in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSource {
    /// The API version of the source; optional.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind: `HelmRepository`, `GitRepository` or `Bucket`.
    #[schemars(extend("enum" = ["HelmRepository", "GitRepository", "Bucket"]))]
    pub kind: String,
    /// The name of the source.
    pub name: String,
}

impl FluxSpec for HelmChartSpec {
    const KIND: FluxKind = FluxKind::HelmChart;
    type Status = SourceStatus;
}

impl SourceSpec for HelmChartSpec {
    fn interval(&self) -> &str {
        &self.interval
    }
}

impl HelmChart {
    /// Returns the source of the chart.
    ///
    /// # Errors
    /// The kind of `spec.sourceRef` has no charts.
    pub fn source(&self) -> Result<ObjectRef, FieldError> {
        let source = &self.spec.source_ref;
        let kind = match source.kind.as_str() {
            "HelmRepository" => FluxKind::HelmRepository,
            "GitRepository" => FluxKind::GitRepository,
            "Bucket" => FluxKind::Bucket,
            other => {
                return Err(FieldError::Value(format!(
                    "spec.sourceRef.kind: '{other}' has no charts, expected HelmRepository, GitRepository or Bucket"
                )));
            }
        };
        Ok(ObjectRef::new(kind, &self.id.namespace, &source.name))
    }

    /// Returns the version or range of versions; empty for the newest.
    pub fn version(&self) -> &str {
        self.spec.version.as_deref().unwrap_or_default()
    }

    /// Returns the values files in the order in which they are merged.
    pub fn values_files(&self) -> Vec<String> {
        let first = self.spec.values_file.iter().filter(|file| !file.is_empty());
        first.chain(&self.spec.values_files).cloned().collect()
    }

    /// Returns a message about a field that requests an unsupported feature; `None` if all fields
    /// are supported.
    pub fn unsupported(&self) -> Option<String> {
        let verify = self.spec.verify.as_ref()?;
        match self.spec.source_ref.kind.as_str() {
            "HelmRepository" if verify.trusted_root_secret_ref.is_some() => Some(
                "spec.verify.trustedRootSecretRef is only supported for an OCIRepository: take the chart from an OCIRepository \
                 (spec.chartRef of a HelmRelease), or remove the field"
                    .to_owned(),
            ),
            "HelmRepository" => verify.unsupported(),
            kind => Some(format!(
                "spec.verify is not supported for a chart of a {kind}, only for one of a HelmRepository of type oci: remove the field"
            )),
        }
    }
}
