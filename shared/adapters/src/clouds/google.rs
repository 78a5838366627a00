//! Google Cloud: tokens of its security token service for a service account's token, which may
//! impersonate a Google service account, and endpoints of clusters (GKE).
//!
//! The requests are those of golang.org/x/oauth2's external accounts and container/v1, as
//! github.com/fluxcd/pkg/auth 0.54 uses them.

use super::{CloudHosts, LoginQuery, Services, TokenResponse, unreadable};
use crate::expiring_cache::{ENDPOINT_TTL, ExpiringCache, expiring};
use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftless_kernel::ports::{
    ClusterEndpoint, ErrorKind, GkeCluster, Google, GoogleIdentity, GoogleKey, GoogleLogin,
    PortError, Result, Secret, Token,
};
use jiff::Timestamp;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The service that issues tokens for assertions.
const AUDIENCE: &str = "https://oauth2.googleapis.com/token";
/// The life of an assertion in seconds.
const ASSERTION_LIFETIME: u64 = 3600;
const PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
const EMAIL: &str = "https://www.googleapis.com/auth/userinfo.email";

/// The adapter of the port [`Google`], with caches of tokens and endpoints.
#[derive(Clone, Default)]
pub struct GoogleLogins(pub(super) Arc<Shared>);

#[derive(Default)]
pub(super) struct Shared {
    pub(super) services: Services,
    tokens: ExpiringCache<GoogleIdentity, Token>,
    endpoints: ExpiringCache<(GkeCluster, GoogleIdentity), ClusterEndpoint>,
    tokens_of_keys: ExpiringCache<GoogleLogin, Token>,
}

impl GoogleLogins {
    /// Creates the adapter with empty caches.
    pub fn new(hosts: CloudHosts) -> Self {
        Self(Arc::new(Shared {
            services: Services::new(hosts),
            ..Shared::default()
        }))
    }
}

impl GoogleLogins {
    /// Decrypts a data key, as the port's method does.
    pub(crate) async fn decrypt(
        &self,
        key: &GoogleKey,
        ciphertext: &str,
        login: &GoogleLogin,
        now: Duration,
    ) -> Result<Secret> {
        let token = self.0.token_of(login, now).await?;
        let place = format!("cloudkms.googleapis.com/v1/{}:decrypt", key.name);
        let body = json!({"ciphertext": ciphertext});
        let query = LoginQuery::Json(&body);
        let answer: Decrypted = self.0.services.ask(&place, query, Some(&token)).await?;
        let plaintext = STANDARD.decode(answer.plaintext);
        plaintext.map(Secret::new).map_err(|_| unreadable(&place))
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
        let shared = self.0.clone();
        let make = |(cluster, identity)| async move {
            let endpoint = shared.describe(&cluster, &identity, now).await?;
            Ok((endpoint, now + ENDPOINT_TTL))
        };
        let key = (cluster.clone(), identity.clone());
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

/// The answer of a decryption: the plaintext as base64.
#[derive(Deserialize)]
struct Decrypted {
    plaintext: String,
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
    /// Returns a token for everything that a login may do.
    pub(super) async fn token_of(
        self: &Arc<Self>,
        login: &GoogleLogin,
        now: Duration,
    ) -> Result<Token> {
        match login {
            GoogleLogin::Principal(identity) => self.token(identity, now).await,
            GoogleLogin::ServiceAccountKey { .. } => self.token_of_key(login, now).await,
        }
    }

    async fn token(self: &Arc<Self>, identity: &GoogleIdentity, now: Duration) -> Result<Token> {
        let shared = self.clone();
        let make = |principal: GoogleIdentity| async move {
            let token = shared.exchange(&principal, now).await?;
            let token = match &principal.account {
                Some(account) => shared.act_as(account, &token).await?,
                None => token,
            };
            Ok(expiring(token))
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

    /// Returns a token of a service account for an assertion that its key signs (RFC 7523).
    async fn token_of_key(self: &Arc<Self>, login: &GoogleLogin, now: Duration) -> Result<Token> {
        let shared = self.clone();
        let make = |login| async move {
            let assertion = assertion(&login, now)?;
            let form = [
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("assertion", &assertion),
            ];
            let query = LoginQuery::Form(&form);
            let answer = shared
                .services
                .ask("oauth2.googleapis.com/token", query, None);
            let token = answer.await.map(|answer: TokenResponse| answer.at(now))?;
            Ok(expiring(token))
        };
        self.tokens_of_keys.get(login.clone(), now, make).await
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

/// Returns the signed assertion that a request comes from a service account.
fn assertion(login: &GoogleLogin, now: Duration) -> Result<String> {
    let invalid = || {
        let message = "the private key of the service account is not valid: expected PEM of PKCS #8 with an RSA key";
        PortError::new(ErrorKind::Invalid, message)
    };
    let GoogleLogin::ServiceAccountKey {
        email,
        id,
        private_key,
    } = login
    else {
        return Err(invalid());
    };
    let key = PrivatePkcs8KeyDer::from_pem_slice(private_key.expose()).map_err(|_| invalid())?;
    let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).map_err(|_| invalid())?;
    let head = json!({"alg": "RS256", "typ": "JWT", "kid": id});
    let claims = json!({"iss": email, "scope": PLATFORM, "aud": AUDIENCE, "iat": now.as_secs(),
        "exp": now.as_secs() + ASSERTION_LIFETIME});
    let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&head), encode(&claims));
    let mut signature = vec![0; key.public_modulus_len()];
    let random = SystemRandom::new();
    key.sign(
        &RSA_PKCS1_SHA256,
        &random,
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| invalid())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
