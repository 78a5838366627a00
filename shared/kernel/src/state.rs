//! Small JSON in the bucket, under compare-and-swap.
//!
//! A record that can be made again counts as absent if it is damaged or has a newer format
//! ([`document`]): it is set aside, and a new one is written. So a roll back continues at once, and
//! the newer version makes its own record again later.

use crate::document::{self, DocumentError};
use crate::ports::{Blobs, ErrorKind, PortError, Precondition, PutOutcome, Result, Version};
use bytes::Bytes;
use driftless_flux::{FluxKind, ObjectRef};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Display;
use std::time::Duration;

/// Converts a time to milliseconds, as records have times.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Encodes a string as one part of a key: every byte other than a letter, digit, `-`, `_` or `.`
/// becomes `%XX`, so that different names have different keys and no name leaves its directory.
pub fn key_part(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => part.push(char::from(byte)),
            b'.' if !part.is_empty() => part.push('.'),
            _ => part.push_str(&format!("%{byte:02X}")),
        }
    }
    part
}

/// Returns the key of a document about an object. Anyone may choose the object's name: no part of
/// it leads elsewhere.
pub fn object_key(prefix: &str, hub: &str, kind: &str, namespace: &str, name: &str) -> String {
    let [hub, namespace, name] = [hub, namespace, name].map(key_part);
    format!("{prefix}/{hub}/{kind}/{namespace}/{name}.json")
}

/// Returns the hub and the object of an [`object_key`]; `None` for another key.
pub fn object_of_key(prefix: &str, key: &str) -> Option<(String, ObjectRef)> {
    let key = key.strip_prefix(prefix)?.strip_prefix('/')?;
    let mut parts = key.strip_suffix(".json")?.split('/');
    let (hub, plural) = (decode_key_part(parts.next()?)?, parts.next()?);
    let kind = FluxKind::ALL
        .into_iter()
        .find(|kind| kind.plural() == plural)?;
    let namespace = decode_key_part(parts.next()?)?;
    let name = decode_key_part(parts.next()?)?;
    let object = ObjectRef::new(kind, namespace, name);
    parts.next().is_none().then_some((hub, object))
}

/// Returns the last part of the key of a note that names an object of a hub.
pub fn note_file(hub: &str, object: &ObjectRef) -> String {
    let parts = [hub, &object.namespace, &object.name].map(key_part);
    format!("{}.json", parts.join("+"))
}

/// Returns the hub and the object of a key that ends with a [`note_file`]; `None` for another key.
/// `kind` is that of all objects with such notes.
pub fn object_of_note(kind: FluxKind, key: &str) -> Option<(String, ObjectRef)> {
    let (_, file) = key.rsplit_once('/')?;
    let mut parts = file.strip_suffix(".json")?.split('+').map(decode_key_part);
    let (hub, namespace, name) = (parts.next()??, parts.next()??, parts.next()??);
    let object = ObjectRef::new(kind, namespace, name);
    parts.next().is_none().then_some((hub, object))
}

/// Decodes a part of a key that [`key_part`] encoded; `None` for a part that it cannot have
/// encoded.
pub fn decode_key_part(part: &str) -> Option<String> {
    let mut pieces = part.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    let text = String::from_utf8(bytes).ok()?;
    (key_part(&text) == part).then_some(text)
}

/// Reads a document and its version. Where a lost document may be created again, use [`recall`].
///
/// # Errors
/// The errors of the store, or those of [`parse`].
pub async fn read<T: DeserializeOwned>(
    blobs: &dyn Blobs,
    key: &str,
) -> Result<Option<(T, Version)>> {
    let Some((bytes, version)) = blobs.get(key).await? else {
        return Ok(None);
    };
    Ok(Some((parse(key, &bytes)?, version)))
}

/// Parses the document of a key.
///
/// # Errors
/// `Unreadable` if the bytes are not such a document, `Unsupported` if it has a newer format.
pub fn parse<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    document::decode(bytes).map_err(|error| match error {
        DocumentError::Newer(_) => PortError {
            reason: NEWER.to_owned(),
            ..PortError::new(ErrorKind::Unsupported, format!("{key}: {error}"))
        },
        DocumentError::Damaged(error) => PortError::new(
            ErrorKind::Unreadable,
            format!("{key}: not the expected JSON: {error}"),
        ),
    })
}

