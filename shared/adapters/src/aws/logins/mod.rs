//! Logins to what Amazon runs: clusters (EKS) and registries (ECR), as the installation or as the role of a service account, which STS
//! gives for that account's token (AssumeRoleWithWebIdentity).

mod ecr;
mod eks;
mod sign;

use super::error::to_error;
use super::role::Installation;
use crate::cloud_http;
use crate::expiring_cache::ExpiringCache;
use crate::tenant_http::Clients;
use async_trait::async_trait;
use aws_config::{Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, ProvideCredentials};
use bytes::Bytes;
use driftless_core::ports::{
    Aws, AwsIdentity, ClusterEndpoint, EcrRegistry, EksCluster, ErrorKind, PortError, RegistryLogin,
    Result, Token,
};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How long it is believed where a cluster is.
const PLACE_LIFE: Duration = Duration::from_secs(15 * 60);

/// Every cluster of EKS, and every registry of ECR.
#[derive(Clone, Default)]
pub struct AwsLogins(Arc<Shared>);

#[derive(Default)]
struct Shared {
    installation: Installation,
    clients: Clients,
    roles: ExpiringCache<(String, AwsIdentity), Credentials>,
    places: ExpiringCache<(EksCluster, AwsIdentity), ClusterEndpoint>,
    tokens: ExpiringCache<(EksCluster, AwsIdentity), Token>,
    registries: ExpiringCache<(EcrRegistry, AwsIdentity), RegistryLogin>,
}

impl AwsLogins {
    /// Nothing known yet; the installation's own role is what the environment says when it is asked for.
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
impl Aws for AwsLogins {
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint> {
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
        identity: &AwsIdentity,
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

    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<RegistryLogin> {
        let key = (registry.clone(), identity.clone());
        let (shared, (registry, identity)) = (self.0.clone(), key.clone());
        let make = async move { shared.registry(&registry, &identity, now).await };
        self.0.registries.get(key, now, make).await
    }
}

impl Shared {
    /// Credentials of an identity for the services of a region.
    async fn credentials(
        &self,
        region: &str,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Credentials> {
        if *identity == AwsIdentity::Installation {
            let role = self.installation.role().await?;
            return role.provide_credentials().await.map_err(|_| {
                let what = "this installation's own AWS credentials cannot be had";
                PortError::new(ErrorKind::Denied, what)
            });
        }
        let key = (region.to_owned(), identity.clone());
        let region = Region::new(region.to_owned());
        let sts = aws_sdk_sts::config::Builder::from(self.installation.settings().await);
        let sts = aws_sdk_sts::Client::from_conf(sts.region(region).build());
        self.roles
            .get(key, now, assume(sts, identity.clone()))
            .await
    }

    /// The emulator that the environment names, else the service itself.
    async fn endpoint(&self, service: String) -> String {
        match self.installation.settings().await.endpoint_url() {
            Some(emulator) => emulator.trim_end_matches('/').to_owned(),
            None => format!("https://{service}"),
        }
    }

    async fn ask(&self, request: http::Request<Vec<u8>>) -> Result<Bytes> {
        // An emulator's address is the operator's own word.
        let is_emulator = self.installation.settings().await.endpoint_url().is_some();
        cloud_http::ask(&self.clients, request, is_emulator).await
    }
}

/// A role's credentials and their end, for the token of a service account that it trusts.
async fn assume(
    sts: aws_sdk_sts::Client,
    identity: AwsIdentity,
) -> Result<(Credentials, Duration)> {
    let broken = |what: &str| PortError::new(ErrorKind::Unreadable, what);
    let AwsIdentity::Role {
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
