//! What a command changes on the hub in addition to the checkout, with `--apply`: the root of a new
//! cluster and its objects, and their removal. The repository's scripts do the same with `flux
//! bootstrap` and `kubectl apply`.

use crate::error::Error;
use crate::hub::{Connection, resource};
use crate::root::report_changes;
use crate::term;
use driftless_adapters::local::SystemClock;
use driftless_core::bootstrap::{self, Root};
use driftless_flux::{FLUX_SYSTEM, FluxKind, ObjectRef, parse_duration};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Cluster, Deleted, Patch};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// The field manager of what the scripts apply with kubectl. A Kustomization takes over the fields
/// of this manager, so that it can remove them later.
const KUBECTL: &str = "kubectl";
/// The interval between two reads of an object that is being deleted.
const POLL: Duration = Duration::from_secs(1);

/// The flags for the hub.
#[derive(clap::Args)]
pub struct HubFlags {
    /// Change the hub as well, before the files are written: the repository's scripts do it with
    /// flux and kubectl
    #[arg(long)]
    apply: bool,
    /// The hub's kubeconfig file, for --apply [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "apply")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context, for --apply
    #[arg(long, value_name = "NAME", requires = "apply")]
    context: Option<String>,
}

/// The flags for the removal of objects from the hub.
#[derive(clap::Args)]
pub struct RemovalFlags {
    #[command(flatten)]
    pub hub: HubFlags,
    /// The time to wait for the deletion of an object, for --apply
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub timeout: Duration,
}

/// The objects of a cluster's directory, and the root that applies the directory.
pub struct ClusterObjects {
    /// The root; `None` if the root of the hub applies the directory.
    pub root: Option<Root>,
    /// The objects of the directory.
    pub objects: Vec<Object>,
    /// The namespaces and names of the Secrets with kubeconfigs that Git does not have, or has
    /// encrypted: no Kustomization prunes them.
    pub kubeconfigs: Vec<(String, String)>,
}

impl ClusterObjects {
    /// Returns the Kustomizations in the order in which they are deleted: those of remote clusters
    /// before the kubeconfigs and the tenants' namespaces on the hub, which they need.
    pub fn syncs(&self) -> Vec<&Object> {
        let rank = |sync: &&Object| {
            let path = plain(path_of(sync));
            let of_remote = path.contains("/clusters/");
            match path.split('/').next() {
                Some("tenants") if of_remote => 0,
                Some("infra") if of_remote => 1,
                Some("clusters") => 2,
                Some("tenants") => 3,
                _ => 4,
            }
        };
        let mut syncs: Vec<&Object> = self.objects.iter().filter(|one| is_sync(one)).collect();
        syncs.sort_by_key(rank);
        syncs
    }
}

impl HubFlags {
    /// Returns true with `--apply`.
    pub fn apply(&self) -> bool {
        self.apply
    }

    async fn connect(&self) -> Result<Hub, Error> {
        let connection = Connection {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        connection.connect().await.map_err(|mut error| {
            error.message = format!("connect to the hub: {}", error.message);
            match error.next {
                Some(_) => error,
                None => error.next(
                    "choose the hub with --kubeconfig and --context, or leave --apply out: the commands to run are then printed",
                ),
            }
        })
    }

    /// Installs Flux's definitions on the hub, makes it follow the root, and applies the objects. A
    /// dry run only prints their names, and connects to no hub.
    ///
    /// # Errors
    /// Fails with the errors of the cluster, and if the hub has another root of this name.
    pub async fn add(&self, new: &ClusterObjects, dry_run: bool) -> Result<(), Error> {
        if !self.apply {
            return Ok(());
        }
        if dry_run {
            let root = new.root.iter().map(|root| &root.name);
            for root in root {
                term::success(&format!(
                    "GitRepository/{root}/{root} and Kustomization/{root}/{root} would be created on the hub"
                ));
            }
            for object in &new.objects {
                term::success(&format!("{} would be applied to the hub", name(object)));
            }
            return Ok(());
        }
        let hub = self.connect().await?;
        let cluster = hub.cluster.as_ref();
        report_changes(&bootstrap::install(cluster, &SystemClock).await?);
        if let Some(root) = &new.root {
            follow(cluster, root).await?;
        }
        apply_all(cluster, &new.objects).await?;
        missing_logins(cluster, &new.objects).await?;
        term::action(&format!(
            "{} is reconciled by driftless serve, or by the installation in which driftless bootstrap --name registered it",
            hub.access.server
        ));
        Ok(())
    }
}

/// Creates a root on the hub.
async fn follow(cluster: &dyn Cluster, root: &Root) -> Result<(), Error> {
    let name = &root.name;
    if let Some(other) = bootstrap::same_root(cluster, root).await? {
        return Err(Error::new(format!(
            "the root '{other}' of the hub already applies {}",
            root.path
        ))
        .next("leave --apply out: nothing has to be applied"));
    }
    let report = bootstrap::create_root(cluster, root).await?;
    report_changes(&report);
    if report.different.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!(
        "the hub already follows another root of the name {name}: {}",
        report.different.join("; ")
    ))
    .next("choose the cluster's own hub with --context, or delete the objects that differ"))
}

