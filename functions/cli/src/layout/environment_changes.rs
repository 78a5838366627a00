//! The changes of environments and their clusters.

use super::checkout::{Checkout, ENV_NAME};
use super::environment::{Environment, SYNC, hubs, not_found, remotes};
use super::hub::ClusterObjects;
use super::kubeconfig::SecretPlace;
use super::manifests::{Api, namespace};
use super::resources::{self, kustomization};
use super::source::Source;
use super::tenant::{self, TenantCluster};
use crate::error::Error;
use driftless_core::bootstrap::Root;
use std::iter;

/// Makes the branch an environment.
///
/// # Errors
/// Fails if no URL is given, and none is known.
pub fn init(
    checkout: &mut Checkout,
    api: Api,
    name: &str,
    repo: Option<String>,
) -> Result<(), Error> {
    let url = match (repo, Environment::url(checkout)?) {
        (Some(url), _) | (None, Some(url)) => url,
        (None, None) => {
            return Err(Error::usage(format!(
                "--repo is required: {SYNC} has no GitRepository with a URL"
            )));
        }
    };
    let environment = Environment::named(name);
    let space = environment.namespace();
    let source = Source {
        name: &space,
        namespace: &space,
        url: &url,
        branch: name,
    };
    let before = checkout.text(ENV_NAME)?;
    let before = before.as_deref().map(str::trim);
    if before != Some(name) {
        // All environments read the same repository: the login, the interval and the other fields
        // stay.
        let sync = match (before, checkout.text(SYNC)?) {
            (Some(before), Some(text)) => {
                let earlier = Environment::named(before).namespace();
                Some(source.renamed(SYNC, &text, &earlier)?)
            }
            _ => None,
        };
        for directory in ["clusters", "infra", "tenants"] {
            checkout.remove_directory(directory);
        }
        checkout.put(ENV_NAME, format!("{name}\n"));
        if let Some(sync) = sync {
            checkout.put(SYNC, sync);
        }
    }
    source.put(checkout, api, SYNC)?;
    checkout.add("clusters/base/namespace.yaml", namespace(&space));
    let base = kustomization(&["namespace.yaml", "sync.yaml"]);
    resources::create(checkout, "clusters/base", base)?;
    resources::create(checkout, "infra/base", kustomization(&[]))
}

/// Adds a hub.
///
/// # Errors
/// Fails if the branch is not an environment, and for files that cannot be edited.
pub fn add_cluster(checkout: &mut Checkout, api: Api, hub: &str) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    let space = environment.namespace();
    let directory = format!("clusters/{hub}");
    let infra = api.fleet(
        "infrastructure",
        &space,
        "10m0s",
        &format!("./infra/{hub}"),
        None,
    );
    let tenants = api.fleet("tenants", &space, "5m", &format!("./tenants/{hub}"), None);
    let list = kustomization(&["../base", "infra.yaml", "tenants.yaml"]);
    checkout.add(format!("{directory}/infra.yaml"), infra);
    checkout.add(format!("{directory}/tenants.yaml"), tenants);
    let list = format!("{list}namespace: {space}\n");
    resources::create(checkout, &directory, list)?;
    let base = kustomization(&["../base"]);
    resources::create(checkout, &format!("infra/{hub}"), base)?;
    resources::create(checkout, &format!("tenants/{hub}"), kustomization(&[]))?;
    for name in checkout.directories("tenants/base") {
        tenant::overlay(checkout, api, &environment, TenantCluster::hub(hub), &name)?;
    }
    Ok(())
}

/// Returns the objects of a cluster, or of the remote cluster `HUB/NAME`, and the root with which a
/// hub follows the environment in addition to other roots.
///
/// # Errors
/// Fails if the branch is not an environment, and with the errors of the build.
pub fn objects(checkout: &Checkout, name: &str) -> Result<ClusterObjects, Error> {
    let environment = Environment::of(checkout)?;
    let path = format!("clusters/{name}");
    let objects = checkout.build_existing(&path)?;
    let root = Root {
        name: environment.namespace(),
        url: Environment::url(checkout)?.unwrap_or_default(),
        branch: environment.name().to_owned(),
        path,
        secret: None,
    };
    let root = (!name.contains('/')).then_some(root);
    let tenants = checkout.directories("tenants/base");
    let tenants = tenants.iter().map(|tenant| environment.of_tenant(tenant));
    let spaces: Vec<String> = iter::once(environment.namespace()).chain(tenants).collect();
    Ok(ClusterObjects {
        root,
        objects,
        kubeconfigs: kubeconfigs(checkout, name, &spaces),
    })
}

/// Returns the namespaces and names of the Secrets with the kubeconfig of a remote cluster, or of
/// all remote clusters of a hub, without those that are plain in Git, which are pruned.
pub fn kubeconfigs(checkout: &Checkout, name: &str, spaces: &[String]) -> Vec<(String, String)> {
    let remotes: Vec<(&str, String)> = match name.split_once('/') {
        Some((hub, remote)) => vec![(hub, remote.to_owned())],
        None => remotes(checkout, name)
            .into_iter()
            .map(|remote| (name, remote))
            .collect(),
    };
    let is_plain = |(hub, remote): &&(&str, String)| {
        checkout.has(&format!("clusters/{hub}/{remote}/kubeconfig.yaml"))
    };
    let remotes = remotes.iter().filter(|one| !is_plain(one));
    let secrets = remotes.flat_map(|(_, remote)| {
        spaces
            .iter()
            .map(move |space| (space.clone(), format!("{remote}-kubeconfig")))
    });
    secrets.collect()
}

