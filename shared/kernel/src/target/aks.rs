//! Clusters of Azure Kubernetes Service (provider `azure`).

use super::cluster_config::{ClusterConfig, TOKEN, canonical};
use crate::cloud::azure;
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::ports::{Access, AksCluster, ClusterEndpoint, EntraIdentity};

/// Returns the access to the cluster, with a token of the application that the service account
/// names.
///
/// # Errors
/// There is no service account, it names no application, or Azure refuses a request.
pub(super) async fn access(config: &ClusterConfig<'_>) -> Result<Access, TargetError> {
    let account = config.required_account(azure::CLIENT).await?;
    let identity = azure::identity(&config.exchange(), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = config.ports.clock.now();
    let token = config.ports.clouds.azure.token(&identity, now).await;
    let token = token.map_err(|error| config.token_refused(&account, error))?;
    let endpoint = endpoint(config, &identity).await?;
    let server = config.server(&endpoint.address)?;
    Ok(config.access(server, Some(endpoint.certificate_authority), token))
}

/// Returns the endpoint of the cluster: from the ConfigMap, completed by Azure's endpoint with the
/// ConfigMap's address.
async fn endpoint(
    config: &ClusterConfig<'_>,
    identity: &EntraIdentity,
) -> Result<ClusterEndpoint, TargetError> {
    if let Some(endpoint) = config.endpoint() {
        return Ok(endpoint);
    }
    let id = config.entry("cluster");
    let Some(cluster) = AksCluster::parse(id) else {
        return Err(config.fail(format!(
            r"invalid AKS cluster ID: '{}'. must match (?i)^/subscriptions/([^/]{{36}})/resourceGroups/([^/]{{1,200}})/providers/Microsoft\.ContainerService/managedClusters/([^/]{{1,200}})$",
            id.escape_debug()
        )));
    };
    let now = config.ports.clock.now();
    let endpoints = config.ports.clouds.azure.describe(&cluster, identity, now);
    let endpoints = endpoints.await.map_err(|error| {
        Failure::from(error).context(format!("failed to describe AKS cluster '{id}'"))
    })?;
    let address = config.entry("address");
    let expected = match address {
        "" => None,
        address => Some(canonical(address).map_err(|error| {
            config.fail(format!(
                "failed to parse specified cluster address: {error}"
            ))
        })?),
    };
    let fits = |endpoint: &&ClusterEndpoint| {
        let expected = expected.as_ref();
        expected
            .is_none_or(|expected| canonical(&endpoint.address).is_ok_and(|have| have == *expected))
    };
    match endpoints.iter().find(fits) {
        Some(endpoint) => Ok(config.completed(endpoint.clone())),
        None => {
            let known: Vec<String> = endpoints
                .iter()
                .map(|one| format!("'{}'", one.address))
                .collect();
            Err(config.fail(format!(
                "no kubeconfig found for AKS cluster {id} matching the specified address '{}'. cluster addresses: [{}]",
                address.escape_debug(),
                known.join(", ")
            )))
        }
    }
}
