//! The command `driftless check`: applies a fleet repository to API servers in this process.

mod formats;
mod print;

use crate::build::remote;
use crate::error::{EXIT_CODES, Error};
use crate::fleet_options::FleetOptions;
use crate::progress::Progress;
use crate::term;
use clap::ValueEnum;
use driftless_fleet::Fleet;
use driftless_fleet::check::gates::{self, Gate, Gates};
use driftless_fleet::check::{self, ChartHosts, GivenObjects, apiserver};
use print::PrintOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Examples:
  driftless check                                  # the repository in the working directory
  driftless check fleet --path clusters/staging
  driftless check fleet --source https://github.com/acme/apps=../apps -o json
  driftless check fleet --source https://charts.jetstack.io=../charts   # render the releases
  driftless check --output github                  # annotations in a workflow of GitHub Actions
  driftless check fleet --with cluster-vars.yaml   # a Secret that the cluster has and Git has not
  driftless check fleet --allow-remote-bases --feature-gates UseHelm3Defaults=true \\
    --kube-version 1.33

Every hub of the repository, and every remote cluster, is an API server in this process. Without --allow-remote-bases and \
--allow-charts no requests are sent, and nothing is changed. What Git does not have is replaced: the cluster of each kubeconfig Secret by a \
server, encrypted values and variables by placeholders; missing definitions and namespaces are added, and pods always run. \
Each replacement, and what cannot be checked offline, is a note; notes with the same message are one line. What driftless \
refuses to serve is an error.";

/// Apply a fleet repository to API servers in this process, and report every error
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// Directory of the fleet repository, or its parent that also holds the repositories that it
    /// references
    #[arg(default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    fleet: FleetOptions,
    /// Files, or directories of manifests, with ConfigMaps, Secrets and definitions that the
    /// clusters have and Git does not; may be given several times. Each hub gets them, by default
    /// in the namespace flux-system
    #[arg(long = "with", value_name = "FILE|DIR")]
    supply: Vec<PathBuf>,
    /// Fetch the remote bases and files that kustomizations reference
    #[arg(long)]
    allow_remote_bases: bool,
    /// Download the charts and OCI artifacts that no --source replaces. The value `all` also
    /// permits hosts with loopback and link-local addresses
    #[arg(long, value_enum, value_name = "ADDRESSES", num_args = 0..=1, require_equals = true, default_missing_value = "remote")]
    allow_charts: Option<Addresses>,
    /// API of a GitHub Enterprise host, for remote bases: HOST=URL
    #[arg(long, value_name = "HOST=URL", requires = "allow_remote_bases", value_parser = remote::host)]
    github_api: Option<(String, String)>,
    /// Feature gates of Flux's controllers, with the values that the controllers have
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = gates::parse)]
    feature_gates: Vec<Gate>,
    /// Feature gates of the clusters' API servers, in addition to those in Talos, k3s or kubeadm
    /// configurations of the repository
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = apiserver::parse)]
    api_feature_gates: Vec<apiserver::Setting>,
    /// API versions that the clusters serve (runtime-config of the API server), in addition to
    /// those in such configurations
    #[arg(long, value_name = "VERSION=BOOL", value_delimiter = ',', value_parser = apiserver::parse)]
    runtime_config: Vec<apiserver::Setting>,
    /// Kubernetes version that clusters report and charts see
    #[arg(long, value_name = "VERSION", value_parser = kube_version)]
    kube_version: Option<[u64; 3]>,
    /// Treat unchecked objects as errors
    #[arg(long)]
    strict: bool,
    /// Treat what driftless refuses to serve as a note, for fleets that keep Flux
    #[arg(long)]
    allow_not_served: bool,
    /// Print a line for each note, and do not group notes with the same message
    #[arg(short, long)]
    verbose: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// The addresses that `--allow-charts` permits.
#[derive(Clone, Copy, ValueEnum)]
enum Addresses {
    /// Public and private addresses
    Remote,
    /// Also loopback and link-local addresses
    All,
}

impl From<Addresses> for ChartHosts {
    fn from(addresses: Addresses) -> Self {
        match addresses {
            Addresses::Remote => Self::Remote,
            Addresses::All => Self::All,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// FILE:LINE: error: OBJECT: MESSAGE
    Text,
    /// A JSON document
    Json,
    /// Workflow commands of GitHub Actions: an annotation of its line for each error and note
    Github,
    /// JUnit XML: a test suite for each hub, a test case for each Flux object
    Junit,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}

/// Parses `1.33`, `v1.33.2`, or such a version with a suffix.
fn kube_version(text: &str) -> Result<[u64; 3], String> {
    let wrong = || {
        format!("'{text}' is not a Kubernetes version: expected a version such as 1.33 or v1.33.2")
    };
    let plain = text.strip_prefix('v').unwrap_or(text);
    let plain = plain.split(['-', '+']).next().unwrap_or_default();
    let parts: Result<Vec<u64>, _> = plain.split('.').map(str::parse).collect();
    match parts.map_err(|_| wrong())?[..] {
        [major, minor] => Ok([major, minor, 0]),
        [major, minor, patch] => Ok([major, minor, patch]),
        _ => Err(wrong()),
    }
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Error> {
    let start = Instant::now();
    let given_objects = GivenObjects::read(&args.supply)?;
    let reading = Progress::new(format!("reading {}", args.dir.display()));
    let fleet = args.open().await?;
    drop(reading);
    fleet.messages.iter().for_each(|line| term::action(line));
    let line = Progress::new("checking");
    let options = check::Options {
        given_objects,
        allow_files: args.allow_remote_bases,
        charts: args.allow_charts.map(ChartHosts::from),
        api_feature_gates: args.api_feature_gates,
        runtime_config: args.runtime_config,
        external_artifacts: Gates::new(&args.feature_gates).external_artifacts(),
        allow_unserved: args.allow_not_served,
    };
    let say = |step: &str| line.say(format!("checking: {step}"));
    let checked = check::check(&fleet, options, &say).await?;
    drop(line);
    let options = PrintOptions {
        strict: args.strict,
        verbose: args.verbose,
    };
    print::print(&checked.report, args.output, &options, start.elapsed())
}

impl Args {
    /// Opens the fleet, with the settings that only a check has.
    async fn open(&self) -> Result<Fleet, Error> {
        let mut fleet = self.fleet.open(&self.dir, Duration::ZERO).await?;
        fleet.kube_version = self.kube_version;
        Gates::new(&self.feature_gates).apply(&mut fleet.rules);
        // Remote bases of `--source` are built in any case.
        fleet.rules.allow_remote_bases = true;
        if self.allow_remote_bases {
            let github = remote::git(self.github_api.as_ref())?;
            fleet.git = fleet.git.with_bases(Arc::new(github));
        }
        Ok(fleet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kubernetes() {
        for (text, version) in [
            ("1.33", Some([1, 33, 0])),
            ("v1.31.2", Some([1, 31, 2])),
            ("v1.30.4-eks-1", Some([1, 30, 4])),
            ("1", None),
            ("latest", None),
        ] {
            assert_eq!(kube_version(text).ok(), version, "{text}");
        }
    }
}
