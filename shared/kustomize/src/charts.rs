//! The interface between a kustomization and a Helm engine.

use driftless_manifest::TreePath;

/// The reason why a chart cannot be rendered, for the user.
pub type ChartFault = Box<dyn std::error::Error + Send + Sync>;

/// Renders the charts of `helmCharts`. kustomize runs the helm program; this crate does not depend
/// on a Helm engine, so the caller provides one.
pub trait Charts {
    /// Returns the output of `helm template` for the chart.
    ///
    /// # Errors
    /// The chart cannot be rendered.
    fn render(&self, call: &ChartCall) -> Result<String, ChartFault>;
}

/// One chart of a kustomization, with the options of `helm template`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartCall {
    /// The path of the chart's directory in the tree.
    pub dir: TreePath,
    /// The name of the release.
    pub release: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The values files, in the order of `-f`: later ones win.
    pub values: Vec<ValuesFile>,
    /// The version of Kubernetes, if the kustomization or the caller names one.
    pub kube_version: Option<String>,
    /// Additional API versions of the cluster.
    pub api_versions: Vec<String>,
    /// True if the files under `crds/` are printed.
    pub include_crds: bool,
    /// True if hooks are left out.
    pub skip_hooks: bool,
    /// True if tests are left out.
    pub skip_tests: bool,
}

/// A file of `valuesFile` or `additionalValuesFiles`, read from the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesFile {
    /// The name of the file in errors.
    pub name: String,
    /// The content of the file, as YAML.
    pub text: String,
}
