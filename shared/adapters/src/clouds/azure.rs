//! Microsoft Azure: tokens of Entra ID for a service account's token, logins to registries (ACR),
//! and endpoints of clusters (AKS).
//!
//! The requests are those of azidentity's client assertions, azcontainerregistry's exchange and
//! armcontainerservice, as github.com/fluxcd/pkg/auth 0.54 uses them.

use super::{CloudHosts, LoginQuery, Services, TokenResponse, unreadable};
use crate::expiring_cache::{ENDPOINT_TTL, ExpiringCache, expiring};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftless_kernel::kubeconfig;
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Azure, AzureKey, ClusterEndpoint, EntraIdentity, EntraProof,
    ErrorKind, PortError, RegistryLogin, Result, Secret, Token,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The scope of a token for the API server of any cluster.
const AKS: &str = "6dae42f8-4368-4678-94ff-3960e28e3630/.default";
/// The scope of a token for Azure DevOps.
const DEVOPS: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";
/// The scope of a token for Azure Event Hubs.
const EVENT_HUBS: &str = "https://eventhubs.azure.net//.default";
const ACR: &str = "https://containerregistry.azure.net/.default";
/// The user name for a login to a registry with a token.
const TOKEN_USER: &str = "00000000-0000-0000-0000-000000000000";

/// A cloud of Azure: the hosts of its Entra ID and its resource manager.
#[derive(Debug, PartialEq, Eq)]
struct Cloud {
    authority: &'static str,
    manager: &'static str,
    manager_scope: &'static str,
}

const PUBLIC: Cloud = Cloud {
    authority: "login.microsoftonline.com",
    manager: "management.azure.com",
    manager_scope: "https://management.core.windows.net//.default",
};
const CHINA: Cloud = Cloud {
    authority: "login.chinacloudapi.cn",
    manager: "management.chinacloudapi.cn",
    manager_scope: "https://management.core.chinacloudapi.cn//.default",
};
const GOVERNMENT: Cloud = Cloud {
    authority: "login.microsoftonline.us",
    manager: "management.usgovcloudapi.net",
    manager_scope: "https://management.core.usgovcloudapi.net//.default",
};

/// Returns the cloud of an authority host of Entra ID; the public cloud if it is unknown.
fn cloud_of(authority: Option<&str>) -> &'static Cloud {
    let authority = authority.unwrap_or_default();
    let known = [&CHINA, &GOVERNMENT].into_iter();
    known
        .into_iter()
        .find(|cloud| authority.contains(cloud.authority))
        .unwrap_or(&PUBLIC)
}

/// The adapter of the port [`Azure`], with caches of tokens, logins and endpoints.
#[derive(Clone, Default)]
pub struct AzureLogins(pub(super) Arc<Shared>);

type IdentityKey<K> = (K, EntraIdentity);

#[derive(Default)]
pub(super) struct Shared {
    pub(super) services: Services,
    tokens: ExpiringCache<IdentityKey<(&'static str, &'static str)>, Token>,
    registries: ExpiringCache<IdentityKey<AcrRegistry>, RegistryLogin>,
    endpoints: ExpiringCache<IdentityKey<AksCluster>, Vec<ClusterEndpoint>>,
}

impl AzureLogins {
    /// Creates the adapter with empty caches.
    pub fn new(hosts: CloudHosts) -> Self {
        Self(Arc::new(Shared {
            services: Services::new(hosts),
            ..Shared::default()
        }))
    }
}

/// The scopes of tokens for the domains of Key Vault and managed HSMs, each with its cloud.
const VAULTS: [(&str, &str, &Cloud); 6] = [
    (
        "vault.azure.net",
        "https://vault.azure.net/.default",
        &PUBLIC,
    ),
    (
        "managedhsm.azure.net",
        "https://managedhsm.azure.net/.default",
        &PUBLIC,
    ),
    ("vault.azure.cn", "https://vault.azure.cn/.default", &CHINA),
    (
        "managedhsm.azure.cn",
        "https://managedhsm.azure.cn/.default",
        &CHINA,
    ),
    (
        "vault.usgovcloudapi.net",
        "https://vault.usgovcloudapi.net/.default",
        &GOVERNMENT,
    ),
    (
        "managedhsm.usgovcloudapi.net",
        "https://managedhsm.usgovcloudapi.net/.default",
        &GOVERNMENT,
    ),
];

