//! Server-side apply under the field manager of this command.

use crate::error::Error;
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::ports::{Cluster, Resource};
use driftless_manifest::{Gvk, Object};
use serde_json::Value;

/// The field manager of all commands.
pub const MANAGER: &str = "driftless";

/// Returns the resource of a kind.
///
/// # Errors
/// Fails with the errors of the cluster, and if it does not serve the kind.
pub async fn resource(cluster: &dyn Cluster, gvk: &Gvk) -> Result<Resource, Error> {
    let found = cluster.resource(gvk).await?;
    found.ok_or_else(|| {
        let (version, kind) = (gvk.api_version(), &gvk.kind);
        Error::new(format!("the cluster does not serve {version} {kind}"))
    })
}

/// Applies an object whose resource is known. Takes over the fields of other managers that the
/// object sets.
///
/// # Errors
/// Fails with the errors of the cluster.
pub async fn apply_as(
    cluster: &dyn Cluster,
    resource: &Resource,
    object: &Object,
    dry_run: bool,
) -> Result<Object, Error> {
    let applier = Applier::new(cluster, Strategy::forcing(MANAGER));
    Ok(match dry_run {
        true => applier.dry_run(resource, object).await?,
        false => applier.apply(resource, object).await?,
    })
}

/// Applies an object, and returns the API server's answer; with `dry_run` nothing is stored.
///
/// # Errors
/// Fails with the errors of the cluster, and if it does not serve the kind.
pub async fn apply(cluster: &dyn Cluster, object: Value, dry_run: bool) -> Result<Object, Error> {
    let object = Object::new(object).map_err(Error::caused_by)?;
    let resource = resource(cluster, &object.gvk()).await?;
    apply_as(cluster, &resource, &object, dry_run).await
}
