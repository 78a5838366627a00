//! Clusters of Amazon EKS (provider `aws`).

use super::NoTarget;
use super::config_map::{Account, Way};
use crate::failure::Failure;
use crate::flux::reason;
use crate::ports::{Access, EksCluster, EksIdentity, EksPlace};

/// Who accepts a service account's token for a role.
const AUDIENCE: &str = "sts.amazonaws.com";
/// Where a service account says which role it takes.
const ROLE: &str = "eks.amazonaws.com/role-arn";

/// Where the cluster is, with a token of the role that the service account names, else of the installation's own role.
///
/// # Errors
/// No ARN of a cluster, no role, a cluster that the installation's role was not allowed for; what AWS refuses.
pub(super) async fn access(way: &Way<'_>) -> Result<Access, NoTarget> {
    let arn = way.text("cluster");
    let Some(cluster) = EksCluster::parse(arn) else {
        return Err(way.fail(format!(
            r"invalid EKS cluster ARN: '{}'. must match ^arn:aws[\w-]*:eks:([^:]{{1,100}}):[0-9]{{1,30}}:cluster/(.{{1,200}})$",
            arn.escape_debug()
        )));
    };
    let identity = match way.account().await? {
        Some(account) => role(way, &account, &cluster).await?,
        None => {
            check_allowed(way, arn)?;
            EksIdentity::Installation
        }
    };
    let place = place(way, &cluster, &identity).await?;
    let server = way.server(&place.address)?;
    let token = way
        .ports
        .eks
        .token(&cluster, &identity, way.ports.clock.now())
        .await
        .map_err(|error| Failure::from(error).context("failed to get access token for cluster"))?;
    Ok(way.to(server, Some(place.certificate_authority), token))
}

/// The role of a service account, which AWS gives to whoever has that account's token.
async fn role(
    way: &Way<'_>,
    account: &Account,
    cluster: &EksCluster,
) -> Result<EksIdentity, NoTarget> {
    let arn = account.annotation(ROLE);
    if !is_role(arn) {
        return Err(way.fail(format!(
            r"failed to get access token for cluster: failed to get provider identity from service account '{}/{}' annotations: invalid {ROLE} annotation: '{}'. must match ^arn:aws[\w-]*:iam::[0-9]{{1,30}}:role/.{{1,200}}$",
            way.namespace,
            account.name,
            arn.escape_debug()
        )));
    }
    Ok(EksIdentity::Role {
        arn: arn.to_owned(),
        session: session(&account.name, way.namespace, &cluster.region),
        token: way.token(account, AUDIENCE).await?,
    })
}

/// The installation's own role works on what its operator named: the ARN alone would lead any tenant to any cluster.
fn check_allowed(way: &Way<'_>, arn: &str) -> Result<(), NoTarget> {
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
    identity: &EksIdentity,
) -> Result<EksPlace, NoTarget> {
    let (address, authority) = (way.text("address"), way.authority());
    let is_role = matches!(identity, EksIdentity::Role { .. });
    if let (true, false, Some(authority)) = (is_role, address.is_empty(), &authority) {
        return Ok(EksPlace {
            address: address.to_owned(),
            certificate_authority: authority.clone(),
        });
    }
    let described = way
        .ports
        .eks
        .describe(cluster, identity, way.ports.clock.now())
        .await
        .map_err(|error| {
            let lead = format!("failed to describe EKS cluster '{}'", way.text("cluster"));
            Failure::from(error).context(lead)
        })?;
    let told = EksPlace {
        address: match address {
            "" => described.address.clone(),
            address => address.to_owned(),
        },
        certificate_authority: authority.unwrap_or(described.certificate_authority.clone()),
    };
    let is_same = way.server(&told.address)? == way.server(&described.address)?
        && told.certificate_authority.trim_ascii() == described.certificate_authority.trim_ascii();
    if is_role || is_same {
        return Ok(told);
    }
    let what = "address and ca.crt are not those that EKS has for the cluster, and this installation's own AWS role goes nowhere \
                else: leave them out";
    Err(way.refuse(reason::ACCESS_DENIED, what))
}

/// `arn:aws:iam::ACCOUNT:role/NAME`, in any partition.
fn is_role(arn: &str) -> bool {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let ["arn", partition, "iam", "", account, resource] = parts[..] else {
        return false;
    };
    let name = resource.strip_prefix("role/").unwrap_or_default();
    partition.starts_with("aws")
        && !account.is_empty()
        && account.bytes().all(|byte| byte.is_ascii_digit())
        && !name.is_empty()
        && name.len() <= 200
}

/// How Flux names the session; AWS takes 64 characters.
fn session(account: &str, namespace: &str, region: &str) -> String {
    let mut name = format!("{account}.{namespace}.{region}.fluxcd.io");
    name.truncate(64);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_of_roles() {
        assert!(is_role("arn:aws:iam::012345678901:role/team/deployer"));
        for arn in [
            "",
            "deployer",
            "arn:aws:iam::1:user/ann",
            "arn:aws:iam::1:role/",
            "arn:aws:iam::a:role/b",
        ] {
            assert!(!is_role(arn), "{arn}");
        }
    }

    #[test]
    fn sessions() {
        assert_eq!(
            session("flux", "apps", "eu-west-1"),
            "flux.apps.eu-west-1.fluxcd.io"
        );
        assert_eq!(session(&"a".repeat(80), "apps", "eu-west-1").len(), 64);
    }
}
