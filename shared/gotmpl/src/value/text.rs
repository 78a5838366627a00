//! Go's strings: bytes, most often UTF-8.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A Go string: immutable shared bytes, most often UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(Arc<[u8]>);

impl Str {
    /// Returns the bytes of the string.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the string, with U+FFFD for invalid UTF-8.
    pub fn lossy(&self) -> Cow<'_, str> {
        lossy(&self.0)
    }

    /// Returns the string, if it is UTF-8.
    pub fn utf8(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl Default for Str {
    fn default() -> Self {
        Str(Arc::from(&b""[..]))
    }
}

impl Deref for Str {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Str {
    fn from(s: &str) -> Self {
        Str(Arc::from(s.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(s: String) -> Self {
        Str(Arc::from(s.into_bytes()))
    }
}

impl From<&String> for Str {
    fn from(s: &String) -> Self {
        Str::from(s.as_str())
    }
}

impl From<Cow<'_, str>> for Str {
    fn from(s: Cow<'_, str>) -> Self {
        Str(Arc::from(s.as_bytes()))
    }
}

impl From<Vec<u8>> for Str {
    fn from(s: Vec<u8>) -> Self {
        Str(Arc::from(s))
    }
}

impl From<&[u8]> for Str {
    fn from(s: &[u8]) -> Self {
        Str(Arc::from(s))
    }
}

impl From<Arc<[u8]>> for Str {
    fn from(s: Arc<[u8]>) -> Self {
        Str(s)
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.lossy(), f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lossy())
    }
}

/// Converts bytes to a string, with U+FFFD for invalid UTF-8. Checks first whether all of it is
/// valid, which is several times faster than a search for invalid parts.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}
