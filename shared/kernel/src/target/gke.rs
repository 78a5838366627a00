//! Clusters of Google Kubernetes Engine (provider `gcp`).

use super::cluster_config::{ClusterConfig, TOKEN};
use crate::cloud::google;
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::ports::{Access, ClusterEndpoint, GkeCluster, GoogleIdentity};

/// Returns the access to the cluster, with a token of the service account's principal.
///
/// # Errors
/// There is no service account, it has no principal, or Google refuses a request.
pub(super) async fn access(config: &ClusterConfig<'_>) -> Result<Access, TargetError> {
    let account = config.required_account(google::PROVIDER).await?;
    let identity = google::identity(&config.exchange(), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = config.ports.clock.now();
    let token = config.ports.clouds.google.token(&identity, now).await;
    let token = token.map_err(|error| config.token_refused(&account, error))?;
    let endpoint = endpoint(config, &identity).await?;
    let server = config.server(&endpoint.address)?;
    Ok(config.access(server, Some(endpoint.certificate_authority), token))
}

/// Returns the endpoint of the cluster: from the ConfigMap, completed by Google's.
async fn endpoint(
    config: &ClusterConfig<'_>,
    identity: &GoogleIdentity,
) -> Result<ClusterEndpoint, TargetError> {
    if let Some(endpoint) = config.endpoint() {
        return Ok(endpoint);
    }
    let name = config.entry("cluster");
    let Some(cluster) = GkeCluster::parse(name) else {
        return Err(config.fail(format!(
            "invalid GKE cluster ID: '{}'. must match ^projects/[^/]{{1,200}}/locations/[^/]{{1,200}}/clusters/[^/]{{1,200}}$",
            name.escape_debug()
        )));
    };
    let now = config.ports.clock.now();
    let endpoint = config.ports.clouds.google.describe(&cluster, identity, now);
    let endpoint = endpoint.await.map_err(|error| {
        Failure::from(error).context(format!("failed to describe GKE cluster '{name}'"))
    })?;
    Ok(config.completed(endpoint))
}
