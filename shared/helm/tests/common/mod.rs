//! A chart with all its inputs, like in `helm template rel CHART -n ns`.

use driftless_helm::values::{self, SetKind, Table};
use driftless_helm::{
    Capabilities, Chart, ChartFile, Compat, HelmError, LoadLimits, Options, Outcome, Render,
    Rendered,
};

/// A chart with its inputs.
#[derive(Clone, Debug)]
pub struct Input {
    /// The chart's files, in order of name.
    pub files: Vec<ChartFile>,
    /// The files of `-f`, with their names.
    pub values: Vec<(String, Vec<u8>)>,
    /// The flags of the `--set` kind with their arguments.
    pub set: Vec<(SetKind, String)>,
    /// `--kube-version`
    pub kube_version: String,
    /// `--api-versions`
    pub api_versions: Vec<String>,
    /// `--is-upgrade`
    pub upgrade: bool,
    /// True without `--skip-schema-validation`.
    pub check_schema: bool,
}

impl Input {
    /// Renders the chart with the engine.
    ///
    /// # Errors
    /// Every error of the engine.
    pub fn render(&self, compat: Compat) -> Result<Rendered, HelmError> {
        let user = self.user(compat)?;
        let chart = Chart::from_files(self.files.clone(), compat, &LoadLimits::default())?;
        let mut capabilities = Capabilities::default()
            .with_kube_version(&self.kube_version, compat)
            .map_err(|error| HelmError::Usage(error.into()))?;
        capabilities
            .api_versions
            .extend(self.api_versions.iter().cloned());
        let mut options = Options {
            compat,
            capabilities,
            now: (1_790_000_000, 0),
            entropy: [3; 32],
            ..Options::new("rel", "ns")
        };
        options.release.is_upgrade = self.upgrade;
        match Render::new(&chart, &user, &options)
            .without_schema(!self.check_schema)
            .run()?
        {
            Outcome::Done(rendered) => Ok(*rendered),
            Outcome::Needs(needs) => Err(HelmError::Usage(format!(
                "the render needs objects of a cluster: {needs:?}"
            ))),
        }
    }

    /// Returns the user's values, merged in Helm's order.
    fn user(&self, compat: Compat) -> Result<Table, HelmError> {
        const ORDER: [SetKind; 4] = [
            SetKind::Json,
            SetKind::Typed,
            SetKind::Text,
            SetKind::Literal,
        ];
        let mut user = Table::new();
        for (file, text) in &self.values {
            user = values::merge(user, values::read(text, file, compat)?);
        }
        for kind in ORDER {
            for (_, argument) in self.set.iter().filter(|(given, _)| *given == kind) {
                values::set(&mut user, kind, argument, compat, &|_| {
                    Err("no files".into())
                })?;
            }
        }
        Ok(user)
    }
}
