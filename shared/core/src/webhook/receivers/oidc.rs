//! Deliveries with a token of an OIDC issuer (type `generic-oidc`), as notification-controller 1.10
//! verifies them: the issuer's discovery document names its keys, and the Receiver's expressions
//! decide over the claims.
//!
//! A token proves who sends, not what: it is not over the body, and may be sent again until it
//! expires.

use super::token::{self, Request};
use crate::webhook::{Delivery, Refusal};
use driftless_flux::{OidcProvider, Receiver};
use driftless_kernel::context::step_fuel;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ErrorKind, PortError, Ports};
use driftless_plans::health::ClaimsCheck;
use driftless_verify::key::{Hash, Jwk, PublicKey, Scheme};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// The path of the discovery document below the issuer's address.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// The most bytes of a discovery document, or of keys.
const MAX_ANSWER: u64 = 256 << 10;
/// The timeout of a request to an issuer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The most keys of an issuer that are tried.
const MAX_KEYS: usize = 32;
/// The tolerance of `nbf`, as in go-oidc.
const LEEWAY: f64 = 300.0;
/// The time for which the keys of an issuer are reused.
const TTL: Duration = Duration::from_secs(300);
/// The time between two requests to an issuer for a key that it did not have, or that failed:
/// forged tokens must not cause more.
const PAUSE: Duration = Duration::from_secs(10);
/// The number of issuers whose keys are cached.
const CAPACITY: usize = 32;

/// The algorithms of signatures by name. Symmetric ones and `none` are not among them.
const ALGORITHMS: [(&str, Scheme); 10] = [
    ("RS256", Scheme::Pkcs1(Hash::Sha256)),
    ("RS384", Scheme::Pkcs1(Hash::Sha384)),
    ("RS512", Scheme::Pkcs1(Hash::Sha512)),
    ("PS256", Scheme::Pss(Hash::Sha256)),
    ("PS384", Scheme::Pss(Hash::Sha384)),
    ("PS512", Scheme::Pss(Hash::Sha512)),
    ("ES256", Scheme::EcdsaFixed(Hash::Sha256)),
    ("ES384", Scheme::EcdsaFixed(Hash::Sha384)),
    ("ES512", Scheme::EcdsaFixed(Hash::Sha512)),
    ("EdDSA", Scheme::Ed25519),
];

/// A token whose claims can be any object.
type Token<'t> = token::Token<'t, Map<String, Value>>;

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
    #[serde(default)]
    id_token_signing_alg_values_supported: Vec<String>,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Value>,
}

/// The keys of an issuer, and the algorithms that it signs tokens with.
struct Issuer {
    algorithms: Vec<String>,
    keys: Vec<(String, PublicKey)>,
}

/// The keys of an issuer at a time, or that it did not answer.
struct Cached {
    address: String,
    allow_local: bool,
    at: Duration,
    issuer: Option<Arc<Issuer>>,
}

/// The keys of issuers, the most recently requested first. They are public, and the same for every
/// Receiver.
static CACHE: LazyLock<Mutex<Vec<Cached>>> = LazyLock::new(Mutex::default);

/// Checks the token of a delivery; returns its claims for the filters.
///
/// # Errors
/// [`Refusal::Invalid`], with the messages of the Receiver's validations that are false;
/// [`Refusal::Unavailable`] if the issuer does not answer.
pub(super) async fn verify(
    ports: &Ports,
    hub: &Hub,
    receiver: &Receiver,
    delivery: &Delivery<'_>,
) -> Result<Value, Refusal> {
    let bearer = (delivery.header)("authorization").unwrap_or_default();
    let token = bearer.strip_prefix("Bearer ").unwrap_or_default().trim();
    let mut token = Token::parse(token).ok_or_else(|| {
        refuse("the header Authorization has no token of OIDC: expected Bearer TOKEN")
    })?;
    let providers = receiver.spec.oidc_providers.as_deref().unwrap_or_default();
    let claims = Value::Object(std::mem::take(&mut token.claims));
    let issuer = claims["iss"].as_str().unwrap_or_default();
    let provider = providers.iter().find(|one| one.issuer_url == issuer);
    let provider = provider.ok_or_else(|| {
        refuse("the issuer of the token is not one of spec.oidcProviders of the Receiver")
    })?;
    // The claims are checked before the keys are requested: a token that is refused anyway costs
    // the issuer nothing.
    check_claims(&claims, provider.audience(), ports.clock.now())?;
    let allow_local = hub.settings.allow_local_clusters;
    check_signature(ports, provider, allow_local, &token).await?;
    let check = ClaimsCheck::parse(provider, &step_fuel()).map_err(|_| Refusal::Failed)?;
    let (result, claims) = ports
        .compute(move || (check.check(&claims), claims))
        .await?;
    result.map_err(|error| Refusal::Invalid(error.to_string()))?;
    Ok(claims)
}

