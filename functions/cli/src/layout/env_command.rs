//! `driftless env`.

use super::follow_commands;
use super::hub::HubFlags;
use super::{
    AddRemote, Common, RemoveCluster, addition_examples, environment_changes, manifests, name,
    removal_examples,
};
use crate::error::{EXIT_CODES, Error};
use clap::Subcommand;

/// Create an environment on its branch, and add and remove its clusters
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  git checkout -b qa && driftless env init qa
  driftless env init dev --repo https://github.com/acme/fleet
  driftless env add-cluster east-aks --apply --context east-aks
  driftless env add-remote east-aks edge-1 --kubeconfig edge-1.conf --apply
  driftless env remove-cluster east-aks/edge-1

{EXIT_CODES}"))]
pub struct EnvArgs {
    #[command(subcommand)]
    command: Env,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum Env {
    /// Make the branch an environment. The directories of another environment that it was branched
    /// from are emptied
    #[command(after_help = "Examples:
  git checkout -b qa && driftless env init qa
  driftless env init dev --repo https://github.com/acme/fleet")]
    Init {
        /// The name of the environment and of its branch
        #[arg(value_parser = name)]
        name: String,
        /// The fleet repository's URL [default: that of clusters/base/sync.yaml]
        #[arg(long, value_name = "URL", value_parser = manifests::url)]
        repo: Option<String>,
    },
    /// Add a cluster with all tenants and applications: clusters/NAME, infra/NAME and tenants/NAME
    #[command(after_help = "Examples:
  driftless env add-cluster east-aks
  driftless env add-cluster east-aks --apply --context east-aks")]
    AddCluster {
        /// The cluster's name
        #[arg(value_parser = name)]
        name: String,
        #[command(flatten)]
        hub: HubFlags,
    },
    /// Add a remote cluster with all tenants and applications
    #[command(after_help = addition_examples("env"))]
    AddRemote(AddRemote),
    /// Remove a cluster's directories; HUB/NAME removes a remote cluster
    #[command(after_help = removal_examples("env"))]
    RemoveCluster(RemoveCluster),
}

/// Runs the subcommands of `driftless env`.
pub async fn run_env(args: EnvArgs) -> Result<(), Error> {
    let (mut checkout, api) = args.common.open()?;
    let mut next = Vec::new();
    match args.command {
        Env::Init { name, repo } => environment_changes::init(&mut checkout, api, &name, repo)?,
        Env::AddCluster { name, hub } => {
            environment_changes::add_cluster(&mut checkout, api, &name)?;
            match hub.apply() {
                true => {
                    let new = environment_changes::objects(&checkout, &name)?;
                    hub.add(&new, args.common.dry_run).await?;
                }
                false => {
                    next = follow_commands::of_environment(&checkout, &args.common.dir, &name)?;
                }
            }
        }
        Env::AddRemote(remote) => {
            let secrets =
                environment_changes::add_remote(&mut checkout, api, &remote.hub, &remote.name)?;
            remote
                .give_kubeconfig(&mut checkout, api, &secrets, args.common.dry_run)
                .await?;
        }
        Env::RemoveCluster(RemoveCluster { name, hub }) => {
            let old = environment_changes::objects(&checkout, &name)?;
            environment_changes::remove_cluster(&mut checkout, &name)?;
            hub.remove(&old, args.common.dry_run).await?;
            next = follow_commands::of_removal(&hub, &old);
        }
    }
    args.common.finish(&checkout, &next)
}
