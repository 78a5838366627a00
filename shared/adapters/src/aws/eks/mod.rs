//! Amazon EKS: where a cluster is, and tokens for it.
//!
//! A cluster's API server believes who asks by a signed question to STS (GetCallerIdentity) that it asks itself; the signed
//! header with the cluster's name makes the question one for this cluster. A service account's role is given by STS for the
//! account's token (AssumeRoleWithWebIdentity).

mod sign;

use super::error::to_error;
use super::role::Installation;
use crate::fresh::Fresh;
use crate::web::{self, Clients};
use async_trait::async_trait;
use aws_config::{Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, ProvideCredentials};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftless_core::ports::{
    Connection, Eks, EksCluster, EksIdentity, EksPlace, ErrorKind, PortError, Result, Secret, Token,
};
use serde::Deserialize;
use sign::Get;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use url::Url;

/// How long a cluster takes a token.
const LIFE: Duration = Duration::from_secs(15 * 60);
/// How long it is believed where a cluster is.
const PLACE_LIFE: Duration = Duration::from_secs(15 * 60);
/// How long EKS may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer about a cluster.
const ANSWER: u64 = 1 << 20;
/// The domains of the partitions.
const DOMAINS: [(&str, &str); 6] = [
    ("aws", "amazonaws.com"),
    ("aws-us-gov", "amazonaws.com"),
    ("aws-cn", "amazonaws.com.cn"),
    ("aws-eusc", "amazonaws.eu"),
    ("aws-iso", "c2s.ic.gov"),
    ("aws-iso-b", "sc2s.sgov.gov"),
];

/// Every cluster of EKS.
#[derive(Clone, Default)]
pub struct EksClusters(Arc<Shared>);

#[derive(Default)]
struct Shared {
    installation: Installation,
    clients: Clients,
    roles: Fresh<(String, EksIdentity), Credentials>,
    places: Fresh<(EksCluster, EksIdentity), EksPlace>,
    tokens: Fresh<(EksCluster, EksIdentity), Token>,
}

impl EksClusters {
    /// No cluster known yet; the installation's own role is what the environment says when it is asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a role that is known.
    pub fn with_role(settings: &SdkConfig) -> Self {
        Self(Arc::new(Shared {
            installation: Installation::known(settings),
            ..Shared::default()
        }))
    }
}

#[async_trait]
impl Eks for EksClusters {
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &EksIdentity,
        now: Duration,
    ) -> Result<EksPlace> {
        let key = (cluster.clone(), identity.clone());
        let (shared, (cluster, identity)) = (self.0.clone(), key.clone());
        let make = async move {
            let place = shared.describe(&cluster, &identity, now).await?;
            Ok((place, now + PLACE_LIFE))
        };
        self.0.places.get(key, now, make).await
    }

    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &EksIdentity,
        now: Duration,
    ) -> Result<Token> {
        let key = (cluster.clone(), identity.clone());
        let (shared, (cluster, identity)) = (self.0.clone(), key.clone());
        let make = async move {
            let token = shared.token(&cluster, &identity, now).await?;
            let end = token.expires;
            Ok((token, end))
        };
        self.0.tokens.get(key, now, make).await
    }
}