fn refuse(message: &str) -> Refusal {
    Refusal::Invalid(message.to_owned())
}

/// Checks the audience and the times of a token.
fn check_claims(claims: &Value, audience: &str, now: Duration) -> Result<(), Refusal> {
    let is_for = |value: &Value| value.as_str() == Some(audience);
    let has_audience = match &claims["aud"] {
        Value::Array(all) => all.iter().any(is_for),
        one => is_for(one),
    };
    if !has_audience {
        return Err(refuse(
            "the audience of the token is not that of the Receiver",
        ));
    }
    let now = now.as_secs_f64();
    let time = |name: &str| claims[name].as_f64();
    if time("exp").is_none_or(|end| end < now) {
        return Err(refuse("the token is expired"));
    }
    match time("nbf").is_some_and(|start| start > now + LEEWAY) {
        true => Err(refuse("the token is not valid yet")),
        false => Ok(()),
    }
}

/// Checks the signature of a token with the keys of its issuer. They are requested again if none of
/// the cached ones made it, because issuers rotate their keys.
async fn check_signature(
    ports: &Ports,
    provider: &OidcProvider,
    allow_local: bool,
    token: &Token<'_>,
) -> Result<(), Refusal> {
    let address = &provider.issuer_url;
    let now = ports.clock.now();
    let known = cached(address, allow_local);
    let age = known.as_ref().map(|(at, _)| now.saturating_sub(*at));
    let is_recent = age.is_some_and(|age| age < PAUSE);
    let is_fresh = age.is_some_and(|age| age < TTL);
    if let Some((_, Some(issuer))) = &known
        && is_fresh
        && is_signed(token, issuer)
    {
        return Ok(());
    }
    let issuer = match known {
        Some((_, issuer)) if is_recent => issuer,
        _ => {
            let fetched = fetch(ports, address, allow_local).await;
            if let Err(error) = &fetched {
                tracing::warn!("keys of the OIDC issuer of a Receiver: {error}");
            }
            let issuer = fetched.ok().map(Arc::new);
            keep(address, allow_local, now, issuer.clone());
            issuer
        }
    };
    match issuer {
        None => {
            let message = format!("the keys of the OIDC issuer '{address}' cannot be read");
            Err(PortError::new(ErrorKind::Unavailable, message).into())
        }
        Some(issuer) if is_signed(token, &issuer) => Ok(()),
        Some(_) => Err(refuse(
            "the signature of the token is wrong, or of an algorithm that the issuer does not use",
        )),
    }
}

fn cached(address: &str, allow_local: bool) -> Option<(Duration, Option<Arc<Issuer>>)> {
    let cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |one: &&Cached| one.address == address && one.allow_local == allow_local;
    cache
        .iter()
        .find(is_same)
        .map(|one| (one.at, one.issuer.clone()))
}

fn keep(address: &str, allow_local: bool, at: Duration, issuer: Option<Arc<Issuer>>) {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.retain(|one| one.address != address || one.allow_local != allow_local);
    let address = address.to_owned();
    cache.insert(
        0,
        Cached {
            address,
            allow_local,
            at,
            issuer,
        },
    );
    cache.truncate(CAPACITY);
}

