//! Google Cloud: tokens of its security token service for a service account's token, which may
//! impersonate a Google service account, and endpoints of clusters (GKE).
//!
//! The requests are those of golang.org/x/oauth2's external accounts and container/v1, as
//! github.com/fluxcd/pkg/auth 0.54 uses them.

use super::{CloudHosts, ENDPOINT_TTL, LoginQuery, Services, TokenResponse, unreadable};
use crate::expiring_cache::ExpiringCache;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_core::ports::{
    ClusterEndpoint, ErrorKind, GkeCluster, Google, GoogleIdentity, PortError, Result, Secret,
    Token,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
const EMAIL: &str = "https://www.googleapis.com/auth/userinfo.email";

/// The adapter of the port [`Google`], with caches of tokens and endpoints.
#[derive(Clone, Default)]
pub struct GoogleLogins(Arc<Shared>);

#[derive(Default)]
struct Shared {
    services: Services,
    tokens: ExpiringCache<GoogleIdentity, Token>,
    endpoints: ExpiringCache<(GkeCluster, GoogleIdentity), ClusterEndpoint>,
}

impl GoogleLogins {
    /// Creates the adapter with empty caches.
    pub fn new(hosts: CloudHosts) -> Self {
        let services = Services {
            hosts,
            ..Services::default()
        };
        Self(Arc::new(Shared {
            services,
            ..Shared::default()
        }))
    }
}

#[async_trait]
impl Google for GoogleLogins {
    async fn describe(
        &self,
        cluster: &GkeCluster,
        identity: &GoogleIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint> {
        let key = (cluster.clone(), identity.clone());
        let (shared, (cluster, identity)) = (self.0.clone(), key.clone());
        let make = async move {
            let endpoint = shared.describe(&cluster, &identity, now).await?;
            Ok((endpoint, now + ENDPOINT_TTL))
        };
        self.0.endpoints.get(key, now, make).await
    }

    async fn token(&self, identity: &GoogleIdentity, now: Duration) -> Result<Token> {
        self.0.token(identity, now).await
    }
}

/// The answer with a token of the Google service account that a principal impersonates.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Impersonated {
    access_token: String,
    expire_time: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ClusterDescription {
    endpoint: String,
    master_auth: MasterAuth,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MasterAuth {
    cluster_ca_certificate: String,
}

impl Shared {
    async fn token(self: &Arc<Self>, identity: &GoogleIdentity, now: Duration) -> Result<Token> {
        let (shared, principal) = (self.clone(), identity.clone());
        let make = async move {
            let token = shared.exchange(&principal, now).await?;
            let token = match &principal.account {
                Some(account) => shared.act_as(account, &token).await?,
                None => token,
            };
            let end = token.expires;
            Ok((token, end))
        };
        self.tokens.get(identity.clone(), now, make).await
    }

    /// Exchanges the service account's token for one of the principal.
    async fn exchange(&self, identity: &GoogleIdentity, now: Duration) -> Result<Token> {
        let scope = match identity.account {
            Some(_) => PLATFORM.to_owned(),
            None => format!("{PLATFORM} {EMAIL}"),
        };
        let form = [
            ("audience", identity.provider.as_str()),
            (
                "grant_type",
                "urn:ietf:params:oauth:grant-type:token-exchange",
            ),
            (
                "requested_token_type",
                "urn:ietf:params:oauth:token-type:access_token",
            ),
            ("scope", &scope),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
            (
                "subject_token",
                identity.token.secret.expose_str().unwrap_or_default(),
            ),
        ];
        let place = "sts.googleapis.com/v1/token";
        let answer = self.services.ask(place, LoginQuery::Form(&form), None);
        answer.await.map(|answer: TokenResponse| answer.at(now))
    }

    async fn act_as(&self, account: &str, principal: &Token) -> Result<Token> {
        let place = format!(
            "iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
        );
        let body = json!({"lifetime": "3600s", "scope": [PLATFORM, EMAIL]});
        let query = LoginQuery::Json(&body);
        let given: Impersonated = self.services.ask(&place, query, Some(principal)).await?;
        let end: Option<Timestamp> = given.expire_time.parse().ok();
        let end = end.and_then(|end| u64::try_from(end.as_second()).ok());
        Ok(Token {
            secret: Secret::new(given.access_token),
            expires: Duration::from_secs(end.ok_or_else(|| unreadable(&place))?),
        })
    }

    async fn describe(
        self: &Arc<Self>,
        cluster: &GkeCluster,
        identity: &GoogleIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint> {
        let token = self.token(identity, now).await?;
        let place = format!("container.googleapis.com/v1/{}", cluster.name);
        let described: ClusterDescription = self
            .services
            .ask(&place, LoginQuery::Get, Some(&token))
            .await?;
        let authority = described.master_auth.cluster_ca_certificate;
        if described.endpoint.is_empty() || authority.is_empty() {
            let message = "the cluster has no endpoint yet";
            return Err(PortError::new(ErrorKind::Unavailable, message));
        }
        Ok(ClusterEndpoint {
            address: described.endpoint,
            certificate_authority: STANDARD.decode(authority).map_err(|_| unreadable(&place))?,
        })
    }
}
