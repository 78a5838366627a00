//! Logins to Amazon's clusters (EKS), registries (ECR), Git repositories (CodeCommit) and keys
//! (KMS): as the installation, as the role of a service account, which STS grants for that
//! account's token (AssumeRoleWithWebIdentity), or with an access key.

mod code_commit;
mod ecr;
mod eks;
mod kms;
mod sign;

use super::error::to_error;
use super::role::Installation;
use crate::cloud_http;
use crate::expiring_cache::{ENDPOINT_TTL, ExpiringCache, expiring};
use crate::tenant_http::Clients;
use async_trait::async_trait;
use aws_config::{Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, ProvideCredentials, SharedCredentialsProvider};
use bytes::Bytes;
use driftless_kernel::ports::{
    Aws, AwsIdentity, ClusterEndpoint, CodeCommit, EcrRegistry, EksCluster, ErrorKind, PortError,
    RegistryLogin, Result, Secret, Token,
};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The names of the partitions with their domains.
const DOMAINS: [(&str, &str); 6] = [
    ("aws", "amazonaws.com"),
    ("aws-us-gov", "amazonaws.com"),
    ("aws-cn", "amazonaws.com.cn"),
    ("aws-eusc", "amazonaws.eu"),
    ("aws-iso", "c2s.ic.gov"),
    ("aws-iso-b", "sc2s.sgov.gov"),
];

/// The adapter of the port [`Aws`], with caches of roles, endpoints and tokens.
#[derive(Clone, Default)]
pub struct AwsLogins(Arc<Shared>);

#[derive(Default)]
struct Shared {
    installation: Installation,
    clients: Clients,
    /// The credentials of roles, by the region and address of the STS.
    roles: ExpiringCache<(String, AwsIdentity), Credentials>,
    endpoints: ExpiringCache<(EksCluster, AwsIdentity), ClusterEndpoint>,
    tokens: ExpiringCache<(EksCluster, AwsIdentity), Token>,
    registries: ExpiringCache<(EcrRegistry, AwsIdentity), RegistryLogin>,
    repositories: ExpiringCache<(CodeCommit, AwsIdentity), RegistryLogin>,
    /// The credentials of roles that SOPS files name, by region, role and the identity that assumes
    /// the role.
    assumed: ExpiringCache<(String, String, AwsIdentity), Credentials>,
}

impl AwsLogins {
    /// Creates the adapter; the installation's own role is read from the environment when it is
    /// first needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the adapter with the installation's role from loaded settings.
    pub fn with_role(settings: &SdkConfig) -> Self {
        Self(Arc::new(Shared {
            installation: Installation::from_settings(settings),
            ..Shared::default()
        }))
    }

    /// Returns the credentials of an identity for requests to buckets of a region; a role is
    /// assumed at the address of `sts`, or else at the region's own STS.
    pub(crate) async fn for_buckets(
        &self,
        region: &str,
        identity: &AwsIdentity,
        sts: Option<&str>,
        now: Duration,
    ) -> Result<SharedCredentialsProvider> {
        if *identity == AwsIdentity::Installation {
            return self.0.installation.role().await;
        }
        let credentials = self.0.credentials_of(region, identity, sts, now).await?;
        Ok(SharedCredentialsProvider::new(credentials))
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
        let shared = self.0.clone();
        let make = |(cluster, identity)| async move {
            let endpoint = shared.describe(&cluster, &identity, now).await?;
            Ok((endpoint, now + ENDPOINT_TTL))
        };
        let key = (cluster.clone(), identity.clone());
        self.0.endpoints.get(key, now, make).await
    }

    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Token> {
        let shared = self.0.clone();
        let make = |(cluster, identity)| async move {
            shared.token(&cluster, &identity, now).await.map(expiring)
        };
        let key = (cluster.clone(), identity.clone());
        self.0.tokens.get(key, now, make).await
    }

    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<RegistryLogin> {
        let shared = self.0.clone();
        let make =
            |(registry, identity)| async move { shared.registry(&registry, &identity, now).await };
        let key = (registry.clone(), identity.clone());
        self.0.registries.get(key, now, make).await
    }

