//! A signature of notation in either encoding: the signed digest, the times, the algorithm and the
//! certificates.

use super::certificate::{self, Chain};
use super::parts::{AUTHENTIC_TIME, Attributes, EXPIRY, PLUGIN, SCHEME};
use super::{cose, jws};
use crate::key::{Hash, PublicKey, Scheme};
use driftless_flux::Invalid;
use serde_json::Value;
use std::time::Duration;

/// The content type of the payload.
const PAYLOAD: &str = "application/vnd.cncf.notary.payload.v1+json";
/// The party that vouches for the time of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SigningScheme {
    /// The signer itself: certificates must be valid now.
    X509,
    /// A service that signs for others.
    SigningAuthority,
}

/// A signature whose integrity is verified: the owner of the chain's first key made it.
#[derive(Debug)]
pub(super) struct Envelope {
    pub chain: Chain,
    pub scheme: SigningScheme,
    /// The signing time.
    pub signed: Duration,
    pub expiry: Option<Duration>,
    /// The digest of the manifest that was signed.
    pub digest: String,
}

/// Returns whether envelopes of a media type are supported.
pub(super) fn is_known(media_type: &str) -> bool {
    [jws::MEDIA_TYPE, cose::MEDIA_TYPE].contains(&media_type)
}

impl Envelope {
    /// Reads an envelope and checks its signature.
    ///
    /// # Errors
    /// A sentence about what is wrong with the signature.
    pub fn read(media_type: &str, bytes: &[u8]) -> Result<Self, Invalid> {
        let parts = match media_type {
            jws::MEDIA_TYPE => jws::read(bytes)?,
            cose::MEDIA_TYPE => cose::read(bytes)?,
            other => {
                return Err(
                    format!("the media type '{other}' of the signature is not supported").into(),
                );
            }
        };
        let attributes = &parts.attributes;
        let chain = Chain::read(&parts.certificates)?;
        let key = certificate::key(chain.signer()).ok_or("the signer's key is not supported")?;
        let scheme = algorithm(&key, &attributes.algorithm)?;
        if !key.verifies(scheme, &parts.message, &parts.signature) {
            return Err("the signature does not match the key of its certificate".into());
        }
        if attributes.content_type != PAYLOAD {
            return Err("the signed payload is not of the type that notation signs".into());
        }
        let payload: Value = serde_json::from_slice(&parts.payload).unwrap_or_default();
        let digest = payload.pointer("/targetArtifact/digest");
        let digest = digest
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let (scheme, signed) = attributes.scheme()?;
        let expiry = attributes.expiry;
        if expiry.is_some_and(|expiry| expiry <= signed) {
            return Err("the expiry of the signature is before its signing time".into());
        }
        attributes.check_critical(scheme)?;
        Ok(Self {
            chain,
            scheme,
            signed,
            expiry,
            digest,
        })
    }
}

impl Attributes {
    fn scheme(&self) -> Result<(SigningScheme, Duration), Invalid> {
        let (scheme, own, other) = match self.scheme.as_str() {
            "notary.x509" => (SigningScheme::X509, self.signing_time, self.authentic_time),
            "notary.x509.signingAuthority" => (
                SigningScheme::SigningAuthority,
                self.authentic_time,
                self.signing_time,
            ),
            _ => return Err("the signing scheme of the signature is not supported".into()),
        };
        match own {
            Some(time) if other.is_none() => Ok((scheme, time)),
            _ => Err("the signing time of the signature's scheme is missing".into()),
        }
    }

    /// Checks that all critical attributes are supported. Attributes for plugins are not.
    fn check_critical(&self, scheme: SigningScheme) -> Result<(), Invalid> {
        let mut needed = vec![SCHEME];
        needed.extend(self.expiry.map(|_| EXPIRY));
        needed.extend((scheme == SigningScheme::SigningAuthority).then_some(AUTHENTIC_TIME));
        let is_critical = |name: &&str| self.critical.iter().any(|own| own == name);
        if let Some(missing) = needed.iter().find(|name| !is_critical(name)) {
            return Err(format!("the attribute {missing} is not marked as critical").into());
        }
        let mut critical = self.critical.iter().map(String::as_str);
        let unknown = critical.find(|name| !needed.contains(name));
        match unknown.or(self.wants_plugin.then_some(PLUGIN)) {
            Some(name) => Err(format!("critical attribute '{name}' is not supported").into()),
            None => Ok(()),
        }
    }
}

/// Checks that the algorithm is the one that a key must sign with, and returns its scheme.
fn algorithm(key: &PublicKey, named: &str) -> Result<Scheme, Invalid> {
    let (name, scheme) = match (key, key.rsa_bits()) {
        (PublicKey::P256(_), _) => ("ES256", Scheme::EcdsaFixed(Hash::Sha256)),
        (PublicKey::P384(_), _) => ("ES384", Scheme::EcdsaFixed(Hash::Sha384)),
        (PublicKey::P521(_), _) => ("ES512", Scheme::EcdsaFixed(Hash::Sha512)),
        (_, Some(2048)) => ("PS256", Scheme::Pss(Hash::Sha256)),
        (_, Some(3072)) => ("PS384", Scheme::Pss(Hash::Sha384)),
        (_, Some(4096)) => ("PS512", Scheme::Pss(Hash::Sha512)),
        _ => return Err("the signer's key is not supported".into()),
    };
    match named == name {
        true => Ok(scheme),
        false => Err(format!(
            "expected the algorithm {name}, which the key of the signer's certificate requires"
        )
        .into()),
    }
}
