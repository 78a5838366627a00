//! Private keys in PEM.

use driftless_go::Error as GoError;
use driftless_gotmpl::FuncError;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _};
use p256::SecretKey;
use p256::pkcs8::LineEnding;
use rsa::RsaPrivateKey;
use rsa::pkcs1::{DecodeRsaPrivateKey as _, EncodeRsaPrivateKey as _};

/// A private key that can sign certificates, or be printed.
pub(super) enum Key {
    Rsa(Box<RsaPrivateKey>),
    Ec(SecretKey),
    Ed(Box<ed25519_dalek::SigningKey>),
}

impl Key {
    /// Returns the key like Go's `pem.Encode`.
    pub fn pem(&self) -> Result<String, FuncError> {
        let bad =
            |e: &dyn std::fmt::Display| FuncError::new(format!("error pem-encoding key: {e}"));
        let text = match self {
            Key::Rsa(key) => key.to_pkcs1_pem(LineEnding::LF).map_err(|e| bad(&e))?,
            Key::Ec(key) => key.to_sec1_pem(LineEnding::LF).map_err(|e| bad(&e))?,
            Key::Ed(key) => {
                let bytes = ed25519_dalek::pkcs8::KeypairBytes {
                    secret_key: key.to_bytes(),
                    public_key: None,
                };
                bytes.to_pkcs8_pem(LineEnding::LF).map_err(|e| bad(&e))?
            }
        };
        Ok(text.to_string())
    }

    /// Parses a key in PEM; the message never contains a part of it.
    pub fn parse(pem: &str) -> Result<Key, GoError> {
        let label = pem
            .split_once("-----BEGIN ")
            .and_then(|(_, rest)| rest.split_once("-----"))
            .map(|(label, _)| label)
            .ok_or("no PEM data in input")?;
        // Go takes the first block, at any position.
        let start = pem.find("-----BEGIN ").unwrap_or(0);
        let tail = format!("-----END {label}-----");
        let end = pem
            .find(&tail)
            .map(|i| i + tail.len())
            .ok_or("no PEM data in input")?;
        let block = pem.get(start..end).ok_or("no PEM data in input")?;
        match label {
            "RSA PRIVATE KEY" => RsaPrivateKey::from_pkcs1_pem(block)
                .map(|k| Key::Rsa(Box::new(k)))
                .map_err(|e| format!("parsing RSA private key from PEM: {e}").into()),
            "EC PRIVATE KEY" => SecretKey::from_sec1_pem(block).map(Key::Ec).map_err(|_| {
                "parsing EC private key from PEM: only P-256 keys are supported".into()
            }),
            "PRIVATE KEY" => Key::parse_pkcs8(block),
            other => match other.strip_suffix(" PRIVATE KEY") {
                Some(kind) => Err(format!("invalid private key type {kind}").into()),
                None => Err(format!("no private key data in PEM block of type {other}").into()),
            },
        }
    }

    fn parse_pkcs8(block: &str) -> Result<Key, GoError> {
        if let Ok(key) = RsaPrivateKey::from_pkcs8_pem(block) {
            return Ok(Key::Rsa(Box::new(key)));
        }
        if let Ok(key) = SecretKey::from_pkcs8_pem(block) {
            return Ok(Key::Ec(key));
        }
        ed25519_dalek::SigningKey::from_pkcs8_pem(block)
            .map(|k| Key::Ed(Box::new(k)))
            .map_err(|_| "decoding PEM as PKCS#8: neither RSA, nor P-256, nor Ed25519".into())
    }
}