/// Requests the discovery document of an issuer, and its keys.
async fn fetch(ports: &Ports, address: &str, allow_local: bool) -> Result<Issuer, PortError> {
    let invalid = |message: String| PortError::new(ErrorKind::Invalid, message);
    let url = format!(
        "{}{DISCOVERY}",
        address.strip_suffix('/').unwrap_or(address)
    );
    let found: Discovery = get(ports, &url, allow_local).await?;
    if found.issuer != address {
        return Err(invalid(format!(
            "'{url}' is the document of another issuer"
        )));
    }
    let keys: Keys = get(ports, &found.jwks_uri, allow_local).await?;
    let keys = keys.keys.into_iter().take(MAX_KEYS).filter_map(|value| {
        let key: Jwk = serde_json::from_value(value).ok()?;
        let read = PublicKey::from_jwk(&key)?;
        Some((key.kid, read))
    });
    let mut algorithms = found.id_token_signing_alg_values_supported;
    algorithms.retain(|name| ALGORITHMS.iter().any(|(known, _)| known == name));
    if algorithms.is_empty() {
        algorithms.push("RS256".to_owned());
    }
    Ok(Issuer {
        algorithms,
        keys: keys.collect(),
    })
}

async fn get<T: serde::de::DeserializeOwned>(
    ports: &Ports,
    url: &str,
    allow_local: bool,
) -> Result<T, PortError> {
    if !allow_local && !url.starts_with("https://") {
        let message = "the address of an OIDC issuer or of its keys is not https";
        return Err(PortError::new(ErrorKind::Invalid, message));
    }
    let request = Request {
        url,
        allow_local,
        timeout: TIMEOUT,
        limit: MAX_ANSWER,
        unreadable: "an OIDC issuer: unexpected content of the answer",
    };
    request.send(ports).await
}

/// Returns whether a key of the issuer made the signature: the one that the header names, or any if
/// it names none.
fn is_signed(token: &Token<'_>, issuer: &Issuer) -> bool {
    let token::Header { alg, kid } = &token.header;
    let known = ALGORITHMS.iter().find(|(name, _)| name == alg);
    let Some((_, scheme)) = known.filter(|_| issuer.algorithms.contains(alg)) else {
        return false;
    };
    let keys = issuer.keys.iter();
    let mut named = keys.filter(|(id, _)| kid.is_empty() || id == kid);
    named.any(|(_, key)| token.is_signed_by(key, *scheme))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    #[test]
    fn audiences_and_times() {
        let now = Duration::from_secs(1_000);
        let check = |claims: Value| check_claims(&claims, "flux", now).is_ok();
        for claims in [
            json!({"aud": "flux", "exp": 1_001}),
            json!({"aud": ["a", "flux"], "exp": 1_000.5, "nbf": 1_299}),
        ] {
            assert!(check(claims.clone()), "{claims}");
        }
        for claims in [
            json!({}),
            json!({"aud": "flux"}),
            json!({"aud": "flux", "exp": 999}),
            json!({"aud": "flux", "exp": "1001"}),
            json!({"aud": "flux2", "exp": 1_001}),
            json!({"aud": [], "exp": 1_001}),
            json!({"aud": {"flux": 1}, "exp": 1_001}),
            json!({"aud": "flux", "exp": 2_000, "nbf": 1_301}),
        ] {
            assert!(!check(claims.clone()), "{claims}");
        }
    }

    #[test]
    fn tokens_that_are_not_tokens() {
        let object = URL_SAFE_NO_PAD.encode("{}");
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg": "none"}"#);
        let list = URL_SAFE_NO_PAD.encode("[]");
        assert!(Token::parse(&format!("{header}.{object}.")).is_some());
        for text in [
            "",
            "a.b",
            "a.b.c",
            &format!("{object}.{object}."),
            &format!("{header}.{list}."),
            &format!("{header}.{object}.%"),
            &format!("{header}.{object}"),
        ] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
    }
}
