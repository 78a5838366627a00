//! Tenants, their applications and their release environments.

use super::checkout::Checkout;
use super::environment::{Environment, hubs, remotes};
use super::kubeconfig::{self, SecretPlace};
use super::manifests::{self, Api};
use super::resources::{self, At, kustomization};
use crate::error::Error;

/// Adds a tenant to every cluster.
///
/// # Errors
/// The branch is not an environment; files that cannot be edited.
pub fn add(
    checkout: &mut Checkout,
    api: Api,
    tenant: &str,
    repo: &str,
    branch: &str,
) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    let space = environment.of_tenant(tenant);
    let base = format!("tenants/base/{tenant}");
    checkout.add(
        format!("{base}/rbac.yaml"),
        manifests::tenant(tenant, &space),
    );
    let source = api.git(&format!("{tenant}-manifests"), &space, repo, branch);
    checkout.put(format!("{base}/git-manifests.yaml"), source);
    let list = kustomization(&["git-manifests.yaml", "rbac.yaml"]);
    checkout.add(format!("{base}/kustomization.yaml"), list);
    each_cluster(checkout, |checkout, hub, remote| {
        overlay(checkout, api, hub, remote, tenant)?;
        let Some(remote) = remote else { return Ok(()) };
        let place = SecretPlace {
            namespace: space.clone(),
            folder: format!("tenants/{hub}/clusters/{remote}/{tenant}"),
        };
        kubeconfig::copy(
            checkout,
            &format!("clusters/{hub}/{remote}"),
            remote,
            &place,
        )
    })
}

/// Adds an application to every cluster.
///
/// # Errors
/// The branch is not an environment, the tenant is not known; files that cannot be edited.
pub fn add_app(checkout: &mut Checkout, api: Api, tenant: &str, app: &str) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    known(checkout, tenant)?;
    let base = format!("tenants/base/{tenant}/{app}");
    let source = format!("{tenant}-manifests");
    let sync = api.app(app, tenant, &environment.of_tenant(tenant), &source);
    checkout.add(format!("{base}/sync.yaml"), sync);
    checkout.add(
        format!("{base}/kustomization.yaml"),
        kustomization(&["sync.yaml"]),
    );
    each_cluster(checkout, |checkout, hub, remote| {
        add_overlay_of_app(checkout, api, hub, remote, tenant, app)
    })
}

/// Adds a release environment.
///
/// # Errors
/// The branch is not an environment, the tenant is not known; files that cannot be edited.
pub fn add_release(
    checkout: &mut Checkout,
    api: Api,
    tenant: &str,
    release: &str,
    repo: &str,
    branch: &str,
) -> Result<(), Error> {
    let environment = Environment::of(checkout)?.release(release);
    known(checkout, tenant)?;
    let space = environment.of_tenant(tenant);
    let base = format!("tenants/base/{tenant}");
    let folder = format!("{base}/releases/{release}");
    let source = format!("{tenant}-{release}-manifests");
    checkout.add(
        format!("{folder}/rbac.yaml"),
        manifests::tenant(tenant, &space),
    );
    checkout.put(
        format!("{folder}/git-manifests.yaml"),
        api.git(&source, &space, repo, branch),
    );
    let list = kustomization(&["git-manifests.yaml", "rbac.yaml"]);
    checkout.add(
        format!("{folder}/kustomization.yaml"),
        format!("{list}namespace: {space}\n"),
    );
    let entry = format!("releases/{release}");
    resources::add(checkout, &base, &[], &entry, At::End)?;
    for app in apps(checkout, tenant) {
        let folder = format!("{base}/{app}");
        let sync = api.app(&app, tenant, &space, &source);
        checkout.add(format!("{folder}/{entry}/sync.yaml"), sync);
        checkout.add(
            format!("{folder}/{entry}/kustomization.yaml"),
            kustomization(&["sync.yaml"]),
        );
        resources::add(checkout, &folder, &["sync.yaml"], &entry, At::End)?;
    }
    Ok(())
}

/// The folder of a tenant on a cluster, and the way from it to `tenants/base`.
fn place(hub: &str, remote: Option<&str>, tenant: &str) -> (String, &'static str) {
    match remote {
        Some(remote) => (
            format!("tenants/{hub}/clusters/{remote}/{tenant}"),
            "../../../../base",
        ),
        None => (format!("tenants/{hub}/{tenant}"), "../../base"),
    }
}

/// Adds a tenant with its applications to one cluster.
///
/// # Errors
/// Files that cannot be edited.
pub fn overlay(
    checkout: &mut Checkout,
    api: Api,
    hub: &str,
    remote: Option<&str>,
    tenant: &str,
) -> Result<(), Error> {
    let (folder, base) = place(hub, remote, tenant);
    checkout.add(
        format!("{folder}/kustomization.yaml"),
        kustomization(&[&format!("{base}/{tenant}")]),
    );
    for app in apps(checkout, tenant) {
        add_overlay_of_app(checkout, api, hub, remote, tenant, &app)?;
    }
    // The scripts append on hubs, and write the list of a remote cluster anew in order of name.
    let (list, at) = match remote {
        Some(remote) => (format!("tenants/{hub}/clusters/{remote}"), At::Name),
        None => (format!("tenants/{hub}"), At::End),
    };
    resources::add(checkout, &list, &[], tenant, at)
}

fn add_overlay_of_app(
    checkout: &mut Checkout,
    api: Api,
    hub: &str,
    remote: Option<&str>,
    tenant: &str,
    app: &str,
) -> Result<(), Error> {
    let environment = Environment::of(checkout)?;
    let (folder, base) = place(hub, remote, tenant);
    let sync = checkout.text(&format!("tenants/base/{tenant}/{app}/sync.yaml"))?;
    let space = environment.of_tenant(tenant);
    let patch = api.app_patch(app, &space, hub, remote, &sync.unwrap_or_default());
    let overlay = api.app_overlay(&format!("../{base}/{tenant}/{app}"), remote);
    checkout.add(format!("{folder}/{app}/sync-patch.yaml"), patch);
    checkout.add(format!("{folder}/{app}/kustomization.yaml"), overlay);
    resources::add(
        checkout,
        &folder,
        &[&format!("{base}/{tenant}")],
        app,
        At::Name,
    )
}

fn apps(checkout: &Checkout, tenant: &str) -> Vec<String> {
    let folders = checkout.folders(&format!("tenants/base/{tenant}"));
    folders
        .into_iter()
        .filter(|name| name != "releases")
        .collect()
}

fn each_cluster(
    checkout: &mut Checkout,
    mut work: impl FnMut(&mut Checkout, &str, Option<&str>) -> Result<(), Error>,
) -> Result<(), Error> {
    for hub in hubs(checkout) {
        work(checkout, &hub, None)?;
        for remote in remotes(checkout, &hub) {
            work(checkout, &hub, Some(&remote))?;
        }
    }
    Ok(())
}

fn known(checkout: &Checkout, tenant: &str) -> Result<(), Error> {
    let tenants = checkout.folders("tenants/base");
    if tenants.contains(tenant) {
        return Ok(());
    }
    let known = tenants.into_iter().collect::<Vec<_>>().join(", ");
    Err(Error::new(format!(
        "there is no tenant '{tenant}'; the tenants are: {known}"
    ))
    .next(format!(
        "driftless tenant add {tenant} --repo URL --branch BRANCH"
    )))
}
