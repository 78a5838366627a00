//! Signed cookies and tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;
use std::fmt;

/// The most bytes of a cookie that is read.
const MAX_COOKIE: usize = 4096;
/// The least bytes of a key.
const MIN_KEY: usize = 32;

/// The key that signs cookies and tokens.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A key has too few bytes to be safe.
#[derive(Debug, thiserror::Error)]
#[error("the key has fewer than {MIN_KEY} bytes: create it at random")]
pub struct ShortKey;

impl From<[u8; MIN_KEY]> for Key {
    /// Returns the same key as [`Key::new`].
    fn from(bytes: [u8; MIN_KEY]) -> Self {
        // HMAC pads a short key with zeros to the size of a block.
        let mut block = [0; 64];
        block[..MIN_KEY].copy_from_slice(&bytes);
        Self(Hmac::new(&block.into()))
    }
}

impl Key {
    /// Returns a key of these bytes.
    ///
    /// # Errors
    /// There are fewer than 32 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, ShortKey> {
        if bytes.len() < MIN_KEY {
            return Err(ShortKey);
        }
        Hmac::new_from_slice(bytes).map(Self).map_err(|_| ShortKey)
    }

    fn sign(&self, purpose: &str, text: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(purpose.as_bytes());
        // A purpose has no such byte, so that no subject moves into it.
        mac.update(&[0]);
        mac.update(text.as_bytes());
        mac
    }

    /// Returns a token for a purpose and a subject.
    pub fn token(&self, purpose: &str, subject: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.sign(purpose, subject).finalize().into_bytes())
    }

    /// Checks a token in constant time.
    pub fn is_token(&self, token: &str, expected: &str) -> bool {
        // Digests of equal length are compared, whatever the length of the token is.
        let mac = self.sign("compare", token);
        let expected = self.sign("compare", expected).finalize().into_bytes();
        mac.verify_slice(&expected).is_ok()
    }

    /// Returns a signed value for a cookie.
    pub fn seal<T: Serialize>(&self, purpose: &str, content: &T) -> String {
        let json = serde_json::to_vec(content).unwrap_or_default();
        let text = URL_SAFE_NO_PAD.encode(json);
        let signature = self.token(purpose, &text);
        format!("{text}.{signature}")
    }

    /// Returns the content of a signed value; `None` if the signature is wrong.
    pub fn open<T: DeserializeOwned>(&self, purpose: &str, value: &str) -> Option<T> {
        let (text, signature) = value
            .split_once('.')
            .filter(|_| value.len() <= MAX_COOKIE)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.sign(purpose, text).verify_slice(&signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

/// Returns the header that sets a cookie for some seconds; 0 deletes it. `Lax` and not `Strict`,
/// because the way back from the login is a navigation from another site.
pub fn set(name: &str, value: &str, seconds: u64) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_the_key_and_the_purpose_are_opened() {
        let key = Key::new(&[7; 32]).unwrap();
        let value = key.seal("session", &("alice", 3));
        let opened =
            |key: &Key, purpose: &str, value: &str| key.open::<(String, u32)>(purpose, value);
        assert_eq!(
            opened(&key, "session", &value),
            Some(("alice".to_owned(), 3))
        );
        assert_eq!(opened(&key, "login", &value), None);
        assert_eq!(
            opened(&Key::new(&[8; 32]).unwrap(), "session", &value),
            None
        );
        let forged = key.seal("session", &("mallory", 3));
        let (text, _) = forged.split_once('.').unwrap();
        let (_, signature) = value.split_once('.').unwrap();
        assert_eq!(
            opened(&key, "session", &format!("{text}.{signature}")),
            None
        );
        for broken in ["", ".", "a.b", &value[..value.len() - 1], &"x".repeat(5000)] {
            assert_eq!(opened(&key, "session", broken), None, "{broken}");
        }
        assert!(Key::new(&[1; 31]).is_err());
        let token = |key: Key| key.token("session", "ada");
        assert_eq!(
            token(Key::from([7; 32])),
            token(Key::new(&[7; 32]).unwrap())
        );
        let token = key.token("csrf", "a");
        assert!(key.is_token(&token, &token) && !key.is_token("", &token));
        assert!(!key.is_token(&token, &key.token("csrf", "b")));
        assert_eq!(format!("{key:?}"), "[redacted]");
    }
}
