//! `driftless create source chart`.

use super::{made, verify};
use crate::create::flags::{self, Given as _, Reference};
use crate::create::object::{Fields, Made};
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
    /// When the chart is packaged anew: ChartVersion or Revision
    #[arg(long, value_name = "STRATEGY", default_value = "ChartVersion")]
    reconcile_strategy: String,
    /// What checks the chart's signature: cosign
    #[arg(long, value_name = "PROVIDER", value_parser = ["cosign"])]
    verify_provider: Option<String>,
    /// The Secret with the keys that signatures are checked with
    #[arg(long, value_name = "NAME")]
    verify_secret_ref: Option<String>,
    /// A regular expression for the subject of a signature without a key
    #[arg(long, value_name = "REGEX")]
    verify_subject: Option<String>,
    /// A regular expression for the issuer of a signature without a key
    #[arg(long, value_name = "REGEX")]
    verify_issuer: Option<String>,
}

impl Args {
    /// The object.
    ///
    /// # Errors
    /// Flags that are not valid or absent.
    pub fn made(&self, common: &Common) -> Result<Made, Error> {
        let Some(source) = &self.source else {
            return Err(Error::usage("chart source is required")
                .next("add --source KIND/NAME, such as --source HelmRepository/podinfo"));
        };
        let Some(chart) = self.chart.given() else {
            return Err(Error::usage("chart name or path is required").next("add --chart NAME"));
        };
        let metadata = common.metadata(&self.named)?;
        let strategy = Some(self.reconcile_strategy.as_str()).filter(|text| !text.is_empty());
        let mut spec = Fields::default();
        spec.set("chart", chart)
            .set("version", self.chart_version.given())
            .set("interval", common.interval)
            .set("reconcileStrategy", strategy)
            .set("sourceRef", source.value())
            .set(
                "verify",
                verify(
                    self.verify_provider.given(),
                    flags::name_of(&self.verify_secret_ref),
                    self.verify_issuer.given(),
                    self.verify_subject.given(),
                )?,
            );
        Ok(made("HelmChart", "HelmChart source", metadata, spec))
    }
}
