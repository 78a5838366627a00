//! Clusters of the fleet, on the branch that all environments share.

use super::checkout::{Checkout, ENV_NAME};
use super::environment;
use super::kubeconfig::SecretPlace;
use super::manifests::Api;
use super::resources::{self, At, kustomization};
use crate::error::Error;
use driftless_core::flux::FLUX_SYSTEM;

/// # Errors
/// The branch is an environment.
fn is_shared(checkout: &Checkout) -> Result<(), Error> {
    match checkout.text(ENV_NAME)? {
        None => Ok(()),
        Some(name) => Err(Error::new(format!(
            "the branch is the environment {}, where driftless env adds and removes clusters",
            name.trim()
        ))
        .next("switch to the branch that all environments share, such as main")),
    }
}

/// Adds a cluster, or a group of clusters.
///
/// # Errors
/// The branch is an environment.
pub fn add(checkout: &mut Checkout, api: Api, name: &str) -> Result<(), Error> {
    is_shared(checkout)?;
    let path = format!("./infra/{name}");
    let infra = api.fleet("infrastructure", FLUX_SYSTEM, "10m0s", &path, None);
    checkout.add(format!("clusters/{name}/infra.yaml"), infra);
    checkout.add("infra/base/kustomization.yaml", kustomization(&[]));
    checkout.add(
        format!("infra/{name}/kustomization.yaml"),
        kustomization(&["../base"]),
    );
    Ok(())
}

/// Adds a remote cluster of a hub. Where its kubeconfig has to be.
///
/// # Errors
/// The branch is an environment, or the hub is not known.
pub fn add_remote(
    checkout: &mut Checkout,
    api: Api,
    hub: &str,
    remote: &str,
) -> Result<Vec<SecretPlace>, Error> {
    is_shared(checkout)?;
    environment::known(checkout, hub)?;
    let path = format!("./infra/{hub}/clusters/{remote}");
    let name = format!("{remote}-infrastructure");
    let infra = api.fleet(&name, FLUX_SYSTEM, "10m0s", &path, Some(remote));
    let folder = format!("clusters/{hub}/{remote}");
    checkout.add(format!("{folder}/infra.yaml"), infra);
    checkout.add(
        format!("{folder}/kustomization.yaml"),
        kustomization(&["infra.yaml"]),
    );
    // A hub without a kustomization of its own is applied file by file, folders and all.
    if checkout
        .text(&format!("clusters/{hub}/kustomization.yaml"))?
        .is_some()
    {
        resources::add(checkout, &format!("clusters/{hub}"), &[], remote, At::End)?;
    }
    let base = kustomization(&["../../../base"]);
    checkout.add(
        format!("infra/{hub}/clusters/{remote}/kustomization.yaml"),
        base,
    );
    Ok(vec![SecretPlace {
        namespace: FLUX_SYSTEM.to_owned(),
        folder,
    }])
}

/// Removes a cluster, or `HUB/NAME`.
///
/// # Errors
/// The branch is an environment; files that cannot be edited.
pub fn remove(checkout: &mut Checkout, name: &str) -> Result<(), Error> {
    is_shared(checkout)?;
    environment::remove(checkout, name, &["clusters", "infra"])
}