/// Adds a remote cluster. Returns the places of the Secret with its kubeconfig.
///
/// # Errors
/// Fails if the branch is not an environment or the hub is not known, and for files that cannot be
/// edited.
pub fn add_remote(
    checkout: &mut Checkout,
    api: Api,
    hub: &str,
    remote: &str,
) -> Result<Vec<SecretPlace>, Error> {
    let environment = Environment::of(checkout)?;
    let space = environment.namespace();
    let directory = infrastructure(checkout, api, hub, remote, &space)?;
    let tenants = format!("tenants/{hub}/clusters/{remote}");
    let path = format!("./{tenants}");
    let name = format!("{remote}-tenants");
    let object = api.fleet(&name, &space, "5m", &path, None);
    checkout.add(format!("{directory}/tenants.yaml"), object);
    let list = kustomization(&["infra.yaml", "tenants.yaml"]);
    let list = format!("{list}namespace: {space}\n");
    resources::create(checkout, &directory, list)?;
    // The scripts apply this directory with kubectl; here the hub follows it.
    resources::list_remote(checkout, hub, remote)?;
    resources::create(checkout, &tenants, kustomization(&[]))?;
    let mut secrets = vec![SecretPlace {
        namespace: space,
        directory,
    }];
    for name in checkout.directories("tenants/base") {
        let place = TenantCluster {
            hub,
            remote: Some(remote),
        };
        tenant::overlay(checkout, api, &environment, place, &name)?;
        tenant::access(checkout, hub, remote, &name)?;
        secrets.push(SecretPlace {
            namespace: environment.of_tenant(&name),
            directory: format!("{tenants}/{name}"),
        });
    }
    Ok(secrets)
}

/// Adds the infrastructure of a remote cluster. Returns the directory with its Kustomization.
///
/// # Errors
/// Fails if the hub is not known or has the name of the remote cluster, and for files that cannot
/// be edited.
pub fn infrastructure(
    checkout: &mut Checkout,
    api: Api,
    hub: &str,
    remote: &str,
    space: &str,
) -> Result<String, Error> {
    check_hub(checkout, hub)?;
    if hub == remote {
        return Err(Error::usage(format!(
            "the remote cluster cannot have the name of its hub, '{hub}': their directories would be the same for the applications"
        ))
        .next("give the remote cluster another name"));
    }
    let directory = format!("clusters/{hub}/{remote}");
    let path = format!("infra/{hub}/clusters/{remote}");
    let name = format!("{remote}-infrastructure");
    let object = api.fleet(&name, space, "10m0s", &format!("./{path}"), Some(remote));
    checkout.add(format!("{directory}/infra.yaml"), object);
    resources::create(checkout, &path, kustomization(&["../../../base"]))?;
    Ok(directory)
}

/// Removes a hub, or the remote cluster `HUB/NAME`.
///
/// # Errors
/// Fails if the branch is not an environment or the cluster is not known, and for files that cannot
/// be edited.
pub fn remove_cluster(checkout: &mut Checkout, name: &str) -> Result<(), Error> {
    Environment::of(checkout)?;
    remove(checkout, name, &["clusters", "infra", "tenants"])
}

/// Removes a cluster's directories.
///
/// # Errors
/// Fails if the cluster is not known, and for files that cannot be edited.
pub fn remove(checkout: &mut Checkout, name: &str, tops: &[&str]) -> Result<(), Error> {
    let mut found = false;
    for top in tops {
        let directory = match name.split_once('/') {
            Some((hub, remote)) if *top != "clusters" => format!("{top}/{hub}/clusters/{remote}"),
            _ => format!("{top}/{name}"),
        };
        found |= checkout.remove_directory(&directory);
    }
    let remote = name.split_once('/');
    if let Some((hub, remote)) = remote {
        found |= resources::remove(checkout, &format!("clusters/{hub}"), remote)?;
    }
    if found {
        return Ok(());
    }
    let Some((hub, _)) = remote else {
        return Err(not_found("cluster", name, "hubs", hubs(checkout)));
    };
    check_hub(checkout, hub)?;
    let list = format!("remote clusters of {hub}");
    Err(not_found(
        "remote cluster",
        name,
        &list,
        remotes(checkout, hub),
    ))
}

/// Checks that a hub exists.
///
/// # Errors
/// Fails if it does not.
fn check_hub(checkout: &Checkout, hub: &str) -> Result<(), Error> {
    let hubs = hubs(checkout);
    if hubs.contains(hub) {
        return Ok(());
    }
    let next = format!("correct the name, or add the hub first with add-cluster {hub}");
    Err(not_found("hub", hub, "hubs", hubs).next(next))
}
