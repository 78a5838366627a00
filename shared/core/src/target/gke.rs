//! Clusters of Google Kubernetes Engine (provider `gcp`).

use super::config_map::{TOKEN, Way};
use crate::cloud::google;
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::ports::{Access, ClusterEndpoint, GkeCluster, GoogleIdentity};

/// Where the cluster is, with a token of the principal that the service account is.
///
/// # Errors
/// No service account, or one that is no principal; what Google refuses.
pub(super) async fn access(way: &Way<'_>) -> Result<Access, TargetError> {
    let account = way.needed_account(google::PROVIDER).await?;
    let identity = google::identity(&way.exchange(), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = way.ports.clock.now();
    let token = way.ports.clouds.google.token(&identity, now).await;
    let token = token.map_err(|error| way.not_given(&account, error))?;
    let place = place(way, &identity).await?;
    let server = way.server(&place.address)?;
    Ok(way.to(server, Some(place.certificate_authority), token))
}

/// Where the cluster is: as the ConfigMap says, and what it does not say as Google does.
async fn place(way: &Way<'_>, identity: &GoogleIdentity) -> Result<ClusterEndpoint, TargetError> {
    if let Some(place) = way.place() {
        return Ok(place);
    }
    let name = way.text("cluster");
    let Some(cluster) = GkeCluster::parse(name) else {
        return Err(way.fail(format!(
            "invalid GKE cluster ID: '{}'. must match ^projects/[^/]{{1,200}}/locations/[^/]{{1,200}}/clusters/[^/]{{1,200}}$",
            name.escape_debug()
        )));
    };
    let now = way.ports.clock.now();
    let place = way.ports.clouds.google.describe(&cluster, identity, now);
    let place = place.await.map_err(|error| {
        Failure::from(error).context(format!("failed to describe GKE cluster '{name}'"))
    })?;
    Ok(way.completed(place))
}
