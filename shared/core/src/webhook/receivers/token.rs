//! Tokens of senders (RFC 7519), and the keys that issuers sign them with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_kernel::ports::{
    Connection, DownloadOutcome, ErrorKind, PortError, Ports, Validator,
};
use driftless_verify::key::{PublicKey, Scheme};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The longest token, in bytes.
const MAX_TOKEN: usize = 16 << 10;

#[derive(Deserialize)]
pub(super) struct Header {
    pub alg: String,
    #[serde(default)]
    pub kid: String,
}

/// A token that is not verified yet.
pub(super) struct Token<'t, C> {
    /// The header and the claims, which are signed.
    signed: &'t str,
    pub header: Header,
    pub claims: C,
    signature: Vec<u8>,
}

impl<'t, C: DeserializeOwned> Token<'t, C> {
    /// Parses a token; `None` for any other string.
    pub fn parse(token: &'t str) -> Option<Self> {
        if token.len() > MAX_TOKEN {
            return None;
        }
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
}

impl<C> Token<'_, C> {
    /// Returns whether a key made the signature.
    pub fn is_signed_by(&self, key: &PublicKey, scheme: Scheme) -> bool {
        key.verifies(scheme, self.signed.as_bytes(), &self.signature)
    }
}

/// The request for a JSON document of an issuer.
pub(super) struct Request<'a> {
    pub url: &'a str,
    pub allow_local: bool,
    pub timeout: Duration,
    /// The most bytes of the answer.
    pub limit: u64,
    /// The message about an answer with other content.
    pub unreadable: &'a str,
}

impl Request<'_> {
    /// Sends the request.
    ///
    /// # Errors
    /// The host's; `Unreadable` for other content.
    pub async fn send<T: DeserializeOwned>(&self, ports: &Ports) -> Result<T, PortError> {
        let connection = Connection {
            timeout: self.timeout,
            allow_local: self.allow_local,
            ..Connection::default()
        };
        let known = Validator::default();
        let answer = ports.charts.get(self.url, &connection, &known, self.limit);
        let unreadable = || PortError::new(ErrorKind::Unreadable, self.unreadable);
        match answer.await? {
            DownloadOutcome::Body { bytes, .. } => {
                serde_json::from_slice(&bytes).map_err(|_| unreadable())
            }
            DownloadOutcome::Unchanged => Err(unreadable()),
        }
    }
}