/// The reason of the error of a document that has a newer format.
const NEWER: &str = "NewerFormat";

/// Returns whether a document was not read because it has a newer format.
pub fn is_newer(error: &PortError) -> bool {
    error.reason == NEWER
}

/// Returns whether a document cannot be read, so that it counts as absent if it can be made again.
pub fn is_lost(error: &PortError) -> bool {
    error.kind == ErrorKind::Unreadable || is_newer(error)
}

/// Reads a document that may be lost: one that cannot be read is set aside, with a warning, and
/// counts as absent.
///
/// # Errors
/// The store cannot be reached.
pub async fn recall<T: DeserializeOwned>(
    blobs: &dyn Blobs,
    key: &str,
) -> Result<Option<(T, Version)>> {
    let Some((bytes, version)) = blobs.get(key).await? else {
        return Ok(None);
    };
    match parse(key, &bytes) {
        Ok(document) => Ok(Some((document, version))),
        Err(error) => {
            set_aside(blobs, key, &version, &error).await;
            Ok(None)
        }
    }
}

/// Sets a record aside that cannot be read, and logs a warning with the `reason`; returns whether
/// that worked. A record that stays is overwritten when it is created again.
pub async fn set_aside(
    blobs: &dyn Blobs,
    key: &str,
    version: &Version,
    reason: &(dyn Display + Sync),
) -> bool {
    tracing::warn!(
        key,
        "the record cannot be used; it was set aside and a new one was created: {reason}"
    );
    match blobs.set_aside(key, version).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(key, %error, "damaged record not set aside");
            false
        }
    }
}

/// Reads the memory of a step; for a lost or damaged record, returns the default.
///
/// # Errors
/// The store cannot be reached.
pub async fn load<T: DeserializeOwned + Default>(
    blobs: &dyn Blobs,
    key: &str,
) -> Result<(T, Option<Version>)> {
    let known = recall::<T>(blobs, key).await?;
    Ok(known.map_or((T::default(), None), |(memory, version)| {
        (memory, Some(version))
    }))
}

/// Writes the memory of a step if it differs from `before`, and returns the version that is then
/// stored. A newer record of another worker is not overwritten.
///
/// # Errors
/// The store cannot be reached.
pub async fn save<T: Serialize + PartialEq + Sync>(
    blobs: &dyn Blobs,
    key: &str,
    before: &T,
    now: &T,
    version: Option<Version>,
) -> Result<Option<Version>> {
    if before == now {
        return Ok(version);
    }
    let when = version.clone().map_or(Precondition::None, Precondition::Is);
    match write(blobs, key, now, when).await? {
        PutOutcome::Done(stored) => Ok(Some(stored)),
        PutOutcome::PreconditionFailed => {
            tracing::info!(
                key,
                "record not written: another worker has written it meanwhile"
            );
            Ok(version)
        }
    }
}

/// Writes a document as JSON, if the precondition holds.
///
/// # Errors
/// The errors of the store.
pub async fn write<T: Serialize>(
    blobs: &dyn Blobs,
    key: &str,
    document: &T,
    when: Precondition,
) -> Result<PutOutcome> {
    let bytes = document::encode(document).map_err(|error| {
        PortError::new(
            ErrorKind::Invalid,
            format!("{key}: cannot be written as JSON: {error}"),
        )
    })?;
    blobs.put(key, Bytes::from(bytes), when).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_injective() {
        assert_eq!(key_part("apps"), "apps");
        assert_eq!(key_part("a/b"), "a%2Fb");
        assert_eq!(key_part("a%2Fb"), "a%252Fb");
        assert_eq!(key_part(".."), "%2E.");
        assert_eq!(key_part("v1.2"), "v1.2");
        assert_ne!(key_part("ä"), key_part("a"));
    }

    #[test]
    fn key_parts_decode_to_their_strings() {
        for text in ["apps", "a/b", "a%2Fb", "..", "v1.2", "ä", "staging eu", ""] {
            assert_eq!(decode_key_part(&key_part(text)).as_deref(), Some(text));
        }
        for stray in ["a/b", "%2", "%zz", "%61", "a%FF", "."] {
            assert_eq!(decode_key_part(stray), None, "{stray}");
        }
    }
}
