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