    async fn git(
        &self,
        repository: &CodeCommit,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<RegistryLogin> {
        let shared = self.0.clone();
        let make =
            |(repository, identity)| async move { shared.git(&repository, &identity, now).await };
        let key = (repository.clone(), identity.clone());
        self.0.repositories.get(key, now, make).await
    }
}

impl Shared {
    /// Returns the credentials of an identity for the services of a region.
    async fn credentials(
        &self,
        region: &str,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Credentials> {
        self.credentials_of(region, identity, None, now).await
    }

    /// Returns the credentials of an identity, from the STS of this address or of the region.
    async fn credentials_of(
        &self,
        region: &str,
        identity: &AwsIdentity,
        sts: Option<&str>,
        now: Duration,
    ) -> Result<Credentials> {
        match identity {
            AwsIdentity::Installation => {
                let role = self.installation.role().await?;
                return role.provide_credentials().await.map_err(|_| {
                    let message = "cannot load the installation's AWS credentials";
                    PortError::new(ErrorKind::Denied, message)
                });
            }
            AwsIdentity::AccessKey {
                id,
                secret,
                session,
            } => {
                let text = |secret: &Secret| secret.expose_str().map(str::to_owned);
                let session = session.as_ref().and_then(text);
                let secret = text(secret).unwrap_or_default();
                return Ok(Credentials::new(id, secret, session, None, "AccessKey"));
            }
            AwsIdentity::Role { .. } => {}
        }
        // The emulator that the environment names replaces every address.
        let settings = self.installation.settings().await;
        let address = sts.filter(|_| settings.endpoint_url().is_none());
        let place = format!("{region} {}", address.unwrap_or_default());
        let key = (place, identity.clone());
        let region = Region::new(region.to_owned());
        let mut sts = aws_sdk_sts::config::Builder::from(settings).region(region);
        if let Some(address) = address {
            sts = sts.endpoint_url(address);
        }
        let sts = aws_sdk_sts::Client::from_conf(sts.build());
        self.roles
            .get(key, now, |(_, identity)| assume(sts, identity))
            .await
    }

    /// Returns the URL of the emulator that the environment names, or else of the service itself.
    async fn endpoint(&self, service: String) -> String {
        match self.installation.settings().await.endpoint_url() {
            Some(emulator) => emulator.trim_end_matches('/').to_owned(),
            None => format!("https://{service}"),
        }
    }

    async fn ask(&self, request: http::Request<Vec<u8>>) -> Result<Bytes> {
        // The operator configured an emulator's address, so it may be local.
        let is_emulator = self.installation.settings().await.endpoint_url().is_some();
        cloud_http::ask(&self.clients, request, is_emulator).await
    }
}

/// Requests a role's credentials with the token of a service account; returns them with their
/// expiry.
async fn assume(
    sts: aws_sdk_sts::Client,
    identity: AwsIdentity,
) -> Result<(Credentials, Duration)> {
    let broken = |message: &str| PortError::new(ErrorKind::Unreadable, message);
    let AwsIdentity::Role {
        arn,
        session,
        token,
    } = identity
    else {
        return Err(broken("only a role is assumed with a token"));
    };
    let operation = format!("assume the role '{arn}' with the service account's token");
    let given = sts
        .assume_role_with_web_identity()
        .role_arn(&arn)
        .role_session_name(session)
        .web_identity_token(token.secret.expose_str().unwrap_or_default())
        .send()
        .await
        .map_err(|error| to_error(&operation, &error))?;
    granted(given.credentials, "AssumeRoleWithWebIdentity")
}

/// Returns the credentials that STS has granted, with their expiry.
fn granted(
    given: Option<aws_sdk_sts::types::Credentials>,
    operation: &'static str,
) -> Result<(Credentials, Duration)> {
    let given = given.ok_or_else(|| {
        let message = "the answer of STS has no credentials";
        PortError::new(ErrorKind::Unreadable, message)
    })?;
    let ends = Duration::from_secs(u64::try_from(given.expiration.secs()).unwrap_or_default());
    let credentials = Credentials::new(
        given.access_key_id,
        given.secret_access_key,
        Some(given.session_token),
        Some(UNIX_EPOCH + ends),
        operation,
    );
    Ok((credentials, ends))
}

/// Returns the host of a service, `SERVICE.REGION.DOMAIN`.
fn host(service: &str, region: &str, partition: &str) -> Result<String> {
    match DOMAINS.iter().find(|(name, _)| *name == partition) {
        Some((_, domain)) => Ok(format!("{service}.{region}.{domain}")),
        None => Err(PortError::new(
            ErrorKind::Unsupported,
            format!("services of the AWS partition '{partition}' are not supported"),
        )),
    }
}
