//! Deliveries of Google Pub/Sub for registries of Google (type `gcr`): the sender proves itself with
//! an identity token of Google.

use super::Credentials;
use super::types::malformed;
use crate::hub::Hub;
use crate::ports::{Connection, DownloadOutcome, ErrorKind, PortError, Ports, Validator};
use crate::webhook::{Delivery, Refusal};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rsa::{BigUint, Pkcs1v15Sign, RsaPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The address of the keys that Google signs identity tokens with.
const KEYS: &str = "https://www.googleapis.com/oauth2/v3/certs";
/// The most bytes of the keys.
const MAX_KEYS: u64 = 64 << 10;
/// The timeout of the request for the keys.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bits of a key: more cost time.
const MAX_BITS: usize = 8192;
/// The longest token, in bytes.
const MAX_TOKEN: usize = 16 << 10;

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

/// An RSA key (RFC 7517).
#[derive(Deserialize)]
struct Key {
    #[serde(default)]
    kid: String,
    n: Option<String>,
    e: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

#[derive(Deserialize)]
struct Claims {
    aud: String,
    iss: String,
    exp: i64,
    #[serde(default)]
    email: String,
    #[serde(default)]
    email_verified: bool,
}

#[derive(Deserialize)]
struct Push {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    data: String,
}

/// The event of a registry in a message. Filters see it instead of the whole body.
#[derive(Deserialize, Serialize)]
#[serde(default)]
#[derive(Default)]
struct RegistryEvent {
    action: String,
    digest: String,
    tag: String,
}

/// Checks the identity token of a delivery. Returns the event in the message.
pub(super) async fn verify(
    ports: &Ports,
    hub: &Hub,
    credentials: &Credentials,
    delivery: &Delivery<'_>,
) -> Result<Vec<u8>, Refusal> {
    let refused = || {
        let message = "the identity token of Google is missing or not valid for this Receiver";
        Refusal::Invalid(message.to_owned())
    };
    let text = |secret: &Option<crate::ports::Secret>| {
        let text = secret
            .as_ref()
            .and_then(|secret| secret.expose_str().map(str::to_owned));
        text.filter(|text| !text.is_empty())
    };
    let (Some(email), Some(audience)) = (text(&credentials.email), text(&credentials.audience))
    else {
        let message = "the Secret of the Receiver needs 'email' and 'audience' for the type gcr";
        return Err(Refusal::Invalid(message.to_owned()));
    };
    let bearer = (delivery.header)("authorization");
    let token = bearer.and_then(|text| text.strip_prefix("Bearer "));
    let token = token.filter(|token| token.len() <= MAX_TOKEN);
    let token = Token::parse(token.ok_or_else(refused)?).ok_or_else(refused)?;
    let keys = keys(ports, hub).await?;
    let now = i64::try_from(ports.clock.now().as_secs()).unwrap_or(i64::MAX);
    let claims = &token.claims;
    let is_valid = token.is_signed(&keys)
        && claims.exp > now
        && claims.aud == audience
        && ["accounts.google.com", "https://accounts.google.com"].contains(&&*claims.iss)
        && claims.email == email
        && claims.email_verified;
    if !is_valid {
        return Err(refused());
    }
    event(delivery.body)
}

fn event(body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let push: Push = serde_json::from_slice(body).map_err(|error| malformed("GCR", &error))?;
    let data = STANDARD.decode(push.message.data).unwrap_or_default();
    let event: RegistryEvent =
        serde_json::from_slice(&data).map_err(|error| malformed("GCR", &error))?;
    serde_json::to_vec(&event).map_err(|error| malformed("GCR", &error))
}

async fn keys(ports: &Ports, hub: &Hub) -> Result<Keys, Refusal> {
    let connection = Connection {
        timeout: TIMEOUT,
        allow_local: hub.settings.allow_local_clusters,
        ..Connection::default()
    };
    let validator = Validator::default();
    let fetched = ports.charts.get(KEYS, &connection, &validator, MAX_KEYS);
    let unreadable = || {
        let message = format!("{KEYS}: not the expected keys");
        Refusal::from(PortError::new(ErrorKind::Unreadable, message))
    };
    match fetched.await? {
        DownloadOutcome::Body { bytes, .. } => {
            serde_json::from_slice(&bytes).map_err(|_| unreadable())
        }
        DownloadOutcome::Unchanged => Err(unreadable()),
    }
}

/// An identity token (RFC 7519) that is not verified yet.
struct Token<'t> {
    /// The header and the claims, which are signed.
    signed: &'t str,
    header: Header,
    claims: Claims,
    signature: Vec<u8>,
}

impl<'t> Token<'t> {
    fn parse(token: &'t str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        Some(Self {
            signed,
            header: serde_json::from_slice(&decode(header)?).ok()?,
            claims: serde_json::from_slice(&decode(claims)?).ok()?,
            signature: decode(signature)?,
        })
    }

    /// Returns whether the token is signed with the key that its header names.
    fn is_signed(&self, keys: &Keys) -> bool {
        let named = keys.keys.iter().find(|key| key.kid == self.header.kid);
        let Some(key) = named.and_then(Key::rsa) else {
            return false;
        };
        let digest = Sha256::digest(self.signed);
        let scheme = Pkcs1v15Sign::new::<rsa::sha2::Sha256>();
        self.header.alg == "RS256" && key.verify(scheme, &digest, &self.signature).is_ok()
    }
}

impl Key {
    fn rsa(&self) -> Option<RsaPublicKey> {
        let number = |text: &Option<String>| {
            let bytes = URL_SAFE_NO_PAD.decode(text.as_deref()?).ok()?;
            Some(BigUint::from_bytes_be(&bytes))
        };
        RsaPublicKey::new_with_max_size(number(&self.n)?, number(&self.e)?, MAX_BITS).ok()
    }
}
