//! Small JSON in the bucket, under compare-and-swap.

use crate::ports::{Blobs, ErrorKind, PortError, Precondition, Put, Result, Version};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// One part of a key: every byte that is no letter, digit, `-`, `_` or `.` is written `%XX`, so that different names never
/// meet in one key and no name climbs out of its folder.
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

/// Reads a document and its version.
///
/// # Errors
/// The store's, or `Unreadable` when the bytes are no such document.
pub async fn read<T: DeserializeOwned>(
    blobs: &dyn Blobs,
    key: &str,
) -> Result<Option<(T, Version)>> {
    let Some((bytes, version)) = blobs.get(key).await? else {
        return Ok(None);
    };
    let document = serde_json::from_slice(&bytes).map_err(|error| {
        PortError::new(
            ErrorKind::Unreadable,
            format!("{key}: not the expected JSON: {error}"),
        )
    })?;
    Ok(Some((document, version)))
}

/// Reads what a step remembers; a lost or unreadable record is an empty one.
///
/// # Errors
/// The store cannot be reached.
pub async fn load<T: DeserializeOwned + Default>(
    blobs: &dyn Blobs,
    key: &str,
) -> Result<(T, Option<Version>)> {
    match read::<T>(blobs, key).await {
        Ok(Some((memory, version))) => Ok((memory, Some(version))),
        Ok(None) => Ok((T::default(), None)),
        Err(error) if error.kind == ErrorKind::Unreadable => {
            tracing::warn!(key, %error, "record is unreadable, starting with an empty one");
            Ok((T::default(), None))
        }
        Err(error) => Err(error),
    }
}

/// Writes what a step remembers when it differs from `before`, and returns the version that is stored then. A newer record of
/// another worker is left: it knows better.
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
        Put::Done(stored) => Ok(Some(stored)),
        Put::Refused => {
            tracing::info!(key, "record was written by another worker meanwhile");
            Ok(version)
        }
    }
}

/// Writes a document.
///
/// # Errors
/// The store's.
pub async fn write<T: Serialize>(
    blobs: &dyn Blobs,
    key: &str,
    document: &T,
    when: Precondition,
) -> Result<Put> {
    let bytes = serde_json::to_vec(document).map_err(|error| {
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
}
