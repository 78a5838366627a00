//! Clusters of Amazon EKS (provider `aws`).

use super::config_map::{TOKEN, Way};
use crate::cloud::aws::{self, ROLE};
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::flux::reason;
use crate::ports::{Access, AwsIdentity, ClusterEndpoint, EksCluster};

/// Where the cluster is, with a token of the role that the service account names, else of the installation's own role.
///
/// # Errors
/// No ARN of a cluster, no role, a cluster that the installation's role was not allowed for; what AWS refuses.
pub(super) async fn access(way: &Way<'_>) -> Result<Access, TargetError> {
    let arn = way.text("cluster");
    let Some(cluster) = EksCluster::parse(arn) else {
        return Err(way.fail(format!(
            r"invalid EKS cluster ARN: '{}'. must match ^arn:aws[\w-]*:eks:([^:]{{1,100}}):[0-9]{{1,30}}:cluster/(.{{1,200}})$",
            arn.escape_debug()
        )));
    };
    let identity = match way.account().await? {
        Some(account) => aws::identity(&way.exchange(), &account, &cluster.region)
            .await
            .map_err(|failure| failure.context(TOKEN))?,
        None => {
            check_allowed(way, arn)?;
            AwsIdentity::Installation
        }
    };
    let place = place(way, &cluster, &identity).await?;
    let server = way.server(&place.address)?;
    let token = way
        .ports
        .clouds
        .aws
        .token(&cluster, &identity, way.ports.clock.now())
        .await
        .map_err(|error| Failure::from(error).context(TOKEN))?;
    Ok(way.to(server, Some(place.certificate_authority), token))
}

/// The installation's own role works on what its operator named: the ARN alone would lead any tenant to any cluster.
fn check_allowed(way: &Way<'_>, arn: &str) -> Result<(), TargetError> {
    let wanted = format!("{}/{arn}", way.namespace);
    if way.hub.settings.role_clusters.contains(&wanted) {
        return Ok(());
    }
    let what = format!(
        "provider 'aws' without serviceAccountName opens the cluster with this installation's own AWS role, which is not allowed for \
         this one: register the hub with --allow-role-cluster {wanted}, or name a service account with the annotation {ROLE}"
    );
    Err(way.refuse(reason::ACCESS_DENIED, what))
}

/// Where the cluster is: as the ConfigMap says, and what it does not say as EKS does. Where the installation's own role goes,
/// EKS says it all, so that nobody else gets to see its token.
async fn place(
    way: &Way<'_>,
    cluster: &EksCluster,
    identity: &AwsIdentity,
) -> Result<ClusterEndpoint, TargetError> {
    let is_role = matches!(identity, AwsIdentity::Role { .. });
    if let (true, Some(place)) = (is_role, way.place()) {
        return Ok(place);
    }
    let described = way
        .ports
        .clouds
        .aws
        .describe(cluster, identity, way.ports.clock.now())
        .await
        .map_err(|error| {
            let lead = format!("failed to describe EKS cluster '{}'", way.text("cluster"));
            Failure::from(error).context(lead)
        })?;
    let told = way.completed(described.clone());
    let is_same = way.server(&told.address)? == way.server(&described.address)?
        && told.certificate_authority.trim_ascii() == described.certificate_authority.trim_ascii();
    if is_role || is_same {
        return Ok(told);
    }
    let what = "address and ca.crt are not those that EKS has for the cluster, and this installation's own AWS role goes nowhere \
                else: leave them out";
    Err(way.refuse(reason::ACCESS_DENIED, what))
}
