//! Clusters of Amazon EKS (provider `aws`).

use super::cluster_config::{ClusterConfig, TOKEN};
use crate::cloud::aws::{self, ROLE};
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::ports::{Access, AwsIdentity, ClusterEndpoint, EksCluster};
use driftless_flux::reason;

/// Returns the access to the cluster, with a token of the role that the service account names, else
/// of the installation's own role.
///
/// # Errors
/// The ARN is not one of a cluster, there is no role, the installation's role is not allowed for
/// the cluster, or AWS refuses a request.
pub(super) async fn access(config: &ClusterConfig<'_>) -> Result<Access, TargetError> {
    let arn = config.entry("cluster");
    let Some(cluster) = EksCluster::parse(arn) else {
        return Err(config.fail(format!(
            r"invalid EKS cluster ARN: '{}'. must match ^arn:aws[\w-]*:eks:([^:]{{1,100}}):[0-9]{{1,30}}:cluster/(.{{1,200}})$",
            arn.escape_debug()
        )));
    };
    let identity = match config.account().await? {
        Some(account) => aws::identity(&config.exchange(), &account, &cluster.region)
            .await
            .map_err(|failure| failure.context(TOKEN))?,
        None => {
            check_allowed(config, arn)?;
            AwsIdentity::Installation
        }
    };
    let endpoint = endpoint(config, &cluster, &identity).await?;
    let server = config.server(&endpoint.address)?;
    let token = config
        .ports
        .clouds
        .aws
        .token(&cluster, &identity, config.ports.clock.now())
        .await
        .map_err(|error| Failure::from(error).context(TOKEN))?;
    Ok(config.access(server, Some(endpoint.certificate_authority), token))
}

/// Checks that the operator allowed the installation's own role for the cluster: otherwise any
/// tenant could reach any cluster by its ARN.
fn check_allowed(config: &ClusterConfig<'_>, arn: &str) -> Result<(), TargetError> {
    let entry = format!("{}/{arn}", config.namespace);
    if config.hub.settings.role_clusters.contains(&entry) {
        return Ok(());
    }
    let message = format!(
        "provider 'aws' without serviceAccountName uses this installation's own AWS role, which is not allowed for this cluster: \
         register the hub with --allow-role-cluster {entry}, or name a service account with the annotation {ROLE}"
    );
    Err(config.refuse(reason::ACCESS_DENIED, message))
}

/// Returns the endpoint of the cluster: from the ConfigMap, completed by EKS's. With the
/// installation's own role the endpoint must be EKS's, so that no other server receives its token.
async fn endpoint(
    config: &ClusterConfig<'_>,
    cluster: &EksCluster,
    identity: &AwsIdentity,
) -> Result<ClusterEndpoint, TargetError> {
    let is_role = matches!(identity, AwsIdentity::Role { .. });
    if let (true, Some(endpoint)) = (is_role, config.endpoint()) {
        return Ok(endpoint);
    }
    let described = config
        .ports
        .clouds
        .aws
        .describe(cluster, identity, config.ports.clock.now())
        .await
        .map_err(|error| {
            let name = config.entry("cluster");
            Failure::from(error).context(format!("failed to describe EKS cluster '{name}'"))
        })?;
    let completed = config.completed(described.clone());
    let is_same = config.server(&completed.address)? == config.server(&described.address)?
        && completed.certificate_authority.trim_ascii()
            == described.certificate_authority.trim_ascii();
    if is_role || is_same {
        return Ok(completed);
    }
    let message = "address or ca.crt differ from those that EKS has for the cluster, and this installation's own AWS role is used \
                   only for EKS's endpoint: leave them out";
    Err(config.refuse(reason::ACCESS_DENIED, message))
}