impl AzureLogins {
    /// Decrypts a data key, as the port's method does.
    pub(crate) async fn decrypt(
        &self,
        key: &AzureKey,
        ciphertext: &str,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Secret> {
        let (_, scope, cloud) = VAULTS
            .into_iter()
            .find(|(domain, ..)| *domain == key.domain)
            .ok_or_else(|| {
                let message = format!("vaults of '{}' are not supported", key.domain);
                PortError::new(ErrorKind::Unsupported, message)
            })?;
        let token = self.0.token(cloud, scope, identity, now).await?;
        let AzureKey {
            host,
            name,
            version,
            ..
        } = key;
        let version = match version.as_str() {
            "" => String::new(),
            version => format!("/{version}"),
        };
        let place = format!("{host}/keys/{name}{version}/decrypt?api-version=7.4");
        let body = json!({"alg": "RSA-OAEP-256", "value": ciphertext});
        let query = LoginQuery::Json(&body);
        let answer: Decrypted = self.0.services.ask(&place, query, Some(&token)).await?;
        let plaintext = URL_SAFE_NO_PAD.decode(answer.value);
        plaintext.map(Secret::new).map_err(|_| unreadable(&place))
    }
}

#[async_trait]
impl Azure for AzureLogins {
    async fn describe(
        &self,
        cluster: &AksCluster,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Vec<ClusterEndpoint>> {
        let shared = self.0.clone();
        let make = |(cluster, identity)| async move {
            let endpoints = shared.describe(&cluster, &identity, now).await?;
            Ok((endpoints, now + ENDPOINT_TTL))
        };
        let key = (cluster.clone(), identity.clone());
        self.0.endpoints.get(key, now, make).await
    }

    async fn token(&self, identity: &EntraIdentity, now: Duration) -> Result<Token> {
        self.0.token(self.0.cloud(), AKS, identity, now).await
    }

    async fn registry(
        &self,
        registry: &AcrRegistry,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<RegistryLogin> {
        let shared = self.0.clone();
        let make =
            |(registry, identity)| async move { shared.registry(&registry, &identity, now).await };
        let key = (registry.clone(), identity.clone());
        self.0.registries.get(key, now, make).await
    }

    async fn git(&self, identity: &EntraIdentity, now: Duration) -> Result<Token> {
        self.0.token(self.0.cloud(), DEVOPS, identity, now).await
    }

    async fn event_hub(&self, identity: &EntraIdentity, now: Duration) -> Result<Token> {
        let cloud = self.0.cloud();
        self.0.token(cloud, EVENT_HUBS, identity, now).await
    }
}

/// The answer of a decryption: the plaintext as base64url.
#[derive(Deserialize)]
struct Decrypted {
    value: String,
}

#[derive(Deserialize)]
struct RefreshToken {
    refresh_token: String,
}

#[derive(Deserialize)]
struct Claims {
    exp: u64,
}

#[derive(Deserialize)]
struct ClusterDescription {
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    aad_profile: Option<Value>,
}

#[derive(Deserialize)]
struct Credentials {
    kubeconfigs: Vec<Kubeconfig>,
}

#[derive(Deserialize)]
struct Kubeconfig {
    value: String,
}

/// The domains of storage accounts, each with its cloud.
const STORAGE: [(&str, &Cloud); 4] = [
    (".blob.core.windows.net", &PUBLIC),
    (".blob.storage.azure.net", &PUBLIC),
    (".blob.core.chinacloudapi.cn", &CHINA),
    (".blob.core.usgovcloudapi.net", &GOVERNMENT),
];

/// Returns the cloud of a host of a storage account; `None` for any other host.
fn storage_cloud(host: &str) -> Option<&'static Cloud> {
    let found = STORAGE.iter().find(|(domain, _)| host.ends_with(domain));
    found.map(|(_, cloud)| *cloud)
}

/// Returns whether a host is one of a storage account at Azure.
pub(super) fn is_storage(host: &str) -> bool {
    storage_cloud(host).is_some()
}

impl Shared {
    /// Returns a token for the storage accounts of the cloud that a host belongs to.
    pub(super) async fn storage_token(
        self: &Arc<Self>,
        host: &str,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Token> {
        let Some(cloud) = storage_cloud(host) else {
            let message = format!(
                "'{host}' is not a host of Azure's storage, such as acme.blob.core.windows.net: a token is only sent there"
            );
            return Err(PortError::new(ErrorKind::Unsupported, message));
        };
        let scope = "https://storage.azure.com/.default";
        self.token(cloud, scope, identity, now).await
    }

    /// Returns the cloud that the operator configured.
    fn cloud(&self) -> &'static Cloud {
        cloud_of(self.services.hosts.azure_authority.as_deref())
    }