/// Applies objects as kubectl does, namespaces first.
///
/// # Errors
/// Fails with the errors of the cluster.
pub async fn apply_all(cluster: &dyn Cluster, objects: &[Object]) -> Result<(), Error> {
    let applier = Applier::new(cluster, Strategy::forcing(KUBECTL));
    let (first, rest): (Vec<_>, Vec<_>) = objects
        .iter()
        .partition(|object| object.kind() == "Namespace");
    for object in first.into_iter().chain(rest) {
        let resource = resource(cluster, &object.gvk()).await?;
        applier.apply(&resource, object).await?;
        term::success(&format!("applied {}", name(object)));
    }
    Ok(())
}

/// Prints which Secrets with logins the sources need and do not have.
async fn missing_logins(cluster: &dyn Cluster, objects: &[Object]) -> Result<(), Error> {
    let secrets = resource(cluster, &Gvk::new("v1", "Secret")).await?;
    for source in objects {
        let secret = source.pointer("/spec/secretRef/name");
        let Some(secret) = secret.and_then(|name| name.as_str()) else {
            continue;
        };
        let namespace = source.namespace();
        if source.kind() == "GitRepository"
            && cluster.get(&secrets, namespace, secret).await?.is_none()
        {
            let url = source.pointer("/spec/url").and_then(|url| url.as_str());
            term::action(&format!(
                "{} needs its login:\n    driftless create secret git {secret} -n {namespace} --url {} ...",
                name(source),
                url.unwrap_or("URL")
            ));
        }
    }
    Ok(())
}

impl RemovalFlags {
    /// Deletes the root of a removed cluster and the objects of its directory from the hub.
    /// Kustomizations go first and prune what they applied; the namespace with the logins that they
    /// need for that goes last. A dry run only prints the names, and connects to no hub.
    ///
    /// # Errors
    /// Fails with the errors of the cluster, if the objects are those of another cluster, and if an
    /// object is not deleted in time.
    pub async fn remove(&self, old: &ClusterObjects, dry_run: bool) -> Result<(), Error> {
        if !self.hub.apply {
            return Ok(());
        }
        if dry_run {
            for object in &old.objects {
                term::success(&format!("{} would be deleted from the hub", name(object)));
            }
            return Ok(());
        }
        let hub = self.hub.connect().await?;
        let cluster = hub.cluster.as_ref();
        let syncs = old.syncs();
        let rest: Vec<&Object> = old.objects.iter().filter(|one| !is_sync(one)).collect();
        for sync in &syncs {
            if let Some(live) = live(cluster, sync).await? {
                check_path(&hub, &live, path_of(sync))?;
            }
        }
        match &old.root {
            Some(root) => self.remove_root(&hub, root).await?,
            None => refuse_with_root(cluster, &syncs).await?,
        }
        for sync in &syncs {
            self.delete_sync(cluster, sync).await?;
        }
        // Flux's own namespace has the identities of the hub's other roots.
        let is_shared =
            |object: &Object| object.kind() == "Namespace" && object.name() == FLUX_SYSTEM;
        for object in rest.iter().rev().filter(|object| !is_shared(object)) {
            delete(cluster, object).await?;
        }
        for (namespace, name) in &old.kubeconfigs {
            let secret = json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": namespace}});
            delete(cluster, &Object::new(secret).map_err(Error::caused_by)?).await?;
        }
        if let Some(root) = &old.root
            && root.name != FLUX_SYSTEM
        {
            let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": bootstrap::role_binding(&root.name)}});
            delete(cluster, &Object::new(binding).map_err(Error::caused_by)?).await?;
        }
        Ok(())
    }

    /// Deletes the Kustomization and the GitRepository of a root. The Kustomization prunes nothing:
    /// it would delete its own namespace with the logins before the Kustomizations that need them.
    async fn remove_root(&self, hub: &Hub, root: &Root) -> Result<(), Error> {
        let cluster = hub.cluster.as_ref();
        let id = ObjectRef::new(FluxKind::Kustomization, &*root.name, &*root.name);
        let Some(live) = hub.get(&id).await? else {
            return Ok(());
        };
        check_path(hub, &live, &root.path)?;
        let kinds = resource(cluster, &live.gvk()).await?;
        let keep = Patch::Merge(json!({"spec": {"prune": false, "suspend": false}}));
        let applier = Applier::new(cluster, Strategy::forcing(KUBECTL));
        applier.patch(&kinds, &live, &keep).await?;
        self.delete_sync(cluster, &live).await?;
        let source = ObjectRef::new(FluxKind::GitRepository, &*root.name, &*root.name);
        if let Some(source) = hub.get(&source).await? {
            // The objects of the directory are pruned from their inventories: they need no source.
            delete(cluster, &source).await?;
        }
        Ok(())
    }

