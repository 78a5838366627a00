//! `driftless fleet`.

use super::follow_commands;
use super::hub::{ClusterObjects, HubFlags};
use super::{
    AddRemote, Common, RemoveCluster, addition_examples, cluster, manifests, name, provision,
    removal_examples,
};
use crate::error::{EXIT_CODES, Error};
use clap::Subcommand;

/// Add and remove clusters of a fleet, on the branch that all environments share
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  driftless fleet add-cluster east-aks --apply --context east-aks
  driftless fleet add-cluster store-42 --group stores   # a group shares its directories
  driftless fleet add-remote east-aks edge-1 --kubeconfig edge-1.conf --apply
  driftless fleet provision east-aks/edge-2 --provider capa --region eu-west-1
  driftless fleet remove-cluster east-aks --dry-run

{EXIT_CODES}"))]
pub struct FleetArgs {
    #[command(subcommand)]
    command: Fleet,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum Fleet {
    /// Add the directories of a cluster: clusters/NAME and infra/NAME
    #[command(after_help = "Examples:
  driftless fleet add-cluster east-aks
  driftless fleet add-cluster east-aks --apply --context east-aks
  driftless fleet add-cluster store-42 --group stores")]
    AddCluster {
        /// The cluster's name
        #[arg(value_parser = name)]
        name: String,
        /// The group whose directories the cluster uses instead of its own
        #[arg(long, value_parser = name)]
        group: Option<String>,
        /// The fleet repository's URL [default: that of the clone's remote origin]
        #[arg(long, value_name = "URL", value_parser = manifests::url)]
        repo: Option<String>,
        /// The branch that all environments share
        #[arg(long, default_value = "main", value_parser = manifests::branch)]
        branch: String,
        #[command(flatten)]
        hub: HubFlags,
    },
    /// Add a remote cluster, to which objects of a hub are applied: clusters/HUB/NAME and
    /// infra/HUB/clusters/NAME
    #[command(after_help = addition_examples("fleet"))]
    AddRemote(AddRemote),
    /// Add a remote cluster that Kamaji or Cluster API creates: its objects, and the name of the
    /// Secret with its kubeconfig, for which the hub waits
    #[command(after_help = "Examples:
  driftless fleet provision east-aks/tenant-1 --provider kamaji
  driftless fleet provision east-aks/edge-1 --provider capz --region westeurope --subscription ID
  driftless fleet provision east-aks/edge-2 --provider capa --region eu-west-1 --replicas 3
  driftless fleet provision edge-3 --provider docker --dry-run")]
    Provision(provision::Args),
    /// Remove a cluster's directories; HUB/NAME removes a remote cluster
    #[command(after_help = removal_examples("fleet"))]
    RemoveCluster(RemoveCluster),
}

/// Runs the subcommands of `driftless fleet`.
pub async fn run_fleet(args: FleetArgs) -> Result<(), Error> {
    let dir = args.common.dir.clone();
    let (mut checkout, api) = args.common.open()?;
    let mut next = Vec::new();
    match args.command {
        Fleet::AddCluster {
            name,
            group,
            repo,
            branch,
            hub,
        } => {
            let directory = group.as_ref().unwrap_or(&name);
            cluster::add(&mut checkout, api, directory)?;
            let url = repo.or_else(|| driftless_fleet::origin_of(&dir));
            match hub.apply() {
                true => {
                    let root = cluster::root(url, branch, directory)?;
                    let new = ClusterObjects {
                        objects: checkout.build(&root.path)?,
                        root: Some(root),
                        kubeconfigs: Vec::new(),
                    };
                    hub.add(&new, args.common.dry_run).await?;
                }
                false => next = follow_commands::of_shared(url, &branch, directory),
            }
        }
        Fleet::AddRemote(remote) => {
            let secrets = cluster::add_remote(&mut checkout, api, &remote.hub, &remote.name)?;
            remote
                .give_kubeconfig(&mut checkout, api, &secrets, args.common.dry_run)
                .await?;
        }
        Fleet::Provision(cluster) => cluster.write(&mut checkout, api)?,
        Fleet::RemoveCluster(RemoveCluster { name, hub }) => {
            let old = cluster::objects(&checkout, &name)?;
            cluster::remove(&mut checkout, &name)?;
            hub.remove(&old, args.common.dry_run).await?;
            next = follow_commands::of_removal(&hub, &old);
        }
    }
    args.common.finish(&checkout, &next)
}
