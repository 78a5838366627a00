//! What a kustomization asks of a Helm engine.

use driftless_manifest::TreePath;

/// Renders the charts of `helmCharts`. kustomize has the helm program do it; this crate knows no Helm, so the caller
/// brings an engine along.
pub trait Charts {
    /// What `helm template` prints for the chart.
    ///
    /// # Errors
    /// Why it cannot be rendered, for the user.
    fn render(&self, call: &ChartCall) -> Result<String, String>;
}

/// One chart of a kustomization, with what `helm template` would be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartCall {
    /// The chart's directory in the tree.
    pub dir: TreePath,
    /// The release's name.
    pub release: String,
    /// The release's namespace.
    pub namespace: String,
    /// The files of values, in the order of `-f`: later ones win.
    pub values: Vec<ValuesFile>,
    /// Kubernetes' version, where the kustomization or the caller names one.
    pub kube_version: Option<String>,
    /// More API versions that the cluster has.
    pub api_versions: Vec<String>,
    /// Whether the files under `crds/` are printed.
    pub include_crds: bool,
    /// Whether hooks are left out.
    pub skip_hooks: bool,
    /// Whether tests are left out.
    pub skip_tests: bool,
}

/// A file of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesFile {
    /// Its name in errors.
    pub name: String,
    /// Its YAML.
    pub text: String,
}
