//! The entry of the transparency log that cosign 2 adds to a signature, with the log's promise of
//! it.

use super::SignatureError;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_kernel::ports::Layer;
use jiff::Timestamp;
use serde::Deserialize;
use sigstore_verify::types::{
    CanonicalizedBody, InclusionPromise, KindVersion, LogId, LogIndex, LogKeyId, SignedTimestamp,
    TransparencyLogEntry,
};

/// The annotation of a layer with the entry.
const ENTRY: &str = "dev.sigstore.cosign/bundle";
/// Maximum bytes of an entry: a hash, a signature and a certificate.
const MAX_ENTRY_BYTES: usize = 256 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LogPromise {
    signed_entry_timestamp: String,
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    body: String,
    integrated_time: i64,
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
}

/// Returns the entry of a layer's annotation; the library checks that it is for this signature.
pub(super) fn entry(layer: &Layer) -> Result<TransparencyLogEntry, SignatureError> {
    let text = layer
        .annotations
        .get(ENTRY)
        .ok_or(SignatureError::NoEntry)?;
    if text.len() > MAX_ENTRY_BYTES {
        return Err(SignatureError::TooMuch("a log entry that is too large"));
    }
    read(text).ok_or(SignatureError::Unreadable)
}

fn read(text: &str) -> Option<TransparencyLogEntry> {
    let LogPromise {
        signed_entry_timestamp,
        payload,
    } = serde_json::from_str(text).ok()?;
    let promise = SignedTimestamp::new(STANDARD.decode(signed_entry_timestamp).ok()?);
    let log = LogId::new(LogKeyId::new(hex::decode(&payload.log_id).ok()?));
    let body = CanonicalizedBody::new(STANDARD.decode(&payload.body).ok()?);
    let index = LogIndex::try_from(payload.log_index).ok()?;
    let time = Timestamp::from_second(payload.integrated_time).ok()?;
    // cosign 2 logs a signature in this form alone.
    let entry = TransparencyLogEntry::new(index, log, KindVersion::HashedRekordV001, body);
    Some(
        entry
            .with_integrated_time(time)
            .with_inclusion_promise(InclusionPromise::new(promise)),
    )
}
