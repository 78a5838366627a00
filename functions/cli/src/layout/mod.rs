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
mod env_command;
mod environment;
mod environment_changes;
mod fleet_command;
mod follow_commands;
mod hub;
mod kubeconfig;
mod manifests;
mod provision;
mod resources;
mod source;
mod tenant;
mod tenant_commands;

use crate::error::Error;
use crate::output::{self, Output, TextOrJson};
use crate::term;
use checkout::{Change, Checkout};
use driftless_flux::{FLUX_SYSTEM, Invalid};
use driftless_manifest::names;
use encrypted::Remote;
use follow_commands::Next;
use hub::RemovalFlags;
use kubeconfig::{Kubeconfig, SecretPlace};
use manifests::Api;
use serde_json::json;
use std::path::PathBuf;

pub use env_command::{EnvArgs, run_env};
pub use fleet_command::{FleetArgs, run_fleet};
pub use tenant_commands::{
    AppArgs, ReleaseEnvArgs, TenantArgs, run_app, run_release_env, run_tenant,
};

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
    #[command(flatten)]
    output: Output<TextOrJson>,
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

/// Returns the examples of `add-remote` of a command.
fn addition_examples(command: &str) -> String {
    let line = |how: &str| {
        format!("\n  driftless {command} add-remote east-aks edge-1 --kubeconfig edge-1.conf {how}")
    };
    let lines = ["--apply", "--sops age1...", "--secret-manager"].map(line);
    format!("Examples:{}", lines.concat())
}

/// Returns the examples of `remove-cluster` of a command.
fn removal_examples(command: &str) -> String {
    format!(
        "Examples:
  driftless {command} remove-cluster east-aks --dry-run
  driftless {command} remove-cluster east-aks --apply --context east-aks
  driftless {command} remove-cluster east-aks/edge-1"
    )
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
        if self.output.format == TextOrJson::Json {
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
