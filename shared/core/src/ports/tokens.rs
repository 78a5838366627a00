//! Logins that end by themselves: tokens of service accounts, and of clusters that a cloud provider runs.

use super::{Result, Secret};
use async_trait::async_trait;
use std::time::Duration;

/// A bearer token and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token.
    pub secret: Secret,
    /// When it ends, since 1970.
    pub expires: Duration,
}

/// Whose token is wanted, and for whom it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAsk {
    /// The service account's namespace.
    pub namespace: String,
    /// Its name.
    pub account: String,
    /// Its uid: one that was made anew under the same name is another.
    pub uid: String,
    /// Who shall accept the token.
    pub audiences: Vec<String>,
}

/// A cluster of Amazon EKS, from its ARN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EksCluster {
    /// `aws`, `aws-cn`, `aws-us-gov` …
    pub partition: String,
    /// `eu-west-1`: letters, digits and `-` alone.
    pub region: String,
    /// The cluster's name: letters, digits, `-` and `_` alone.
    pub name: String,
}

impl EksCluster {
    /// The parts of an ARN, which become parts of hosts and paths; none of any other text.
    pub fn parse(arn: &str) -> Option<Self> {
        let parts: Vec<&str> = arn.split(':').collect();
        let ["arn", partition, "eks", region, account, resource] = parts[..] else {
            return None;
        };
        let name = resource.strip_prefix("cluster/")?;
        let fits = |text: &str, more: &[u8], most: usize| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
            (1..=most).contains(&text.len()) && text.bytes().all(plain)
        };
        let is_account =
            fits(account, b"", 30) && account.bytes().all(|byte| byte.is_ascii_digit());
        let is_arn = partition.starts_with("aws") && fits(partition, b"-", 30) && is_account;
        (is_arn && fits(region, b"-", 63) && fits(name, b"-_", 100)).then(|| Self {
            partition: partition.to_owned(),
            region: region.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Who logs in to a cluster of EKS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EksIdentity {
    /// The installation, with its own AWS role.
    Installation,
    /// A role that trusts the issuer of a service account's token.
    Role {
        /// The role's ARN.
        arn: String,
        /// How the session is named in AWS's logs.
        session: String,
        /// The service account's token. Whoever has another one gets nothing that was made for this one.
        token: Token,
    },
}

/// Where a cluster's API server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EksPlace {
    /// Its address.
    pub address: String,
    /// Its certificate authority, PEM.
    pub certificate_authority: Vec<u8>,
}

/// Amazon's EKS. What was answered is kept and answers again while it is good at `now` (since 1970) and has a fifth of its
/// life left.
#[async_trait]
pub trait Eks: Send + Sync {
    /// Where a cluster is. `NotFound`: there is no such cluster.
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &EksIdentity,
        now: Duration,
    ) -> Result<EksPlace>;

    /// A token that the cluster's API server accepts.
    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &EksIdentity,
        now: Duration,
    ) -> Result<Token>;
}

#[cfg(test)]
mod tests {
    use super::EksCluster;

    #[test]
    fn arns_of_clusters() {
        let found =
            EksCluster::parse("arn:aws-cn:eks:cn-north-1:012345678901:cluster/a_B-1").unwrap();
        let parts = [found.partition, found.region, found.name];
        assert_eq!(parts, ["aws-cn", "cn-north-1", "a_B-1"]);
        for arn in [
            "",
            "prod",
            "arn:aws:eks:eu-west-1:1:cluster/",
            "arn:aws:eks:eu-west-1:1:nodegroup/a",
            "arn:aws:eks:evil.example/#:1:cluster/a",
            "arn:aws:eks:eu-west-1:1:cluster/../a",
            "arn:aws:eks:eu-west-1:1:cluster/a?b",
            "arn:aws:eks:eu-west-1:one:cluster/a",
            "arn:azure:eks:eu-west-1:1:cluster/a",
            "arn:aws:s3:eu-west-1:1:cluster/a",
        ] {
            assert_eq!(EksCluster::parse(arn), None, "{arn}");
        }
    }
}
