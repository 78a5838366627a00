//! `driftless create helmrelease`.

use super::flags::{self, List, NonEmpty as _, Reference, Time, items};
use super::object::{AwaitedState, NewObject, object};
use super::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use clap::ArgAction;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use driftless_flux::{
    ChartRef, ChartSourceRef, ChartTemplate, ChartTemplateSpec, CrdsPolicy, FluxKind,
    HelmReleaseSpec, Install, Upgrade, ValuesRef,
};
use driftless_helm::Compat;
use driftless_helm::values::{self, Table};
use serde_json::{Number, Value};
use std::path::Path;

const EXAMPLES: &str = "Examples:
  driftless create helmrelease podinfo --source HelmRepository/podinfo --chart podinfo \\
    --chart-version '>4.0.0'
  driftless create helmrelease podinfo --source GitRepository/fleet --chart ./charts/podinfo \\
    --values values.yaml
  driftless create helmrelease podinfo -n team-a --chart-ref OCIRepository/podinfo.flux-system
  driftless create helmrelease podinfo --source HelmRepository/podinfo --chart podinfo \\
    --values-from Secret/values --export";

/// The kinds that values may come from.
const VALUES_FROM: [&str; 2] = ["Secret", "ConfigMap"];
/// The kinds that `chartRef` may refer to.
const CHART_REFS: [&str; 2] = ["OCIRepository", "HelmChart"];

/// Create or update a HelmRelease
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The source of the chart: KIND/NAME[.NAMESPACE] of a HelmRepository, GitRepository or Bucket
    #[arg(long, value_name = "SOURCE", value_parser = flags::chart_source)]
    source: Option<Reference>,
    /// The chart's name, or its directory in the source
    #[arg(long)]
    chart: Option<String>,
    /// The chart's version, or a range of versions
    #[arg(long, value_name = "VERSION")]
    chart_version: Option<String>,
    /// The chart itself, in place of --source and --chart: KIND/NAME[.NAMESPACE] of an
    /// OCIRepository or HelmChart
    #[arg(long, value_name = "SOURCE")]
    chart_ref: Option<String>,
    /// The interval at which new versions of the chart are checked for
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        hide_default_value = true
    )]
    chart_interval: Time,
    /// The change after which the chart is packaged again: ChartVersion or Revision
    #[arg(long, value_name = "STRATEGY", default_value = "ChartVersion", value_parser = ["ChartVersion", "Revision"])]
    reconcile_strategy: String,
    /// The release's name
    #[arg(long, value_name = "NAME")]
    release_name: Option<String>,
    /// Releases that must be ready first: [NAMESPACE/]NAME
    #[arg(long, value_name = "NAMES")]
    depends_on: Vec<List>,
    /// The namespace of the release
    #[arg(long, value_name = "NAME")]
    target_namespace: Option<String>,
    /// The namespace of the release's record [default: the target namespace]
    #[arg(long, value_name = "NAME")]
    storage_namespace: Option<String>,
    /// Create the target namespace
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    create_target_namespace: bool,
    /// The service account that applies the objects
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Files of values; later ones win
    #[arg(long, value_name = "FILES")]
    values: Vec<List>,
    /// Objects with values under the key values.yaml: Secret/NAME or ConfigMap/NAME
    #[arg(long, value_name = "OBJECTS")]
    values_from: Vec<List>,
    /// The policy of upgrades for the chart's definitions: Skip, Create or CreateReplace
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(["Skip", "Create", "CreateReplace"]).map(crds_policy))]
    crds: Option<CrdsPolicy>,
    /// The Secret with the kubeconfig of a remote cluster
    #[arg(long, value_name = "NAME")]
    kubeconfig_secret_ref: Option<String>,
}

/// Converts a value of `--crds`, one of the possible ones.
fn crds_policy(text: String) -> CrdsPolicy {
    match text.as_str() {
        "Create" => CrdsPolicy::Create,
        "CreateReplace" => CrdsPolicy::CreateReplace,
        _ => CrdsPolicy::Skip,
    }
}

impl Args {
    /// Returns the HelmRelease.
    ///
    /// # Errors
    /// Fails for flags that are not valid or exclude each other.
    pub fn build(&self, common: &Common) -> Result<NewObject, Error> {
        let (chart, chart_ref) = self.chart()?;
        let metadata = common.metadata(&self.named)?;
        let target = self.target_namespace.to_non_empty();
        let install = Install {
            create_namespace: self.create_target_namespace,
            crds: self.crds.map(|_| CrdsPolicy::Create),
            ..Install::default()
        };
        let spec = HelmReleaseSpec {
            chart,
            chart_ref,
            interval: common.interval.to_string(),
            release_name: self.release_name.to_non_empty(),
            storage_namespace: self
                .storage_namespace
                .to_non_empty()
                .or_else(|| target.clone()),
            target_namespace: target,
            depends_on: flags::depends_on(&self.depends_on).map_err(Error::usage)?,
            service_account_name: self.service_account.to_non_empty(),
            kube_config: flags::kube_config(&self.kubeconfig_secret_ref),
            install: Some(install).filter(|install| *install != Install::default()),
            upgrade: self.crds.map(|crds| Upgrade {
                crds: Some(crds),
                ..Upgrade::default()
            }),
            values: self.values()?,
            values_from: self.values_from()?,
            ..HelmReleaseSpec::default()
        };
        Ok(NewObject {
            object: object(FluxKind::HelmRelease, metadata, &spec)?,
            noun: "HelmRelease",
            end: AwaitedState::Applied,
        })
    }

