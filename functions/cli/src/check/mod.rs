//! The command `driftless check`: applies a fleet repository to API servers in this process.

mod formats;
mod print;

use crate::cluster_options::ClusterOptions;
use crate::error::{EXIT_CODES, Error};
use crate::fleet_options::FleetOptions;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::term;
use clap::ValueEnum;
use driftless_fleet::check;
use print::PrintOptions;
use std::path::PathBuf;
use std::time::Instant;

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
    #[command(flatten)]
    clusters: ClusterOptions,
    /// Treat unchecked objects as errors
    #[arg(long)]
    strict: bool,
    /// Treat what driftless refuses to serve as a note, for fleets that keep Flux
    #[arg(long)]
    allow_not_served: bool,
    /// Print a line for each note, and do not group notes with the same message
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    output: Output<Format>,
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

impl output::Format for Format {
    const DEFAULT: &'static str = "text";
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Error> {
    let start = Instant::now();
    let options = args.clusters.check(args.allow_not_served)?;
    let reading = Progress::new(format!("reading {}", args.dir.display()));
    let fleet = args.clusters.open(&args.fleet, &args.dir).await?;
    drop(reading);
    fleet.messages.iter().for_each(|line| term::action(line));
    let line = Progress::new("checking");
    let say = |step: &str| line.say(format!("checking: {step}"));
    let report = check::check(&fleet, options, &say).await?;
    drop(line);
    let options = PrintOptions {
        strict: args.strict,
        verbose: args.verbose,
    };
    print::print(&report, args.output.format, &options, start.elapsed())
}
