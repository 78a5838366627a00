//! The command `driftless doctor`: checks a cluster, or an installation on AWS with its hubs, and
//! reports a remedy for each failure.

mod cluster;
mod definitions;
mod installation;
mod report;
mod state;

use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::output::{Output, TextOrJson};
use driftless_adapters::config::Config;
use report::Report;
use std::env;

const EXAMPLES: &str = "Examples:
  driftless doctor                        # the cluster of the kubeconfig
  driftless doctor --context staging -o json
  driftless doctor --installation         # the installation on AWS, and its hubs

A cluster: it answers, its version, the user's rights, its clock, Flux's definitions, objects that they refuse, objects that are not ready. \
An installation: the bucket and its conditional writes, the queues of steps, of isolated steps and of sweeps, the dead letters, the versions of the functions, the webhook's secret, \
GitHub's login, records that are no longer used, kubeconfigs without a registered hub, and each registered hub with the checks of a cluster and of its fleet repository, which is read with that login. A probe is written to doctor/probe of the bucket and deleted; nothing else is changed.

Environment of --installation: as for `driftless bootstrap`, DRIFTLESS_ISOLATED_QUEUE_URL and \
DRIFTLESS_SWEEP_QUEUE_URL; it also needs sqs:GetQueueAttributes on the queues, \
s3:PutObject and DeleteObject on doctor/*, and secretsmanager:ListSecrets.";

/// Check a cluster or an installation, and report each failure with its remedy
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    connection: Connection,
    /// Check the installation on AWS that the environment configures, and its hubs, instead of the
    /// kubeconfig's cluster
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    installation: bool,
    #[command(flatten)]
    output: Output<TextOrJson>,
}

/// Runs the checks.
///
/// # Errors
/// A check fails.
pub async fn run(args: Args) -> Result<(), Error> {
    let mut report = Report::new(args.output.format == TextOrJson::Text);
    if args.installation {
        match Config::from(|name| env::var(name).ok()) {
            Ok(config) => installation::check(&config, &mut report).await,
            Err(error) => {
                let next = "take it from the outputs of the stack (infra/template.yaml)";
                report.fail("environment", error, next);
            }
        }
    } else {
        match args.connection.connect().await {
            Ok(hub) => cluster::check(&hub, "cluster", &mut report).await,
            Err(error) => {
                let next = error.next.clone();
                let next =
                    next.unwrap_or_else(|| "check the kubeconfig and its context".to_owned());
                report.fail("cluster", &error.message, &next);
            }
        }
    }
    report.finish()
}