    /// Returns a token of Entra ID for a scope.
    async fn token(
        self: &Arc<Self>,
        cloud: &'static Cloud,
        scope: &'static str,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Token> {
        let key = ((cloud.authority, scope), identity.clone());
        let shared = self.clone();
        let make = |(_, identity): IdentityKey<_>| async move {
            let place = format!("{}/{}/oauth2/v2.0/token", cloud.authority, identity.tenant);
            let mut form = vec![
                ("grant_type", "client_credentials"),
                ("client_id", &identity.client),
                ("scope", scope),
            ];
            match &identity.proof {
                EntraProof::Token(token) => form.extend([
                    (
                        "client_assertion_type",
                        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                    ),
                    (
                        "client_assertion",
                        token.secret.expose_str().unwrap_or_default(),
                    ),
                ]),
                EntraProof::ClientSecret(secret) => {
                    form.push(("client_secret", secret.expose_str().unwrap_or_default()));
                }
            }
            let answer = shared.services.ask(&place, LoginQuery::Form(&form), None);
            let token = answer.await.map(|answer: TokenResponse| answer.at(now))?;
            Ok(expiring(token))
        };
        self.tokens.get(key, now, make).await
    }

    /// Exchanges a token of Entra ID for a registry's own token; returns it with its expiry.
    async fn registry(
        self: &Arc<Self>,
        registry: &AcrRegistry,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<(RegistryLogin, Duration)> {
        let host = registry.host.as_str();
        let cloud = match host.rsplit('.').next() {
            Some("cn") => &CHINA,
            Some("us") => &GOVERNMENT,
            _ => self.cloud(),
        };
        let token = self.token(cloud, ACR, identity, now).await?;
        let place = format!("{host}/oauth2/exchange?api-version=2021-07-01");
        let form = [
            ("grant_type", "access_token"),
            ("service", host),
            (
                "access_token",
                token.secret.expose_str().unwrap_or_default(),
            ),
        ];
        let answer = self.services.ask(&place, LoginQuery::Form(&form), None);
        let RefreshToken { refresh_token } = answer.await?;
        let end = end_of(&refresh_token).ok_or_else(|| unreadable(&place))?;
        let login = RegistryLogin {
            user: TOKEN_USER.to_owned(),
            password: Secret::new(refresh_token),
        };
        Ok((login, end))
    }

    /// Returns the endpoints of a cluster from the kubeconfigs of its users.
    async fn describe(
        self: &Arc<Self>,
        cluster: &AksCluster,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Vec<ClusterEndpoint>> {
        let cloud = self.cloud();
        let scope = cloud.manager_scope;
        let token = self.token(cloud, scope, identity, now).await?;
        let AksCluster {
            subscription,
            group,
            name,
        } = cluster;
        let base = format!(
            "{}/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.ContainerService/managedClusters/{name}",
            cloud.manager
        );
        let place = format!("{base}?api-version=2022-04-01");
        let described: ClusterDescription = self
            .services
            .ask(&place, LoginQuery::Get, Some(&token))
            .await?;
        if described
            .properties
            .aad_profile
            .is_none_or(|profile| profile.is_null())
        {
            let message = "the AKS cluster does not have Microsoft Entra ID integration enabled: enable it, so that the cluster accepts tokens";
            return Err(PortError::new(ErrorKind::Invalid, message));
        }
        let place = format!("{base}/listClusterUserCredential?api-version=2022-04-01");
        let listed: Credentials = self
            .services
            .ask(&place, LoginQuery::Post, Some(&token))
            .await?;
        let read = |one: &Kubeconfig| {
            let text = STANDARD.decode(&one.value).ok()?;
            let (address, authority) = kubeconfig::place(&text).ok()?;
            Some(ClusterEndpoint {
                address,
                certificate_authority: authority?,
            })
        };
        let endpoints: Option<Vec<ClusterEndpoint>> = listed.kubeconfigs.iter().map(read).collect();
        endpoints
            .filter(|endpoints| !endpoints.is_empty())
            .ok_or_else(|| unreadable(&place))
    }
}

/// Returns the expiry of a JWT. The signature is not checked here: the service that accepts the
/// token checks it.
fn end_of(token: &str) -> Option<Duration> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Some(Duration::from_secs(claims.exp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds() {
        assert_eq!(*cloud_of(None), PUBLIC);
        assert_eq!(
            *cloud_of(Some("https://login.microsoftonline.com/")),
            PUBLIC
        );
        assert_eq!(
            *cloud_of(Some("https://login.microsoftonline.us/")),
            GOVERNMENT
        );
        assert_eq!(*cloud_of(Some("https://login.chinacloudapi.cn")), CHINA);
    }

    #[test]
    fn the_expiry_is_read_from_the_token() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let end = end_of(&token(r#"{"exp": 1700000000, "aud": "acme.azurecr.io"}"#));
        assert_eq!(end, Some(Duration::from_secs(1_700_000_000)));
        for broken in [token("{}"), token("exp"), "e30".to_owned()] {
            assert_eq!(end_of(&broken), None);
        }
    }
}
