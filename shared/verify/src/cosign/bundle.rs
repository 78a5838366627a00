//! A bundle of cosign 3: an in-toto statement in a DSSE envelope that a key signed.

use super::verifies;
use crate::key::PublicKey;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The prefix of the media types of all versions.
pub(super) const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle";
/// The version that cosign 3 accepts, in its two notations.
const VERSIONS: [&str; 2] = [
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
    "application/vnd.dev.sigstore.bundle.v0.3+json",
];
/// The media type of the envelope's payload.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// Maximum number of subjects of one statement.
const MAX_SUBJECTS: usize = 1024;

/// A decoded bundle; nothing in it has been checked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bundle {
    media_type: String,
    verification_material: Material,
    #[serde(default)]
    dsse_envelope: Option<Envelope>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    /// Present if the signature was made with a key and not with a certificate.
    #[serde(default)]
    public_key: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Debug, Deserialize)]
struct Signature {
    sig: String,
}

#[derive(Deserialize)]
struct Statement {
    #[serde(default)]
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    digest: BTreeMap<String, String>,
}

impl Bundle {
    /// Reads a bundle of a supported version.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bundle: Self = serde_json::from_slice(bytes).ok()?;
        VERSIONS.contains(&&*bundle.media_type).then_some(bundle)
    }

    /// Returns whether the key signed a statement about the manifest with this digest (`sha256:…`).
    pub fn verifies(&self, key: &PublicKey, digest: &str) -> bool {
        self.statement(key).is_some_and(|statement| {
            let named = |subject: &Subject| {
                let hash = subject.digest.get("sha256");
                hash.is_some_and(|hash| {
                    digest.strip_prefix("sha256:") == Some(hash.to_ascii_lowercase().as_str())
                })
            };
            statement.subject.len() <= MAX_SUBJECTS && statement.subject.iter().any(named)
        })
    }

    /// Returns the statement if the key signed it. A bundle has one signature.
    fn statement(&self, key: &PublicKey) -> Option<Statement> {
        self.verification_material.public_key.as_ref()?;
        let envelope = self.dsse_envelope.as_ref()?;
        let [signature] = envelope.signatures.as_slice() else {
            return None;
        };
        if envelope.payload_type != STATEMENT {
            return None;
        }
        let payload = decode(&envelope.payload)?;
        let message = authenticated(&envelope.payload_type, &payload);
        match verifies(key, &message, &decode(&signature.sig)?) {
            true => serde_json::from_slice(&payload).ok(),
            false => None,
        }
    }
}

/// Returns the bytes that DSSE signs: the type and the payload with their lengths.
fn authenticated(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

/// Decodes base64 of the JSON form of protocol buffers: either alphabet, with or without padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text
        .trim_end_matches('=')
        .replace('-', "+")
        .replace('_', "/");
    STANDARD_NO_PAD.decode(text).ok()
}