    /// Returns `chart` or `chartRef`.
    fn chart(&self) -> Result<(Option<ChartTemplate>, Option<ChartRef>), Error> {
        let chart = match (self.chart.to_non_empty(), self.chart_ref.non_empty()) {
            (None, None) => {
                return Err(Error::usage("chart or chart-ref is required")
                    .next("add --chart NAME with --source KIND/NAME, or --chart-ref KIND/NAME"));
            }
            (Some(_), Some(_)) => {
                let message = "cannot use --chart in combination with --chart-ref";
                return Err(Error::usage(message));
            }
            (None, Some(text)) => return Ok((None, Some(self.chart_ref(text)?))),
            (Some(chart), None) => chart,
        };
        // Flux writes an object with an empty reference, which the API server refuses.
        let Some(source) = &self.source else {
            return Err(Error::usage("--chart: chart source is required").next("add --source"));
        };
        let spec = ChartTemplateSpec {
            chart,
            version: self.chart_version.to_non_empty(),
            source_ref: ChartSourceRef {
                api_version: None,
                kind: source.kind.clone(),
                name: source.name.clone(),
                namespace: source.namespace(),
            },
            reconcile_strategy: Some(self.reconcile_strategy.clone()),
            interval: self.chart_interval.nonzero(),
            ..ChartTemplateSpec::default()
        };
        let template = ChartTemplate {
            metadata: None,
            spec,
        };
        Ok((Some(template), None))
    }

    /// Returns `chartRef`. Flags that choose a chart in a source would be ignored, and are refused.
    fn chart_ref(&self, text: &str) -> Result<ChartRef, Error> {
        for (flag, given) in [
            ("--source", self.source.is_some()),
            ("--chart-version", self.chart_version.non_empty().is_some()),
            ("--chart-interval", self.chart_interval.nonzero().is_some()),
        ] {
            if given {
                let message = format!("cannot use {flag} in combination with --chart-ref");
                return Err(Error::usage(message));
            }
        }
        let reference = Reference::any(text);
        match CHART_REFS.contains(&reference.kind.as_str()) {
            true => Ok(ChartRef {
                api_version: None,
                namespace: reference.namespace(),
                kind: reference.kind,
                name: reference.name,
            }),
            false => Err(Error::usage(format!(
                "chart reference kind '{}' is not supported, must be one of: {}",
                reference.kind,
                CHART_REFS.join(", ")
            ))),
        }
    }

    /// Returns the merged values of all files; `None` without files.
    fn values(&self) -> Result<Option<Table>, Error> {
        let files = items(&self.values);
        if files.is_empty() {
            return Ok(None);
        }
        let mut table = Table::new();
        for file in files {
            let tried = || format!("reading values from {file} failed");
            let text = std::fs::read(file).map_err(|error| {
                Error::unreadable("--values", Path::new(file), error).context(tried())
            })?;
            let more = values::read(&text, file, Compat::Helm3)
                .map_err(|error| Error::caused_by(error).context(tried()))?;
            table = values::merge(table, more);
        }
        let table = table.into_iter();
        Ok(Some(
            table.map(|(key, value)| (key, numbers(value))).collect(),
        ))
    }

    fn values_from(&self) -> Result<Vec<ValuesRef>, Error> {
        let from = |text: &str| {
            let reference = Reference::local(text);
            if reference.kind.is_empty() {
                return Err(Error::usage(format!(
                    "invalid Kubernetes object reference '{text}', must be in format <kind>/<name>"
                )));
            }
            let kind = flags::parse_kind("reference kind", &reference.kind, &VALUES_FROM);
            Ok(ValuesRef {
                kind: kind.map_err(Error::usage)?,
                name: reference.name,
                ..ValuesRef::default()
            })
        };
        items(&self.values_from).into_iter().map(from).collect()
    }
}

/// Converts numbers as Go's `float64` and JSON do: whole numbers become integers, unless they are
/// written with an exponent.
fn numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Number(number), whole),
        Value::Array(list) => list.into_iter().map(numbers).collect(),
        Value::Object(table) => table
            .into_iter()
            .map(|(key, value)| (key, numbers(value)))
            .collect(),
        other => other,
    }
}

fn whole(number: f64) -> Value {
    let text = number.to_string();
    if number.fract() == 0.0 && number.abs() < 1e21 {
        let whole = text.parse::<i64>().map(Number::from);
        let whole = whole.or_else(|_| text.parse::<u64>().map(Number::from));
        if let Ok(whole) = whole {
            return whole.into();
        }
    }
    number.into()
}
