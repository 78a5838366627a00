//! Clusters of Azure Kubernetes Service (provider `azure`).

use super::config_map::{TOKEN, Way, canonical};
use crate::cloud::azure;
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::ports::{Access, AksCluster, ClusterEndpoint, EntraIdentity};

/// Where the cluster is, with a token of the application that the service account names.
///
/// # Errors
/// No service account, or one that names no application; what Azure refuses.
pub(super) async fn access(way: &Way<'_>) -> Result<Access, TargetError> {
    let account = way.needed_account(azure::CLIENT).await?;
    let identity = azure::identity(&way.exchange(), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = way.ports.clock.now();
    let token = way.ports.clouds.azure.token(&identity, now).await;
    let token = token.map_err(|error| way.not_given(&account, error))?;
    let place = place(way, &identity).await?;
    let server = way.server(&place.address)?;
    Ok(way.to(server, Some(place.certificate_authority), token))
}

/// Where the cluster is: as the ConfigMap says, and what it does not say as Azure does, of the way with the ConfigMap's address.
async fn place(way: &Way<'_>, identity: &EntraIdentity) -> Result<ClusterEndpoint, TargetError> {
    if let Some(place) = way.place() {
        return Ok(place);
    }
    let id = way.text("cluster");
    let Some(cluster) = AksCluster::parse(id) else {
        return Err(way.fail(format!(
            r"invalid AKS cluster ID: '{}'. must match (?i)^/subscriptions/([^/]{{36}})/resourceGroups/([^/]{{1,200}})/providers/Microsoft\.ContainerService/managedClusters/([^/]{{1,200}})$",
            id.escape_debug()
        )));
    };
    let now = way.ports.clock.now();
    let places = way.ports.clouds.azure.describe(&cluster, identity, now);
    let places = places.await.map_err(|error| {
        let lead = format!("failed to describe AKS cluster '{id}'");
        Failure::from(error).context(lead)
    })?;
    let address = way.text("address");
    let wanted = match address {
        "" => None,
        address => Some(canonical(address).map_err(|why| {
            way.fail(format!("failed to parse specified cluster address: {why}"))
        })?),
    };
    let fits = |place: &&ClusterEndpoint| {
        let wanted = wanted.as_ref();
        wanted.is_none_or(|wanted| canonical(&place.address).is_ok_and(|have| have == *wanted))
    };
    match places.iter().find(fits) {
        Some(place) => Ok(way.completed(place.clone())),
        None => {
            let known: Vec<String> = places
                .iter()
                .map(|one| format!("'{}'", one.address))
                .collect();
            Err(way.fail(format!(
                "no kubeconfig found for AKS cluster {id} matching the specified address '{}'. cluster addresses: [{}]",
                address.escape_debug(),
                known.join(", ")
            )))
        }
    }
}
