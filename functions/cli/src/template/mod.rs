//! `driftless template`: a replacement of `helm template`, with its flags.

mod chart;
mod flags;
mod print;
mod values;

use crate::accepted::Accepted;
use crate::error::{EXIT_CODES, Error};
use driftless_helm::values::Table;
use driftless_helm::{Capabilities, Compat, Options, Outcome, ReleaseInfo, Render, Rendered};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "Examples:
  driftless template my-release ./chart
  driftless template my-release chart-1.2.3.tgz -f values.yaml --set image.tag=1.2
  driftless template my-release ./chart --kube-version 1.34.0 --helm4

Charts are local directories or .tgz files; the command connects to no repository and no cluster. Helm's flags for an installation, \
such as --wait, --timeout, --atomic or --create-namespace, are accepted and have no effect.";

/// Render a chart, as `helm template` does
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The release's name [default: release-name], and the chart's directory or .tgz file
    #[arg(value_name = "[NAME] CHART", num_args = 1..=2, required = true)]
    name_and_chart: Vec<String>,
    /// Render as Helm 4 instead of Helm 3
    #[arg(long)]
    helm4: bool,
    /// The release's namespace
    #[arg(short, long, env = "HELM_NAMESPACE", default_value = "default")]
    namespace: String,
    #[command(flatten)]
    values: values::Args,
    /// The version of Kubernetes, for .Capabilities.KubeVersion
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// More API versions for .Capabilities.APIVersions
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,
    /// Do not check the values against the charts' schemas
    #[arg(long)]
    skip_schema_validation: bool,
    #[command(flatten)]
    shown: print::Args,
    /// Use the default name; excludes a name
    #[arg(short, long)]
    generate_name: bool,
    #[command(flatten)]
    refused: flags::UnsupportedFlags,
    #[command(flatten)]
    _accepted: Accepted<flags::InstallationFlags>,
}

/// Renders, and writes to stdout or to `--output-dir`.
pub fn run(args: &Args) -> Result<(), Error> {
    args.refused.check()?;
    let (name, path) = match args.name_and_chart.as_slice() {
        // Helm's message. Also with --generate-name, `helm template` uses the default name.
        [_, _] if args.generate_name => {
            return Err(Error::usage(
                "cannot set --generate-name and also specify a name",
            ));
        }
        [name, chart] => (name.as_str(), chart),
        [chart] => ("release-name", chart),
        _ => return Err(Error::usage("give a name and a chart")),
    };
    let rendered = render(args, name, Path::new(path))?;
    print::all(&rendered, name, &args.shown)
}

fn render(args: &Args, name: &str, path: &Path) -> Result<Rendered, Error> {
    let compat = match args.helm4 {
        true => Compat::Helm4,
        false => Compat::Helm3,
    };
    Release {
        chart: path,
        name,
        namespace: &args.namespace,
        values: args.values.read(compat)?,
        kube_version: args.kube_version.as_deref(),
        api_versions: &args.api_versions,
        is_upgrade: args.is_upgrade,
        check_schema: !args.skip_schema_validation,
        compat,
    }
    .render()
}

/// A local chart, with the settings of the release to render.
pub struct Release<'r> {
    /// The directory or .tgz file of the chart.
    pub chart: &'r Path,
    pub name: &'r str,
    pub namespace: &'r str,
    pub values: Table,
    pub kube_version: Option<&'r str>,
    pub api_versions: &'r [String],
    pub is_upgrade: bool,
    pub check_schema: bool,
    pub compat: Compat,
}

impl Release<'_> {
    /// Renders the release without a cluster.
    pub fn render(&self) -> Result<Rendered, Error> {
        release_name(self.name)?;
        let chart = chart::load(self.chart, self.compat)?;
        let options = Options {
            compat: self.compat,
            release: ReleaseInfo {
                name: self.name.to_owned(),
                namespace: self.namespace.to_owned(),
                revision: 1,
                is_upgrade: self.is_upgrade,
            },
            capabilities: self.capabilities()?,
            now: now()?,
            entropy: entropy()?,
            lookups: None,
            limits: Default::default(),
            fuel: Default::default(),
        };
        let done = Render::new(&chart, &self.values, &options)
            .without_schema(!self.check_schema)
            .run();
        match done.map_err(Error::caused_by)? {
            Outcome::Done(rendered) => Ok(*rendered),
            Outcome::Needs(_) => Err(Error::new("the chart needs objects of a cluster")),
        }
    }

    fn capabilities(&self) -> Result<Capabilities, Error> {
        let mut capabilities = Capabilities::default();
        if let Some(version) = self.kube_version {
            capabilities = capabilities
                .with_kube_version(version, self.compat)
                .map_err(Error::usage)?;
        }
        capabilities
            .api_versions
            .extend(self.api_versions.iter().cloned());
        Ok(capabilities)
    }
}

/// Checks the name of a release by Helm's rule.
fn release_name(name: &str) -> Result<(), Error> {
    let label = |part: &str| {
        let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        !part.is_empty()
            && part.bytes().all(|b| inner(&b) || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    if name.len() <= 53 && name.split('.').all(label) {
        return Ok(());
    }
    Err(Error::usage(
        "the release's name must consist of at most 53 lower-case letters, digits, '-' and '.'",
    ))
}

fn now() -> Result<(i64, u32), Error> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| Error::new("the clock is set before 1970"))?;
    let seconds = i64::try_from(since.as_secs()).map_err(Error::caused_by)?;
    Ok((seconds, since.subsec_nanos()))
}

fn entropy() -> Result<[u8; 32], Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| Error::caused_by(error).context("read random bytes"))?;
    Ok(seed)
}

/// Reads a file; `-` is stdin.
fn read(path: &str) -> Result<Vec<u8>, Error> {
    if path.contains("://") {
        return Err(Error::new(format!(
            "'{path}' is remote, and only local files can be read"
        ))
        .next("download it, and name the file"));
    }
    let content = if path.trim() == "-" {
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut content).map(|_| content)
    } else {
        std::fs::read(PathBuf::from(path))
    };
    content.map_err(|error| Error::caused_by(error).context(format!("read '{path}'")))
}