/// What EKS says of a cluster, as far as it matters here.
#[derive(Deserialize)]
struct Described {
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
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &EksIdentity,
        now: Duration,
    ) -> Result<EksPlace> {
        let get = Get {
            service: "eks",
            region: &cluster.region,
            url: format!(
                "{}/clusters/{}",
                self.endpoint("eks", cluster).await?,
                cluster.name
            ),
            headers: &[],
            now,
        };
        let signed = get.signed(self.credentials(cluster, identity, now).await?)?;
        let broken =
            |why: &str| PortError::new(ErrorKind::Unreadable, format!("'{}' {why}", get.url));
        let url = Url::parse(&get.url).map_err(|_| broken("is no address"))?;
        let how = Connection {
            timeout: TIMEOUT,
            // An emulator's address is the operator's own word.
            allow_local: self.installation.settings().await.endpoint_url().is_some(),
            ..Connection::default()
        };
        let request = self.clients.client(&url, &how)?.get(url);
        let request = request.headers(signed.headers().clone());
        let sent = request.send().await;
        let response = sent.map_err(|error| web::unreachable(&error, &get.url))?;
        let response = web::accepted(response, &get.url)?;
        let body = web::body(response, ANSWER, &get.url).await?;
        let described: Described =
            serde_json::from_slice(&body).map_err(|_| broken("describes no cluster"))?;
        let authority = described.cluster.certificate_authority;
        let authority = authority.and_then(|authority| authority.data);
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        match (some(described.cluster.endpoint), some(authority)) {
            (Some(address), Some(data)) => Ok(EksPlace {
                address,
                certificate_authority: STANDARD
                    .decode(data)
                    .map_err(|_| broken("gives a certificate authority that is not base64"))?,
            }),
            _ => Err(PortError::new(
                ErrorKind::Unavailable,
                "the cluster has no endpoint yet",
            )),
        }
    }

    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &EksIdentity,
        now: Duration,
    ) -> Result<Token> {
        let credentials = self.credentials(cluster, identity, now).await?;
        let ends = credentials.expiry();
        let get = Get {
            service: "sts",
            region: &cluster.region,
            url: format!(
                "{}/?Action=GetCallerIdentity&Version=2011-06-15",
                self.endpoint("sts", cluster).await?
            ),
            headers: &[("x-k8s-aws-id", &cluster.name)],
            now,
        };
        let url = get.presigned(credentials, LIFE)?;
        let ends = ends.and_then(|ends| ends.duration_since(UNIX_EPOCH).ok());
        Ok(Token {
            secret: Secret::new(format!("k8s-aws-v1.{}", URL_SAFE_NO_PAD.encode(url))),
            expires: ends.map_or(now + LIFE, |ends| ends.min(now + LIFE)),
        })
    }

    async fn credentials(
        &self,
        cluster: &EksCluster,
        identity: &EksIdentity,
        now: Duration,
    ) -> Result<Credentials> {
        if *identity == EksIdentity::Installation {
            let role = self.installation.role().await?;
            return role.provide_credentials().await.map_err(|_| {
                let what = "this installation's own AWS credentials cannot be had";
                PortError::new(ErrorKind::Denied, what)
            });
        }
        let key = (cluster.region.clone(), identity.clone());
        let region = Region::new(cluster.region.clone());
        let sts = aws_sdk_sts::config::Builder::from(self.installation.settings().await);
        let sts = aws_sdk_sts::Client::from_conf(sts.region(region).build());
        self.roles
            .get(key, now, assume(sts, identity.clone()))
            .await
    }

    /// `https://SERVICE.REGION.DOMAIN`, or the emulator that the environment names.
    async fn endpoint(&self, service: &str, cluster: &EksCluster) -> Result<String> {
        if let Some(endpoint) = self.installation.settings().await.endpoint_url() {
            return Ok(endpoint.trim_end_matches('/').to_owned());
        }
        let partition = cluster.partition.as_str();
        let known = DOMAINS.iter().find(|(name, _)| *name == partition);
        match known {
            Some((_, domain)) => Ok(format!("https://{service}.{}.{domain}", cluster.region)),
            None => Err(PortError::new(
                ErrorKind::Unsupported,
                format!("clusters of AWS's partition '{partition}' are not supported"),
            )),
        }
    }
}

/// A role's credentials and their end, for the token of a service account that it trusts.
async fn assume(
    sts: aws_sdk_sts::Client,
    identity: EksIdentity,
) -> Result<(Credentials, Duration)> {
    let broken = |what: &str| PortError::new(ErrorKind::Unreadable, what);
    let EksIdentity::Role {
        arn,
        session,
        token,
    } = identity
    else {
        return Err(broken(
            "the installation's own role is not taken by a token",
        ));
    };
    let what = format!("take the role '{arn}' with the service account's token");
    let given = sts
        .assume_role_with_web_identity()
        .role_arn(&arn)
        .role_session_name(session)
        .web_identity_token(token.secret.expose_str().unwrap_or_default())
        .send()
        .await
        .map_err(|error| to_error(&what, &error))?;
    let given = given
        .credentials
        .ok_or_else(|| broken("STS gave a role without credentials"))?;
    let ends = Duration::from_secs(u64::try_from(given.expiration.secs()).unwrap_or_default());
    let credentials = Credentials::new(
        given.access_key_id,
        given.secret_access_key,
        Some(given.session_token),
        Some(UNIX_EPOCH + ends),
        "AssumeRoleWithWebIdentity",
    );
    Ok((credentials, ends))
}
