//! Amazon EKS: the endpoint of a cluster, and tokens for it.
//!
//! A token is a signed request to STS (GetCallerIdentity). The cluster's API server sends it to STS
//! to learn who the caller is; a signed header with the cluster's name binds the request to this
//! cluster.

use super::sign::SigningRequest;
use super::{Shared, host};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftless_kernel::ports::{
    AwsIdentity, ClusterEndpoint, EksCluster, ErrorKind, PortError, Result, Secret, Token,
};
use serde::Deserialize;
use std::time::{Duration, UNIX_EPOCH};

/// The time for which a cluster accepts a token.
const TOKEN_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// The parts of EKS's description of a cluster that are used here.
#[derive(Deserialize)]
struct ClusterDescription {
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cluster {
    endpoint: Option<String>,
    certificate_authority: Option<Authority>,
}

#[derive(Deserialize)]
struct Authority {
    data: Option<String>,
}

impl Shared {
    pub(super) async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint> {
        let endpoint = self
            .endpoint(host("eks", &cluster.region, &cluster.partition)?)
            .await;
        let url = format!("{endpoint}/clusters/{}", cluster.name);
        let request = SigningRequest::get("eks", &cluster.region, &url, now);
        let credentials = self.credentials(&cluster.region, identity, now).await?;
        let body = self.ask(request.signed(credentials)?).await?;
        let broken =
            |reason: &str| PortError::new(ErrorKind::Unreadable, format!("'{url}': {reason}"));
        let described: ClusterDescription = serde_json::from_slice(&body)
            .map_err(|_| broken("the answer does not describe a cluster"))?;
        let authority = described.cluster.certificate_authority;
        let authority = authority.and_then(|authority| authority.data);
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        match (some(described.cluster.endpoint), some(authority)) {
            (Some(address), Some(data)) => Ok(ClusterEndpoint {
                address,
                certificate_authority: STANDARD
                    .decode(data)
                    .map_err(|_| broken("the certificate authority is not base64"))?,
            }),
            _ => Err(PortError::new(
                ErrorKind::Unavailable,
                "the cluster has no endpoint yet",
            )),
        }
    }

    pub(super) async fn token(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Token> {
        let credentials = self.credentials(&cluster.region, identity, now).await?;
        let ends = credentials.expiry();
        let endpoint = self
            .endpoint(host("sts", &cluster.region, &cluster.partition)?)
            .await;
        let url = format!("{endpoint}/?Action=GetCallerIdentity&Version=2011-06-15");
        let request = SigningRequest {
            headers: &[("x-k8s-aws-id", &cluster.name)],
            ..SigningRequest::get("sts", &cluster.region, &url, now)
        };
        let url = request.presigned(credentials, TOKEN_LIFETIME)?;
        let ends = ends.and_then(|ends| ends.duration_since(UNIX_EPOCH).ok());
        Ok(Token {
            secret: Secret::new(format!("k8s-aws-v1.{}", URL_SAFE_NO_PAD.encode(url))),
            expires: ends.map_or(now + TOKEN_LIFETIME, |ends| ends.min(now + TOKEN_LIFETIME)),
        })
    }
}
