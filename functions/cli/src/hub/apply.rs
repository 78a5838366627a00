//! Server-side apply under the field manager of this command.

use crate::error::Error;
use driftless_core::ports::{Apply, Cluster, Resource};
use driftless_manifest::{Gvk, Object};
use serde_json::Value;

/// The field manager of what commands apply.
const MANAGER: &str = "driftless";

/// The resource of a kind.
///
/// # Errors
/// The cluster's, or that it does not serve the kind.
pub async fn resource(cluster: &dyn Cluster, gvk: &Gvk) -> Result<Resource, Error> {
    let found = cluster.resource(gvk).await?;
    found.ok_or_else(|| {
        let (version, kind) = (gvk.api_version(), &gvk.kind);
        Error::new(format!("the cluster does not serve {version} {kind}"))
    })
}

/// Applies an object whose resource is known. What others set becomes ours where we set it, too.
///
/// # Errors
/// The cluster's.
pub async fn apply_as(
    cluster: &dyn Cluster,
    resource: &Resource,
    object: &Object,
    dry_run: bool,
) -> Result<Object, Error> {
    let how = Apply {
        manager: MANAGER,
        force: true,
        dry_run,
    };
    Ok(cluster.apply(resource, object, how).await?)
}

/// Applies an object; with `dry_run` the answer alone is of interest.
///
/// # Errors
/// The cluster's, or that it does not serve the kind.
pub async fn apply(cluster: &dyn Cluster, object: Value, dry_run: bool) -> Result<Object, Error> {
    let object = Object::new(object).map_err(Error::new)?;
    let resource = resource(cluster, &object.gvk()).await?;
    apply_as(cluster, &resource, &object, dry_run).await
}
