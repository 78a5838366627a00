//! A bundle of cosign 3: an in-toto statement in a DSSE envelope that a key signed.

use super::verifies;
use crate::source::verify::key::PublicKey;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How the media types of all versions begin.
pub(super) const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle";
/// The versions that cosign 3 takes, as two ways to write the newest one.
const VERSIONS: [&str; 2] = [
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
    "application/vnd.dev.sigstore.bundle.v0.3+json",
];
/// The media type of what the envelope holds.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// What one statement may speak of.
const SUBJECTS: usize = 1024;

/// A bundle that can be read; nothing in it has been checked.
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
    /// There when a key signed, and no certificate.
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
    /// Reads a bundle of a version that is known.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bundle: Self = serde_json::from_slice(bytes).ok()?;
        VERSIONS.contains(&&*bundle.media_type).then_some(bundle)
    }

    /// Whether the owner of the key says something about the manifest with that digest (`sha256:…`).
    pub fn verifies(&self, key: &PublicKey, digest: &str) -> bool {
        self.statement(key).is_some_and(|statement| {
            let named = |subject: &Subject| {
                let hash = subject.digest.get("sha256");
                hash.is_some_and(|hash| {
                    digest.strip_prefix("sha256:") == Some(hash.to_ascii_lowercase().as_str())
                })
            };
            statement.subject.len() <= SUBJECTS && statement.subject.iter().any(named)
        })
    }

    /// The statement, when the key signed it. A bundle has one signature.
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

/// What DSSE signs: the type and the payload with their lengths.
fn authenticated(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

/// Base64 as protocol buffers' JSON may be written: either alphabet, with or without padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text
        .trim_end_matches('=')
        .replace('-', "+")
        .replace('_', "/");
    STANDARD_NO_PAD.decode(text).ok()
}
