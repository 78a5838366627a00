//! What is a key of a blob, for every store.

use driftless_core::ports::{ErrorKind, PortError, Result};

/// Bytes of a key, as S3 has it.
const LENGTH: usize = 1024;

/// Passes 1 to 1,024 bytes without an empty part between slashes: the keys that S3 and a directory both have.
///
/// # Errors
/// `Invalid` for any other.
pub fn check(key: &str) -> Result<()> {
    if key.len() <= LENGTH && key.split('/').all(|part| !part.is_empty()) {
        return Ok(());
    }
    let what = format!(
        "'{key}' is not a valid blob key: expected 1 to {LENGTH} bytes, without empty parts"
    );
    Err(PortError::new(ErrorKind::Invalid, what))
}
