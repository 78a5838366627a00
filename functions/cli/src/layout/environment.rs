//! Environments, and their clusters.

use super::checkout::{Checkout, ENV_NAME};
use super::kubeconfig::SecretPlace;
use super::manifests::{Api, namespace};
use super::resources::{self, At, kustomization};
use super::tenant;
use crate::error::Error;
use crate::term;
use std::collections::BTreeSet;

/// The environment of a checkout.
pub struct Environment(String);

impl Environment {
    /// Reads it.
    ///
    /// # Errors
    /// The branch is not an environment.
    pub fn of(checkout: &Checkout) -> Result<Self, Error> {
        let text = checkout.text(ENV_NAME)?;
        let name = text
            .as_deref()
            .map(str::trim)
            .filter(|name| !name.is_empty());
        match name {
            Some(name) => Ok(Self(
                super::name(name).map_err(|why| Error::new(format!("{ENV_NAME}: {why}")))?,
            )),
            None => Err(Error::new(format!(
                "there is no file {ENV_NAME}: the branch is not an environment"
            ))
            .next("switch to the environment's branch, or run driftless env init NAME")),
        }
    }

    /// The namespace of its own objects on each hub.
    pub fn namespace(&self) -> String {
        format!("{}-flux-system", self.0)
    }

    /// The namespace of a tenant.
    pub fn of_tenant(&self, tenant: &str) -> String {
        format!("{}-{tenant}", self.0)
    }

    /// The release environment beside it.
    pub fn release(&self, name: &str) -> Self {
        Self(format!("{}-{name}", self.0))
    }
}

/// Its hubs.
pub fn hubs(checkout: &Checkout) -> BTreeSet<String> {
    let mut hubs = checkout.folders("clusters");
    hubs.remove("base");
    hubs
}

/// The remote clusters of a hub.
pub fn remotes(checkout: &Checkout, hub: &str) -> BTreeSet<String> {
    checkout.folders(&format!("clusters/{hub}"))
}

/// Makes the branch an environment.
///
/// # Errors
/// No URL is given, and none is known.
pub fn init(
    checkout: &mut Checkout,
    api: Api,
    name: &str,
    repo: Option<String>,
) -> Result<(), Error> {
    let known = checkout.text("clusters/base/sync.yaml")?;
    let known = known.as_deref().and_then(url_of);
    let url = match (&repo, known) {
        (Some(url), _) => url.clone(),
        (None, Some(url)) => url,
        (None, None) => {
            return Err(Error::usage(
                "--repo is required: no clusters/base/sync.yaml tells the URL",
            ));
        }
    };
    let before = checkout.text(ENV_NAME)?;
    let is_new = before.is_none_or(|before| before.trim() != name);
    if is_new {
        for folder in ["clusters", "infra", "tenants"] {
            checkout.remove_folder(folder);
        }
        checkout.put(ENV_NAME, format!("{name}\n"));
    }
    let environment = Environment(name.to_owned());
    let space = environment.namespace();
    let sync = api.git(&space, &space, &url, name);
    let path = "clusters/base/sync.yaml";
    if is_new || repo.is_some() {
        checkout.put(path, sync);
    } else {
        checkout.add(path, sync);
    }
    checkout.add("clusters/base/namespace.yaml", namespace(&space));
    let base = kustomization(&["namespace.yaml", "sync.yaml"]);
    checkout.add("clusters/base/kustomization.yaml", base);
    checkout.add("infra/base/kustomization.yaml", kustomization(&[]));
    Ok(())
}

/// The URL in a file with a GitRepository.
fn url_of(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("url: "))?;
    super::manifests::url(line.trim().trim_matches(['"', '\''])).ok()
}

/// Adds a hub.
///
/// # Errors
/// The branch is not an environment; files that cannot be edited.
pub fn add_cluster(checkout: &mut Checkout, api: Api, hub: &str) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    let space = environment.namespace();
    let folder = format!("clusters/{hub}");
    let infra = api.fleet(
        "infrastructure",
        &space,
        "10m0s",
        &format!("./infra/{hub}"),
        None,
    );
    let tenants = api.fleet("tenants", &space, "5m", &format!("./tenants/{hub}"), None);
    let list = kustomization(&["../base", "infra.yaml", "tenants.yaml"]);
    checkout.add(format!("{folder}/infra.yaml"), infra);
    checkout.add(format!("{folder}/tenants.yaml"), tenants);
    checkout.add(
        format!("{folder}/kustomization.yaml"),
        format!("{list}namespace: {space}\n"),
    );
    checkout.add(
        format!("infra/{hub}/kustomization.yaml"),
        kustomization(&["../base"]),
    );
    checkout.add(
        format!("tenants/{hub}/kustomization.yaml"),
        kustomization(&[]),
    );
    for name in checkout.folders("tenants/base") {
        tenant::overlay(checkout, api, hub, None, &name)?;
    }
    Ok(())
}

