//! Validates the keys of blobs, for every store.

use super::{ErrorKind, PortError, Result};

/// The longest key in bytes: S3's limit.
const MAX_LENGTH: usize = 1024;

/// Checks that a key has 1 to 1,024 bytes and no empty part between slashes: S3 and a directory can
/// both store such keys.
///
/// # Errors
/// Fails with `Invalid` for any other key.
pub fn check(key: &str) -> Result<()> {
    if key.len() <= MAX_LENGTH && key.split('/').all(|part| !part.is_empty()) {
        return Ok(());
    }
    let message = format!(
        "'{key}' is not a valid blob key: expected 1 to {MAX_LENGTH} bytes, without empty parts"
    );
    Err(PortError::new(ErrorKind::Invalid, message))
}
