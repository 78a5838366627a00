//! `HelmChart` of source.toolkit.fluxcd.io.

use super::schema::{DURATION, without};
use super::source::AccessFrom;
use super::{FluxKind, ObjectRef, Source, SourceSpec, Verification};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A `HelmChart`.
pub type HelmChart = Source<HelmChartSpec>;

/// `spec` of a HelmChart.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.verify) || self.sourceRef.kind == 'HelmRepository'",
     "message": "spec.verify is only supported when spec.sourceRef.kind is 'HelmRepository'"},
]))]
pub struct HelmChartSpec {
    /// The chart's name in a repository, or its directory or archive in a source's files.
    pub chart: String,
    /// A version, or a range of versions of a HelmRepository; the newest when absent.
    #[serde(default)]
    #[schemars(extend("x-default" = "*"))]
    pub version: Option<String>,
    /// Where the chart is.
    pub source_ref: ChartSource,
    /// How often to look.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// `ChartVersion`: a new version makes a new artifact; `Revision`: a new revision of the source does.
    #[serde(default)]
    #[schemars(extend("enum" = ["ChartVersion", "Revision"], "x-default" = "ChartVersion"))]
    pub reconcile_strategy: Option<String>,
    /// Files of the chart whose values, merged in order, take the place of its `values.yaml`.
    #[serde(default)]
    pub values_files: Vec<String>,
    /// Of older versions: one more values file, merged first.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub values_file: Option<String>,
    /// Pass over values files that are not there.
    #[serde(default)]
    pub ignore_missing_values_files: bool,
    /// Which signatures are needed.
    #[serde(default)]
    #[schemars(transform = without("trustedRootSecretRef"))]
    pub verify: Option<Verification>,
    /// Leave everything as it is.
    #[serde(default)]
    pub suspend: bool,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub access_from: Option<AccessFrom>,
}

/// `spec.sourceRef` of a HelmChart: a source of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSource {
    /// The API version, which may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `HelmRepository`, `GitRepository` or `Bucket`.
    #[schemars(extend("enum" = ["HelmRepository", "GitRepository", "Bucket"]))]
    pub kind: String,
    /// The name.
    pub name: String,
}

impl SourceSpec for HelmChartSpec {
    const KIND: FluxKind = FluxKind::HelmChart;

    fn interval(&self) -> &str {
        &self.interval
    }

    fn suspend(&self) -> bool {
        self.suspend
    }
}

impl HelmChart {
    /// The source.
    ///
    /// # Errors
    /// A sentence: a kind that has no charts.
    pub fn source(&self) -> Result<ObjectRef, String> {
        let source = &self.spec.source_ref;
        let kind = match source.kind.as_str() {
            "HelmRepository" => FluxKind::HelmRepository,
            "GitRepository" => FluxKind::GitRepository,
            "Bucket" => FluxKind::Bucket,
            other => {
                return Err(format!(
                    "spec.sourceRef.kind: '{other}' has no charts, expected HelmRepository, GitRepository or Bucket"
                ));
            }
        };
        Ok(ObjectRef::new(kind, &self.id.namespace, &source.name))
    }

    /// The range of versions; empty for the newest.
    pub fn version(&self) -> &str {
        self.spec.version.as_deref().unwrap_or_default()
    }

    /// The values files in the order in which they are merged.
    pub fn values_files(&self) -> Vec<String> {
        let first = self.spec.values_file.iter().filter(|file| !file.is_empty());
        first.chain(&self.spec.values_files).cloned().collect()
    }

    /// A field that asks for something this version cannot do, as a sentence.
    pub fn unsupported(&self) -> Option<String> {
        let verify = self.spec.verify.as_ref()?;
        match self.spec.source_ref.kind.as_str() {
            "HelmRepository" if verify.trusted_root_secret_ref.is_some() => Some(
                "spec.verify.trustedRootSecretRef is a field of OCIRepository alone: take the chart from an OCIRepository \
                 (spec.chartRef of a HelmRelease), or remove the field"
                    .to_owned(),
            ),
            "HelmRepository" => verify.unsupported(),
            kind => Some(format!(
                "spec.verify checks charts of a HelmRepository of type oci, and nothing signs a chart of a {kind}: remove the field"
            )),
        }
    }
}