/// Adds a remote cluster. Where its kubeconfig has to be.
///
/// # Errors
/// The branch is not an environment, the hub is not known; files that cannot be edited.
pub fn add_remote(
    checkout: &mut Checkout,
    api: Api,
    hub: &str,
    remote: &str,
) -> Result<Vec<SecretPlace>, Error> {
    let environment = Environment::of(checkout)?;
    known(checkout, hub)?;
    let space = environment.namespace();
    let folder = format!("clusters/{hub}/{remote}");
    let path = |top: &str| format!("./{top}/{hub}/clusters/{remote}");
    let infra = api.fleet(
        &format!("{remote}-infrastructure"),
        &space,
        "10m0s",
        &path("infra"),
        Some(remote),
    );
    let tenants = api.fleet(
        &format!("{remote}-tenants"),
        &space,
        "5m",
        &path("tenants"),
        None,
    );
    let list = kustomization(&["infra.yaml", "tenants.yaml"]);
    checkout.add(format!("{folder}/infra.yaml"), infra);
    checkout.add(format!("{folder}/tenants.yaml"), tenants);
    checkout.add(
        format!("{folder}/kustomization.yaml"),
        format!("{list}namespace: {space}\n"),
    );
    // The scripts apply this folder by kubectl; here the hub follows it.
    resources::add(checkout, &format!("clusters/{hub}"), &[], remote, At::End)?;
    let base = kustomization(&["../../../base"]);
    checkout.add(
        format!("infra/{hub}/clusters/{remote}/kustomization.yaml"),
        base,
    );
    let tenants = format!("tenants/{hub}/clusters/{remote}");
    checkout.add(format!("{tenants}/kustomization.yaml"), kustomization(&[]));
    let mut secrets = vec![SecretPlace {
        namespace: space,
        folder,
    }];
    for name in checkout.folders("tenants/base") {
        tenant::overlay(checkout, api, hub, Some(remote), &name)?;
        secrets.push(SecretPlace {
            namespace: environment.of_tenant(&name),
            folder: format!("{tenants}/{name}"),
        });
    }
    Ok(secrets)
}

/// Removes a hub, or `HUB/NAME`.
///
/// # Errors
/// The branch is not an environment; files that cannot be edited.
pub fn remove_cluster(checkout: &mut Checkout, name: &str) -> Result<(), Error> {
    Environment::of(checkout)?;
    remove(checkout, name, &["clusters", "infra", "tenants"])
}

/// Removes a cluster's folders.
///
/// # Errors
/// Files that cannot be edited.
pub fn remove(checkout: &mut Checkout, name: &str, tops: &[&str]) -> Result<(), Error> {
    let mut found = false;
    for top in tops {
        let folder = match name.split_once('/') {
            Some((hub, remote)) if *top != "clusters" => format!("{top}/{hub}/clusters/{remote}"),
            _ => format!("{top}/{name}"),
        };
        found |= checkout.remove_folder(&folder);
    }
    if let Some((hub, remote)) = name.split_once('/') {
        resources::remove(checkout, &format!("clusters/{hub}"), remote)?;
    }
    if !found {
        let known = hubs(checkout).into_iter().collect::<Vec<_>>().join(", ");
        term::waiting(&format!(
            "there is no cluster '{name}'; the hubs are: {known}"
        ));
    }
    Ok(())
}

/// # Errors
/// There is no such hub.
pub fn known(checkout: &Checkout, hub: &str) -> Result<(), Error> {
    let hubs = hubs(checkout);
    if hubs.contains(hub) {
        return Ok(());
    }
    let known = hubs.into_iter().collect::<Vec<_>>().join(", ");
    Err(
        Error::new(format!("there is no hub '{hub}'; the hubs are: {known}"))
            .next(format!("add it first with add-cluster {hub}")),
    )
}
