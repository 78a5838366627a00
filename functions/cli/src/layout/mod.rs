//! Commands that edit the checkout of a fleet repository in which an environment is a branch:
//! clusters, remote clusters, tenants, applications and releases.
//!
//! Directories, files and objects are those of the scripts of microsoft/multicluster-gitops
//! (utils/*.sh, commit 644821b), in the newest API versions, or with `--api-compat` in those of the
//! scripts. With `--apply` the hub is also changed, as the scripts do with flux and kubectl, and as
//! a root in addition to others ([`hub`]); without it the commands to run are printed. Intentional
//! differences: an environment's source follows the branch of its name (the script's follows
//! `ENV-flux-system`); the kustomization of a hub lists its remote clusters, whose directories the
//! script applies with kubectl; the namespace in the directory of a remote cluster is the
//! environment's (the script's is always `dev-flux-system`); `infra/base` has a kustomization from
//! the start; adding a remote cluster does not change the infrastructure of its hub; the
//! infrastructure of a remote cluster has the namespaces and service accounts of the tenants, as
//! which their Kustomizations act there.

mod checkout;
mod cluster;
mod edit;
mod encrypted;
mod environment;
mod environment_changes;
mod follow_commands;
mod hub;
mod kubeconfig;
mod manifests;
mod provision;
mod resources;
mod source;
mod tenant;

use crate::error::{EXIT_CODES, Error};
use crate::output::{self, TextOrJson};
use crate::term;
use checkout::{Change, Checkout};
use clap::Subcommand;
use driftless_flux::{FLUX_SYSTEM, Invalid};
use driftless_manifest::names;
use encrypted::Remote;
use follow_commands::Next;
use hub::{ClusterObjects, HubFlags, RemovalFlags};
use kubeconfig::{Kubeconfig, SecretPlace};
use manifests::Api;
use serde_json::json;
use std::path::PathBuf;

/// The flags of all commands of this module.
#[derive(clap::Args)]
struct Common {
    /// The checkout
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print the changes as a diff, and write nothing
    #[arg(long, global = true)]
    dry_run: bool,
    /// Write the API versions of the scripts of microsoft/multicluster-gitops (v1beta1), for Flux
    /// before 2.0
    #[arg(long, global = true)]
    api_compat: bool,
    /// The output format of the list of changes
    #[arg(short, long, global = true, value_enum, default_value_t = TextOrJson::Text)]
    output: TextOrJson,
}

/// The arguments of `add-remote`.
#[derive(clap::Args)]
struct AddRemote {
    /// The hub
    #[arg(value_parser = name)]
    hub: String,
    /// The remote cluster's name
    #[arg(value_parser = name)]
    name: String,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

impl AddRemote {
    /// Writes, applies or stores the kubeconfig of the remote cluster.
    async fn give_kubeconfig(
        &self,
        checkout: &mut Checkout,
        api: Api,
        places: &[SecretPlace],
        dry_run: bool,
    ) -> Result<(), Error> {
        let remote = Remote {
            hub: &self.hub,
            name: &self.name,
            directory: &format!("clusters/{}/{}", self.hub, self.name),
        };
        let unapplied = self.kubeconfig.write(checkout, api, remote, places)?;
        unapplied.apply(dry_run).await
    }
}

/// The arguments of `remove-cluster`.
#[derive(clap::Args)]
struct RemoveCluster {
    /// NAME of a cluster, or HUB/NAME of a remote cluster
    #[arg(value_parser = cluster_name)]
    name: String,
    #[command(flatten)]
    hub: RemovalFlags,
}

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
    #[command(after_help = "Examples:
  driftless fleet add-remote east-aks edge-1 --kubeconfig edge-1.conf --apply
  driftless fleet add-remote east-aks edge-1 --kubeconfig edge-1.conf --sops age1...
  driftless fleet add-remote east-aks edge-1 --kubeconfig edge-1.conf --secret-manager")]
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
    #[command(after_help = "Examples:
  driftless fleet remove-cluster east-aks --dry-run
  driftless fleet remove-cluster east-aks --apply --context east-aks
  driftless fleet remove-cluster east-aks/edge-1")]
    RemoveCluster(RemoveCluster),
}

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
    #[command(after_help = "Examples:
  driftless env add-remote east-aks edge-1 --kubeconfig edge-1.conf --apply
  driftless env add-remote east-aks edge-1 --kubeconfig edge-1.conf --sops age1...
  driftless env add-remote east-aks edge-1 --kubeconfig edge-1.conf --secret-manager")]
    AddRemote(AddRemote),
    /// Remove a cluster's directories; HUB/NAME removes a remote cluster
    #[command(after_help = "Examples:
  driftless env remove-cluster east-aks --dry-run
  driftless env remove-cluster east-aks --apply --context east-aks
  driftless env remove-cluster east-aks/edge-1")]
    RemoveCluster(RemoveCluster),
}

/// Add tenants to an environment
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  driftless tenant add shop --repo https://github.com/acme/shop-manifests --branch dev

