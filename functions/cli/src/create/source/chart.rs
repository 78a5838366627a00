//! `driftless create source chart`.

use super::{Signatures, new_source};
use crate::create::flags::{self, NonEmpty as _, Reference};
use crate::create::object::NewObject;
use crate::create::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use driftless_flux::{ChartSource, HelmChartSpec};

const EXAMPLES: &str = "Examples:
  driftless create source chart podinfo --source HelmRepository/podinfo --chart podinfo \\
    --chart-version 6.x
  driftless create source chart web --source GitRepository/fleet --chart ./charts/web \\
    --reconcile-strategy Revision --export";

/// Create or update a HelmChart
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The chart's name, or its directory in the source
    #[arg(long)]
    chart: Option<String>,
    /// The chart's version, or a range of versions
    #[arg(long, value_name = "VERSION")]
    chart_version: Option<String>,
    /// The source of the chart: KIND/NAME of a HelmRepository, GitRepository or Bucket
    #[arg(long, value_name = "SOURCE", value_parser = flags::local_chart_source)]
    source: Option<Reference>,
    /// The change after which the chart is packaged again: ChartVersion or Revision
    #[arg(long, value_name = "STRATEGY", default_value = "ChartVersion")]
    reconcile_strategy: String,
    #[command(flatten)]
    signatures: Signatures,
}

impl Args {
    /// Returns the HelmChart.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn build(&self, common: &Common) -> Result<NewObject, Error> {
        let Some(source) = &self.source else {
            return Err(Error::usage("chart source is required")
                .next("add --source KIND/NAME, such as --source HelmRepository/podinfo"));
        };
        let Some(chart) = self.chart.to_non_empty() else {
            return Err(Error::usage("chart name or path is required").next("add --chart NAME"));
        };
        let metadata = common.metadata(&self.named)?;
        let strategy = Some(self.reconcile_strategy.clone());
        let spec = HelmChartSpec {
            chart,
            version: self.chart_version.to_non_empty(),
            interval: common.interval.to_string(),
            reconcile_strategy: strategy.filter(|strategy| !strategy.is_empty()),
            source_ref: ChartSource {
                api_version: None,
                kind: source.kind.clone(),
                name: source.name.clone(),
            },
            verify: self.signatures.verification()?,
            ..HelmChartSpec::default()
        };
        new_source("HelmChart source", &metadata, &spec)
    }
}
