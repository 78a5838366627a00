//! Tenants, their applications and their release environments.

use super::checkout::Checkout;
use super::edit::File;
use super::environment::{Environment, hubs, not_found, remotes};
use super::kubeconfig::{self, SecretPlace};
use super::manifests::{self, Api};
use super::resources::{self, EntryPosition, kustomization};
use super::source::Source;
use crate::error::Error;
use driftless_flux::FLUX_SYSTEM;

/// A cluster of an environment.
#[derive(Clone, Copy)]
pub struct TenantCluster<'a> {
    /// The name of the hub.
    pub hub: &'a str,
    /// The name of the remote cluster; `None` for the hub itself.
    pub remote: Option<&'a str>,
}

impl<'a> TenantCluster<'a> {
    /// Returns the place of a hub.
    pub fn hub(hub: &'a str) -> Self {
        Self { hub, remote: None }
    }

    /// Returns the directory of the tenants of the cluster.
    fn tenants(self) -> String {
        match self.remote {
            Some(remote) => format!("tenants/{}/clusters/{remote}", self.hub),
            None => format!("tenants/{}", self.hub),
        }
    }

    /// Returns the path of `tenants/base` from the directory of a tenant.
    fn base(self) -> &'static str {
        match self.remote {
            Some(_) => "../../../../base",
            None => "../../base",
        }
    }
}

/// Adds a tenant to every cluster.
///
/// # Errors
/// Fails if the branch is not an environment, and for files that cannot be edited.
pub fn add(
    checkout: &mut Checkout,
    api: Api,
    tenant: &str,
    repo: &str,
    branch: &str,
) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    let space = environment.of_tenant(tenant);
    check_namespace(checkout, &environment, tenant, None)?;
    let base = format!("tenants/base/{tenant}");
    checkout.add(
        format!("{base}/rbac.yaml"),
        manifests::tenant(tenant, &space),
    );
    let source = Source {
        name: &format!("{tenant}-manifests"),
        namespace: &space,
        url: repo,
        branch,
    };
    source.put(checkout, api, &format!("{base}/git-manifests.yaml"))?;
    let list = kustomization(&["git-manifests.yaml", "rbac.yaml"]);
    resources::create(checkout, &base, list)?;
    each_cluster(checkout, |checkout, place| {
        overlay(checkout, api, &environment, place, tenant)?;
        let Some(remote) = place.remote else {
            return Ok(());
        };
        access(checkout, place.hub, remote, tenant)?;
        let secret = SecretPlace {
            namespace: space.clone(),
            directory: format!("{}/{tenant}", place.tenants()),
        };
        let from = format!("clusters/{}/{remote}", place.hub);
        kubeconfig::copy(checkout, &from, remote, &secret)
    })
}

/// Adds the namespace, the service account and the role of a tenant to the infrastructure of a
/// remote cluster: the tenant's Kustomizations act there as this account.
///
/// # Errors
/// Fails for files that cannot be edited.
pub fn access(checkout: &mut Checkout, hub: &str, remote: &str, tenant: &str) -> Result<(), Error> {
    let Some(rbac) = checkout.text(&format!("tenants/base/{tenant}/rbac.yaml"))? else {
        return Ok(());
    };
    let directory = format!("infra/{hub}/clusters/{remote}");
    let entry = format!("tenants/{tenant}.yaml");
    checkout.add(format!("{directory}/{entry}"), rbac);
    let base = ["../../../base"];
    resources::add(checkout, &directory, &base, &entry, EntryPosition::Name)
}

/// Checks that the namespace of a tenant, or of its release environment, is not used otherwise.
///
/// # Errors
/// Fails if it is used.
fn check_namespace(
    checkout: &Checkout,
    environment: &Environment,
    tenant: &str,
    release: Option<&str>,
) -> Result<(), Error> {
    let space_of = |tenant: &str, release: Option<&str>| match release {
        Some(release) => environment.release(release).of_tenant(tenant),
        None => environment.of_tenant(tenant),
    };
    let space = space_of(tenant, release);
    let taken = |user: String| {
        Err(Error::usage(format!(
            "the namespace would be {space}, which is the namespace of {user}"
        ))
        .next("choose another name"))
    };
    // An environment ENV-X on the same hub has its own objects in ENV-X-flux-system.
    if space.ends_with(&format!("-{FLUX_SYSTEM}")) {
        return taken("the objects of an environment".to_owned());
    }
    for other in checkout.directories("tenants/base") {
        if (other.as_str(), None) != (tenant, release) && space_of(&other, None) == space {
            return taken(format!("the tenant {other}"));
        }
        for of_other in checkout.directories(&format!("tenants/base/{other}/releases")) {
            let same = (other.as_str(), Some(of_other.as_str())) == (tenant, release);
            if !same && space_of(&other, Some(&of_other)) == space {
                return taken(format!("the release environment {of_other} of {other}"));
            }
        }
    }
    Ok(())
}

/// Adds an application to every cluster.
///
/// # Errors
/// Fails if the branch is not an environment or the tenant is not known, and for files that cannot
/// be edited.
pub fn add_app(checkout: &mut Checkout, api: Api, tenant: &str, app: &str) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    check_tenant(checkout, tenant)?;
    let base = format!("tenants/base/{tenant}/{app}");
    let source = format!("{tenant}-manifests");
    let sync = api.app(app, tenant, &environment.of_tenant(tenant), &source);
    checkout.add(format!("{base}/sync.yaml"), sync);
    resources::create(checkout, &base, kustomization(&["sync.yaml"]))?;
    each_cluster(checkout, |checkout, place| {
        add_overlay_of_app(checkout, api, &environment, place, tenant, app)
    })
}