{EXIT_CODES}"))]
pub struct TenantArgs {
    #[command(subcommand)]
    command: Tenant,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum Tenant {
    /// Add a tenant to every cluster of the environment
    #[command(after_help = "Examples:
  driftless tenant add shop --repo https://github.com/acme/shop-manifests --branch dev")]
    Add {
        /// The tenant's name
        #[arg(value_parser = name)]
        name: String,
        /// The URL of the repository with the tenant's manifests
        #[arg(long, value_name = "URL", value_parser = manifests::url)]
        repo: String,
        /// The branch of the tenant's repository for this environment
        #[arg(long, value_parser = manifests::branch)]
        branch: String,
    },
}

/// Add applications of a tenant to an environment
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  driftless app add shop cart

{EXIT_CODES}"))]
pub struct AppArgs {
    #[command(subcommand)]
    command: App,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum App {
    /// Add an application to every cluster of the environment. Its manifests are in APP/CLUSTER of
    /// the tenant's repository
    #[command(after_help = "Examples:
  driftless app add shop cart")]
    Add {
        /// The tenant
        #[arg(value_parser = name)]
        tenant: String,
        /// The application's name
        #[arg(value_parser = name)]
        name: String,
    },
}

/// Add release environments of a tenant, in addition to the environment itself
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  driftless release-env add shop 1-0-x --repo https://github.com/acme/shop-manifests \\
    --branch release/1-0-x/dev

{EXIT_CODES}"))]
pub struct ReleaseEnvArgs {
    #[command(subcommand)]
    command: ReleaseEnv,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum ReleaseEnv {
    /// Add a release environment with the tenant's applications, in the namespace ENV-NAME-TENANT
    #[command(after_help = "Examples:
  driftless release-env add shop 1-0-x --repo https://github.com/acme/shop-manifests \\
    --branch release/1-0-x/dev")]
    Add {
        /// The tenant
        #[arg(value_parser = name)]
        tenant: String,
        /// The release's name
        #[arg(value_parser = name)]
        name: String,
        /// The URL of the repository with the tenant's manifests
        #[arg(long, value_name = "URL", value_parser = manifests::url)]
        repo: String,
        /// The branch of the tenant's repository for this release
        #[arg(long, value_parser = manifests::branch)]
        branch: String,
    },
}

/// The reserved names of directories of the layout.
const DIRECTORIES: [&str; 3] = ["base", "clusters", "releases"];

/// Parses the name of a cluster, tenant, application or environment, which becomes a part of
/// namespaces.
fn name(text: &str) -> Result<String, Invalid> {
    if DIRECTORIES.contains(&text) {
        return Err(format!("'{text}' is a directory of the layout").into());
    }
    if text == FLUX_SYSTEM {
        return Err(format!(
            "'{text}' is the name of Flux's own directory, and of the environment's own namespace"
        )
        .into());
    }
    match names::label(text).as_slice() {
        [] => Ok(text.to_owned()),
        problems => Err(problems.join("; ").into()),
    }
}

fn cluster_name(text: &str) -> Result<String, Invalid> {
    match text.split_once('/') {
        Some((hub, remote)) => Ok(format!("{}/{}", name(hub)?, name(remote)?)),
        None => name(text),
    }
}

/// Runs the subcommands of `driftless fleet`.
pub async fn fleet(args: FleetArgs) -> Result<(), Error> {
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

/// Runs the subcommands of `driftless env`.
pub async fn env(args: EnvArgs) -> Result<(), Error> {
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

/// Runs the subcommands of `driftless tenant`.
pub fn tenant(args: &TenantArgs) -> Result<(), Error> {
    let (mut checkout, api) = args.common.open()?;
    let Tenant::Add { name, repo, branch } = &args.command;
    tenant::add(&mut checkout, api, name, repo, branch)?;
    args.common.finish(&checkout, &[])
}

/// Runs the subcommands of `driftless app`.
pub fn app(args: &AppArgs) -> Result<(), Error> {
    let (mut checkout, api) = args.common.open()?;
    let App::Add { tenant, name } = &args.command;
    tenant::add_app(&mut checkout, api, tenant, name)?;
    args.common.finish(&checkout, &[])
}

/// Runs the subcommands of `driftless release-env`.
pub fn release_env(args: &ReleaseEnvArgs) -> Result<(), Error> {
    let (mut checkout, api) = args.common.open()?;
    let ReleaseEnv::Add {
        tenant,
        name,
        repo,
        branch,
    } = &args.command;
    tenant::add_release(&mut checkout, api, tenant, name, repo, branch)?;
    args.common.finish(&checkout, &[])
}

impl Common {
    fn open(&self) -> Result<(Checkout, Api), Error> {
        Ok((Checkout::read(&self.dir)?, Api::new(self.api_compat)))
    }

    /// Writes the changes, or prints them as a diff, and prints the next steps.
    fn finish(&self, checkout: &Checkout, next: &[Next]) -> Result<(), Error> {
        let changes = checkout.changes();
        if self.dry_run {
            term::result(&changes.iter().map(Change::diff).collect::<String>())?;
        } else {
            checkout.write(&changes)?;
        }
        if self.output == TextOrJson::Json {
            let change = |change: &Change| json!({"file": change.path, "change": change.word()});
            let files: Vec<_> = changes.iter().map(change).collect();
            let step = |next: &Next| json!({"when": next.when, "command": next.command});
            let next: Vec<_> = next.iter().map(step).collect();
            let document =
                json!({"dir": self.dir, "written": !self.dry_run, "files": files, "next": next});
            return output::print_json(&document);
        }
        if changes.is_empty() {
            term::success("nothing to change");
        }
        for change in &changes {
            let would = if self.dry_run { "would be " } else { "" };
            term::success(&format!("{} {would}{}", change.path, change.word()));
        }
        if !changes.is_empty() && !self.dry_run {
            term::action(match next {
                [] => "commit and push: the clusters follow the repository",
                _ => "commit and push, and run the command for your hub",
            });
        }
        if !self.dry_run {
            for Next { when, command } in next {
                term::action(&format!("{when}:\n    {command}"));
            }
        }
        Ok(())
    }
}