    /// Deletes a Kustomization, and waits until it and the Kustomizations that it applied are gone.
    async fn delete_sync(&self, cluster: &dyn Cluster, sync: &Object) -> Result<(), Error> {
        let Some(live) = live(cluster, sync).await? else {
            return Ok(());
        };
        delete(cluster, &live).await?;
        self.wait(cluster, &live).await?;
        for (namespace, name) in children(&live) {
            let child = json!({"apiVersion": live.api_version(), "kind": live.kind(),
                "metadata": {"name": name, "namespace": namespace}});
            self.wait(cluster, &Object::new(child).map_err(Error::caused_by)?)
                .await?;
        }
        Ok(())
    }

    /// Waits until an object is gone.
    async fn wait(&self, cluster: &dyn Cluster, object: &Object) -> Result<(), Error> {
        let end = Instant::now() + self.timeout;
        while live(cluster, object).await?.is_some() {
            if Instant::now() >= end {
                return Err(Error::new(format!(
                    "{} is marked for deletion, and still exists after {} s",
                    name(object),
                    self.timeout.as_secs()
                ))
                .next("check that the hub is served (driftless get kustomizations -A), and run the command again: no file was changed"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

/// Checks that a live Kustomization applies the removed directory, and not that of another cluster.
fn check_path(hub: &Hub, live: &Object, expected: &str) -> Result<(), Error> {
    let path = path_of(live);
    if plain(path) == plain(expected) {
        return Ok(());
    }
    Err(Error::new(format!(
        "{} of {} applies {}, not {}",
        name(live),
        hub.access.server,
        path,
        expected
    ))
    .next("choose the cluster's own hub with --kubeconfig and --context"))
}

/// Returns the directory that a Kustomization applies.
fn path_of(sync: &Object) -> &str {
    let path = sync.pointer("/spec/path").and_then(Value::as_str);
    path.unwrap_or("./")
}

/// Reads the live object of an object; `None` if it does not exist.
async fn live(cluster: &dyn Cluster, object: &Object) -> Result<Option<Object>, Error> {
    let kind = resource(cluster, &object.gvk()).await?;
    let live = cluster.get(&kind, object.namespace(), object.name()).await;
    Ok(live?)
}

/// Refuses to delete objects that the root of the hub would create again.
async fn refuse_with_root(cluster: &dyn Cluster, syncs: &[&Object]) -> Result<(), Error> {
    let roots = bootstrap::roots(cluster).await?;
    let root = syncs
        .iter()
        .find(|sync| roots.contains_key(sync.namespace()));
    match root {
        None => Ok(()),
        Some(sync) => Err(Error::new(format!(
            "the root '{}' of the hub applies the directory of the remote cluster, and would create the objects again",
            sync.namespace()
        ))
        .next("leave --apply out, commit and push: the root prunes the objects")),
    }
}

/// Returns the namespaces and names of the Kustomizations that a Kustomization prunes.
fn children(sync: &Object) -> Vec<(String, String)> {
    let prunes = sync.pointer("/spec/prune").and_then(Value::as_bool);
    let entries = sync.pointer("/status/inventory/entries");
    let entries = entries
        .and_then(Value::as_array)
        .filter(|_| prunes == Some(true));
    let ids = entries.into_iter().flatten();
    let ids = ids.filter_map(|entry| entry["id"].as_str());
    let group = FluxKind::Kustomization.group();
    ids.filter_map(|id| {
        let parts: Vec<&str> = id.split('_').collect();
        match parts.as_slice() {
            [namespace, name, found, "Kustomization"] if *found == group => {
                Some(((*namespace).to_owned(), (*name).to_owned()))
            }
            _ => None,
        }
    })
    .collect()
}

fn is_sync(object: &Object) -> bool {
    object.kind() == "Kustomization" && object.gvk().group == FluxKind::Kustomization.group()
}

/// Returns a path without its optional parts.
fn plain(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}

/// Deletes an object, if it exists.
async fn delete(cluster: &dyn Cluster, object: &Object) -> Result<(), Error> {
    let Some(live) = live(cluster, object).await? else {
        return Ok(());
    };
    let kind = resource(cluster, &object.gvk()).await?;
    let applier = Applier::new(cluster, Strategy::forcing(KUBECTL));
    match applier
        .delete(&kind, &live, "Background", &|_| true)
        .await?
    {
        Deleted::Gone => term::success(&format!("deleted {}", name(object))),
        Deleted::Pending => term::waiting(&format!("{} is being deleted", name(object))),
    }
    Ok(())
}

/// Returns the name of an object in messages.
pub fn name(object: &Object) -> String {
    let parts = [object.kind(), object.namespace(), object.name()];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("/")
}
