//! `driftless create source chart`.

use super::{new_source, verify};
use crate::create::flags::{self, NonEmpty as _, Reference};
use crate::create::object::{Fields, NewObject};
use crate::create::{Common, Named};
use crate::error::{EXIT_CODES, Error};

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
    /// The provider that verifies the chart's signature: cosign
    #[arg(long, value_name = "PROVIDER", value_parser = ["cosign"])]
    verify_provider: Option<String>,
    /// The Secret with the public keys for signatures
    #[arg(long, value_name = "NAME")]
    verify_secret_ref: Option<String>,
    /// A regular expression for the subject of a keyless signature
    #[arg(long, value_name = "REGEX")]
    verify_subject: Option<String>,
    /// A regular expression for the issuer of a keyless signature
    #[arg(long, value_name = "REGEX")]
    verify_issuer: Option<String>,
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
        let Some(chart) = self.chart.non_empty() else {
            return Err(Error::usage("chart name or path is required").next("add --chart NAME"));
        };
        let metadata = common.metadata(&self.named)?;
        let strategy = Some(self.reconcile_strategy.as_str()).filter(|text| !text.is_empty());
        let mut spec = Fields::default();
        spec.set("chart", chart)
            .set("version", self.chart_version.non_empty())
            .set("interval", common.interval)
            .set("reconcileStrategy", strategy)
            .set("sourceRef", source.value())
            .set(
                "verify",
                verify(
                    self.verify_provider.non_empty(),
                    flags::name_of(&self.verify_secret_ref),
                    self.verify_issuer.non_empty(),
                    self.verify_subject.non_empty(),
                )?,
            );
        Ok(new_source("HelmChart", "HelmChart source", metadata, spec))
    }
}
