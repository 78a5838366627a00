//! Envelopes in JSON: a JWS of RFC 7515.

use super::parts::{AUTHENTIC_TIME, Attributes, EXPIRY, PLUGIN, Parts, SCHEME, SIGNING_TIME};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftless_flux::{Invalid, parse_rfc3339};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

pub(super) const MEDIA_TYPE: &str = "application/jose+json";

#[derive(Deserialize)]
struct JwsEnvelope {
    payload: String,
    protected: String,
    header: Header,
    signature: String,
}

#[derive(Deserialize)]
struct Header {
    x5c: Vec<String>,
}

#[derive(Deserialize)]
struct ProtectedHeader {
    alg: String,
    cty: String,
    #[serde(default)]
    crit: Vec<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Reads an envelope.
///
/// # Errors
/// The bytes are not a valid envelope.
pub(super) fn read(bytes: &[u8]) -> Result<Parts, Invalid> {
    let written: JwsEnvelope =
        serde_json::from_slice(bytes).map_err(|_| "the envelope cannot be read")?;
    let protected: ProtectedHeader = serde_json::from_slice(&part(&written.protected)?)
        .map_err(|_| "the protected header of the envelope cannot be read")?;
    let certificates = written.header.x5c.iter().map(|text| STANDARD.decode(text));
    let certificates = certificates.collect::<Result<_, _>>();
    Ok(Parts {
        certificates: certificates.map_err(|_| "a certificate cannot be read")?,
        attributes: protected.attributes()?,
        payload: part(&written.payload)?,
        message: format!("{}.{}", written.protected, written.payload).into_bytes(),
        signature: part(&written.signature)?,
    })
}

impl ProtectedHeader {
    fn attributes(self) -> Result<Attributes, Invalid> {
        let scheme = self.others.get(SCHEME).and_then(Value::as_str);
        Ok(Attributes {
            scheme: scheme.unwrap_or_default().to_owned(),
            signing_time: self.time(SIGNING_TIME)?,
            authentic_time: self.time(AUTHENTIC_TIME)?,
            expiry: self.time(EXPIRY)?,
            wants_plugin: self.others.contains_key(PLUGIN),
            algorithm: self.alg,
            content_type: self.cty,
            critical: self.crit,
        })
    }

    fn time(&self, name: &str) -> Result<Option<Duration>, Invalid> {
        let Some(value) = self.others.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let time = value.as_str().and_then(parse_rfc3339);
        time.map(Some)
            .ok_or_else(|| Invalid::from(format!("the attribute {name} is not a valid time")))
    }
}

fn part(text: &str) -> Result<Vec<u8>, Invalid> {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    bytes.map_err(|_| Invalid::from("a part of the envelope cannot be read"))
}
