//! A signature of notation as JSON (`application/jose+json`): what was signed, how, and by whom.

use super::certificate::{self, Chain};
use crate::flux::parse_rfc3339;
use crate::source::verify::key::{Hash, PublicKey, Scheme};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// The media type of the envelope.
pub(super) const MEDIA_TYPE: &str = "application/jose+json";
/// The type of what is signed.
const PAYLOAD: &str = "application/vnd.cncf.notary.payload.v1+json";
const SCHEME: &str = "io.cncf.notary.signingScheme";
const EXPIRY: &str = "io.cncf.notary.expiry";
const SIGNING_TIME: &str = "io.cncf.notary.signingTime";
const AUTHENTIC_TIME: &str = "io.cncf.notary.authenticSigningTime";

#[derive(Deserialize)]
struct Written {
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
struct Protected {
    alg: String,
    cty: String,
    #[serde(default)]
    crit: Vec<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Who vouches for the time of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SigningScheme {
    /// The signer's own word: certificates must be valid now.
    X509,
    /// A service that signs for others.
    SigningAuthority,
}

/// A signature whose integrity was checked: the owner of the chain's first key made it.
#[derive(Debug)]
pub(super) struct Envelope {
    pub chain: Chain,
    pub scheme: SigningScheme,
    /// When it was signed, since 1970.
    pub signed: Duration,
    /// When it ends.
    pub expiry: Option<Duration>,
    /// The digest of the manifest that was signed.
    pub digest: String,
}

impl Envelope {
    /// Reads an envelope and checks its signature.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let written: Written =
            serde_json::from_slice(bytes).map_err(|_| "the envelope cannot be read")?;
        let protected = part(&written.protected)?;
        let protected: Protected = serde_json::from_slice(&protected)
            .map_err(|_| "its protected header cannot be read")?;
        let certificates = written.header.x5c.iter().map(|text| STANDARD.decode(text));
        let certificates = certificates.collect::<Result<Vec<_>, _>>();
        let chain = Chain::read(&certificates.map_err(|_| "a certificate cannot be read")?)?;

        let message = format!("{}.{}", written.protected, written.payload);
        let key = certificate::key(chain.signer()).ok_or("the signer's key is not supported")?;
        let scheme = algorithm(&key, &protected.alg)?;
        if !key.verifies(scheme, message.as_bytes(), &part(&written.signature)?) {
            return Err("its signature is not that of its certificate's key".to_owned());
        }
        if protected.cty != PAYLOAD {
            return Err("what it signs is not of the type that notation signs".to_owned());
        }
        let payload: Value = serde_json::from_slice(&part(&written.payload)?).unwrap_or_default();
        let digest = payload.pointer("/targetArtifact/digest");
        let digest = digest
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let (scheme, signed) = protected.scheme()?;
        let expiry = protected.time(EXPIRY)?;
        if expiry.is_some_and(|expiry| expiry <= signed) {
            return Err("it ends before it was made".to_owned());
        }
        protected.check_critical(scheme, expiry.is_some())?;
        Ok(Self {
            chain,
            scheme,
            signed,
            expiry,
            digest,
        })
    }
}

impl Protected {
    fn scheme(&self) -> Result<(SigningScheme, Duration), String> {
        let (scheme, own, other) = match self.others.get(SCHEME).and_then(Value::as_str) {
            Some("notary.x509") => (SigningScheme::X509, SIGNING_TIME, AUTHENTIC_TIME),
            Some("notary.x509.signingAuthority") => (
                SigningScheme::SigningAuthority,
                AUTHENTIC_TIME,
                SIGNING_TIME,
            ),
            _ => return Err("its signing scheme is not known".to_owned()),
        };
        match self.time(own)? {
            Some(time) if !self.others.contains_key(other) => Ok((scheme, time)),
            _ => Err("it has not the signing time of its scheme".to_owned()),
        }
    }

    fn time(&self, name: &str) -> Result<Option<Duration>, String> {
        let Some(value) = self.others.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let time = value.as_str().and_then(parse_rfc3339);
        time.map(Some)
            .ok_or_else(|| format!("its {name} is no time"))
    }

    /// What must be understood is what is understood here. Attributes for plugins are not.
    fn check_critical(&self, scheme: SigningScheme, ends: bool) -> Result<(), String> {
        let mut needed = vec![SCHEME];
        needed.extend(ends.then_some(EXPIRY));
        needed.extend((scheme == SigningScheme::SigningAuthority).then_some(AUTHENTIC_TIME));
        if let Some(missing) = needed
            .iter()
            .find(|name| !self.crit.iter().any(|own| own == *name))
        {
            return Err(format!("its {missing} is not marked as critical"));
        }
        let plugins = "io.cncf.notary.verificationPlugin";
        let mut critical = self.crit.iter().map(String::as_str);
        let unknown = critical.find(|name| !needed.contains(name));
        let unknown = unknown.or_else(|| self.others.contains_key(plugins).then_some(plugins));
        match unknown {
            Some(name) => Err(format!(
                "it wants '{name}' to be understood, which it is not here"
            )),
            None => Ok(()),
        }
    }
}

/// The one algorithm that a key may sign with.
fn algorithm(key: &PublicKey, named: &str) -> Result<Scheme, String> {
    let (name, scheme) = match (key, key.rsa_bits()) {
        (PublicKey::P256(_), _) => ("ES256", Scheme::EcdsaFixed(Hash::Sha256)),
        (PublicKey::P384(_), _) => ("ES384", Scheme::EcdsaFixed(Hash::Sha384)),
        (PublicKey::P521(_), _) => ("ES512", Scheme::EcdsaFixed(Hash::Sha512)),
        (_, Some(2048)) => ("PS256", Scheme::Pss(Hash::Sha256)),
        (_, Some(3072)) => ("PS384", Scheme::Pss(Hash::Sha384)),
        (_, Some(4096)) => ("PS512", Scheme::Pss(Hash::Sha512)),
        _ => return Err("the signer's key is not supported".to_owned()),
    };
    match named == name {
        true => Ok(scheme),
        false => Err(format!(
            "expected the algorithm {name} of its certificate's key"
        )),
    }
}

fn part(text: &str) -> Result<Vec<u8>, String> {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    bytes.map_err(|_| "a part of the envelope cannot be read".to_owned())
}