/// Adds a release environment.
///
/// # Errors
/// Fails if the branch is not an environment or the tenant is not known, and for files that cannot
/// be edited.
pub fn add_release(
    checkout: &mut Checkout,
    api: Api,
    tenant: &str,
    release: &str,
    repo: &str,
    branch: &str,
) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    check_tenant(checkout, tenant)?;
    check_namespace(checkout, &environment, tenant, Some(release))?;
    let space = environment.release(release).of_tenant(tenant);
    let base = format!("tenants/base/{tenant}");
    let directory = format!("{base}/releases/{release}");
    let source = format!("{tenant}-{release}-manifests");
    checkout.add(
        format!("{directory}/rbac.yaml"),
        manifests::tenant(tenant, &space),
    );
    let manifests = Source {
        name: &source,
        namespace: &space,
        url: repo,
        branch,
    };
    manifests.put(checkout, api, &format!("{directory}/git-manifests.yaml"))?;
    let list = kustomization(&["git-manifests.yaml", "rbac.yaml"]);
    let list = format!("{list}namespace: {space}\n");
    resources::create(checkout, &directory, list)?;
    let entry = format!("releases/{release}");
    resources::add(checkout, &base, &[], &entry, EntryPosition::End)?;
    for app in apps(checkout, tenant) {
        let directory = format!("{base}/{app}");
        let sync = api.app(&app, tenant, &space, &source);
        checkout.add(format!("{directory}/{entry}/sync.yaml"), sync);
        let list = kustomization(&["sync.yaml"]);
        resources::create(checkout, &format!("{directory}/{entry}"), list)?;
        resources::add(
            checkout,
            &directory,
            &["sync.yaml"],
            &entry,
            EntryPosition::End,
        )?;
    }
    Ok(())
}

/// Adds a tenant with its applications to one cluster.
///
/// # Errors
/// Fails for files that cannot be edited.
pub fn overlay(
    checkout: &mut Checkout,
    api: Api,
    environment: &Environment,
    place: TenantCluster<'_>,
    tenant: &str,
) -> Result<(), Error> {
    let list = place.tenants();
    let base = kustomization(&[&format!("{}/{tenant}", place.base())]);
    resources::create(checkout, &format!("{list}/{tenant}"), base)?;
    for app in apps(checkout, tenant) {
        add_overlay_of_app(checkout, api, environment, place, tenant, &app)?;
    }
    // The scripts append on hubs, and rewrite the list of a remote cluster sorted by name.
    let at = match place.remote {
        Some(_) => EntryPosition::Name,
        None => EntryPosition::End,
    };
    resources::add(checkout, &list, &[], tenant, at)
}

fn add_overlay_of_app(
    checkout: &mut Checkout,
    api: Api,
    environment: &Environment,
    place: TenantCluster<'_>,
    tenant: &str,
    app: &str,
) -> Result<(), Error> {
    let base = place.base();
    let directory = format!("{}/{tenant}", place.tenants());
    let sync = format!("tenants/base/{tenant}/{app}/sync.yaml");
    let version = match checkout.text(&sync)? {
        Some(text) => version_of(&sync, &text)?,
        None => None,
    };
    let space = environment.of_tenant(tenant);
    let patch = api.app_patch(app, &space, place.hub, place.remote, version);
    let overlay = api.app_overlay(&format!("../{base}/{tenant}/{app}"), place.remote);
    checkout.add(format!("{directory}/{app}/sync-patch.yaml"), patch);
    resources::create(checkout, &format!("{directory}/{app}"), overlay)?;
    let base = format!("{base}/{tenant}");
    resources::add(checkout, &directory, &[&base], app, EntryPosition::Name)
}

/// Returns the API version of the Kustomization in a file.
///
/// # Errors
/// Fails if the file is not valid YAML.
fn version_of(path: &str, text: &str) -> Result<Option<String>, Error> {
    let file = File::read(path, text)?;
    let mut documents = file.documents.iter();
    let version = documents.find_map(|document| {
        let kind = document.get("kind")?.text()?;
        let version = document.get("apiVersion")?.text()?;
        (kind == "Kustomization").then_some(version)
    });
    Ok(version.map(str::to_owned))
}

fn apps(checkout: &Checkout, tenant: &str) -> Vec<String> {
    let directories = checkout.directories(&format!("tenants/base/{tenant}"));
    directories
        .into_iter()
        .filter(|name| name != "releases")
        .collect()
}

fn each_cluster(
    checkout: &mut Checkout,
    mut work: impl FnMut(&mut Checkout, TenantCluster<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    for hub in &hubs(checkout) {
        work(checkout, TenantCluster::hub(hub))?;
        for remote in remotes(checkout, hub) {
            let remote = Some(remote.as_str());
            work(checkout, TenantCluster { hub, remote })?;
        }
    }
    Ok(())
}

fn check_tenant(checkout: &Checkout, tenant: &str) -> Result<(), Error> {
    let tenants = checkout.directories("tenants/base");
    if tenants.contains(tenant) {
        return Ok(());
    }
    let next = format!(
        "correct the name, or run driftless tenant add {tenant} --repo URL --branch BRANCH"
    );
    Err(not_found("tenant", tenant, "tenants", tenants).next(next))
}
