//! The clusters of the fleet, on the branch that all environments share.

use super::checkout::{Checkout, ENV_NAME};
use super::environment_changes;
use super::hub::ClusterObjects;
use super::kubeconfig::SecretPlace;
use super::manifests::Api;
use super::resources::{self, kustomization};
use crate::error::Error;
use driftless_core::bootstrap::Root;
use driftless_flux::FLUX_SYSTEM;

/// Checks that the branch is the one that all environments share.
///
/// # Errors
/// Fails if the branch is an environment.
fn check_shared(checkout: &Checkout) -> Result<(), Error> {
    match checkout.text(ENV_NAME)? {
        None => Ok(()),
        Some(name) => Err(Error::new(format!(
            "the branch is the environment {}, whose clusters are added and removed with driftless env",
            name.trim()
        ))
        .next("switch to the branch that all environments share, such as main")),
    }
}

/// Adds a cluster, or a group of clusters.
///
/// # Errors
/// Fails if the branch is an environment.
pub fn add(checkout: &mut Checkout, api: Api, name: &str) -> Result<(), Error> {
    check_shared(checkout)?;
    let path = format!("./infra/{name}");
    let infra = api.fleet("infrastructure", FLUX_SYSTEM, "10m0s", &path, None);
    checkout.add(format!("clusters/{name}/infra.yaml"), infra);
    resources::create(checkout, "infra/base", kustomization(&[]))?;
    let base = kustomization(&["../base"]);
    resources::create(checkout, &format!("infra/{name}"), base)
}

/// Returns the root of a hub that applies a directory of clusters.
///
/// # Errors
/// Fails without a URL, and for a repository that is read with a login.
pub fn root(url: Option<String>, branch: String, directory: &str) -> Result<Root, Error> {
    let path = format!("clusters/{directory}");
    let Some(url) = url else {
        return Err(Error::usage(
            "--repo is required with --apply: the checkout has no remote origin",
        )
        .next("give --repo URL"));
    };
    if !url.starts_with("https://") {
        return Err(Error::usage(format!(
            "--apply: {url} is read with a login, which this command does not create"
        ))
        .next(format!(
            "give --repo https://HOST/PATH, or run driftless bootstrap git --url {url} --branch {branch} --path {path} without --apply here"
        )));
    }
    Ok(Root {
        name: FLUX_SYSTEM.to_owned(),
        url,
        branch,
        path,
        secret: None,
    })
}

/// Returns the objects of a cluster, or of the remote cluster `HUB/NAME`, and the root of a hub.
///
/// # Errors
/// Fails with the errors of the build.
pub fn objects(checkout: &Checkout, name: &str) -> Result<ClusterObjects, Error> {
    let path = format!("clusters/{name}");
    let objects = checkout.build_existing(&path)?;
    let root = Root {
        name: FLUX_SYSTEM.to_owned(),
        url: String::new(),
        branch: String::new(),
        path,
        secret: None,
    };
    let root = (!name.contains('/')).then_some(root);
    let kubeconfigs = environment_changes::kubeconfigs(checkout, name, &[FLUX_SYSTEM.to_owned()]);
    Ok(ClusterObjects {
        root,
        objects,
        kubeconfigs,
    })
}

/// Adds a remote cluster of a hub. Returns the places of the Secret with its kubeconfig.
///
/// # Errors
/// Fails if the branch is an environment, or the hub is not known.
pub fn add_remote(
    checkout: &mut Checkout,
    api: Api,
    hub: &str,
    remote: &str,
) -> Result<Vec<SecretPlace>, Error> {
    check_shared(checkout)?;
    let directory = environment_changes::infrastructure(checkout, api, hub, remote, FLUX_SYSTEM)?;
    resources::create(checkout, &directory, kustomization(&["infra.yaml"]))?;
    resources::list_remote(checkout, hub, remote)?;
    Ok(vec![SecretPlace {
        namespace: FLUX_SYSTEM.to_owned(),
        directory,
    }])
}

/// Removes a cluster, or the remote cluster `HUB/NAME`.
///
/// # Errors
/// Fails if the branch is an environment or the cluster is not known, and for files that cannot be
/// edited.
pub fn remove(checkout: &mut Checkout, name: &str) -> Result<(), Error> {
    check_shared(checkout)?;
    environment_changes::remove(checkout, name, &["clusters", "infra"])
}
