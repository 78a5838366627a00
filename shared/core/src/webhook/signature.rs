//! Checks of signatures and shared tokens in constant time.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

/// Returns whether `hex` is the HMAC of the body under the secret. An empty secret verifies
/// nothing.
fn is_hmac<M: Mac + KeyInit>(secret: &[u8], body: &[u8], hex: &str) -> bool {
    let (Ok(given), Ok(mut mac), false) = (
        hex::decode(hex),
        <M as KeyInit>::new_from_slice(secret),
        secret.is_empty(),
    ) else {
        return false;
    };
    mac.update(body);
    mac.verify_slice(&given).is_ok()
}

/// Returns whether `hex` is the HMAC-SHA-256 of the body.
pub(super) fn is_sha256(secret: &[u8], body: &[u8], hex: &str) -> bool {
    is_hmac::<Hmac<Sha256>>(secret, body, hex)
}

/// Returns whether `hex` is the HMAC-SHA-1 of the body.
pub(super) fn is_sha1(secret: &[u8], body: &[u8], hex: &str) -> bool {
    is_hmac::<Hmac<Sha1>>(secret, body, hex)
}

/// Returns whether a header `sha256=HEX` has the HMAC of the body.
pub(super) fn is_prefixed_sha256(secret: &[u8], body: &[u8], header: Option<&str>) -> bool {
    let hex = header.and_then(|text| text.strip_prefix("sha256="));
    hex.is_some_and(|hex| is_sha256(secret, body, hex))
}

/// Returns whether a header `ALGORITHM=HEX` has the HMAC of the body, with `sha1`, `sha256` or
/// `sha512`.
pub(super) fn is_prefixed(secret: &[u8], body: &[u8], header: Option<&str>) -> bool {
    match header.and_then(|text| text.split_once('=')) {
        Some(("sha1", hex)) => is_sha1(secret, body, hex),
        Some(("sha256", hex)) => is_sha256(secret, body, hex),
        Some(("sha512", hex)) => is_hmac::<Hmac<Sha512>>(secret, body, hex),
        _ => false,
    }
}

/// Returns whether a header has the secret itself. The time depends only on the lengths. An empty
/// secret verifies nothing.
pub(super) fn is_token(secret: &[u8], header: Option<&str>) -> bool {
    const MESSAGE: &[u8] = b"comparison of two tokens";
    let mac = |key: &[u8]| <Hmac<Sha256> as KeyInit>::new_from_slice(key).ok();
    let (Some(given), false) = (header, secret.is_empty()) else {
        return false;
    };
    let (Some(mut one), Some(mut other)) = (mac(secret), mac(given.as_bytes())) else {
        return false;
    };
    one.update(MESSAGE);
    other.update(MESSAGE);
    // Keys of up to a block are padded with zeros, so a longer one could have the same HMAC.
    given.len() == secret.len() && one.verify(&other.finalize().into_bytes()).is_ok()
}

/// Returns the HMAC-SHA-256 in hex, as a sender makes it.
#[cfg(test)]
pub(super) fn sign(secret: &[u8], body: &[u8]) -> String {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).unwrap();
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

/// Returns the HMAC-SHA-1 in hex, as a sender makes it.
#[cfg(test)]
pub(super) fn sign_sha1(secret: &[u8], body: &[u8]) -> String {
    let mut mac = <Hmac<Sha1> as KeyInit>::new_from_slice(secret).unwrap();
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"It's a Secret to Everybody";
    /// GitHub's own example for the body `Hello, World!`.
    const SIGNATURE: &str =
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn signatures() {
        let body = b"Hello, World!";
        assert_eq!(format!("sha256={}", sign(SECRET, body)), SIGNATURE);
        assert!(is_prefixed_sha256(SECRET, body, Some(SIGNATURE)));
        assert!(is_prefixed(SECRET, body, Some(SIGNATURE)));
        let sha1 = format!("sha1={}", sign_sha1(SECRET, body));
        assert!(is_prefixed(SECRET, body, Some(&sha1)));
        for bad in [
            None,
            Some(""),
            Some("sha256="),
            Some(&*sha1),
            Some("sha256=757107ea"),
            Some(&SIGNATURE.replace("757", "758")),
            Some(&SIGNATURE[7..]),
        ] {
            assert!(!is_prefixed_sha256(SECRET, body, bad), "{bad:?}");
        }
        for bad in ["sha1=", "sha512=00", &sha1.replace("sha1", "md5")] {
            assert!(!is_prefixed(SECRET, body, Some(bad)), "{bad}");
        }
        assert!(!is_prefixed_sha256(
            SECRET,
            b"Hello, World?",
            Some(SIGNATURE)
        ));
        assert!(!is_prefixed_sha256(b"", body, Some(SIGNATURE)));
    }

    #[test]
    fn tokens() {
        assert!(is_token(b"token", Some("token")));
        for bad in [None, Some(""), Some("toke"), Some("token\0"), Some("Token")] {
            assert!(!is_token(b"token", bad), "{bad:?}");
        }
        assert!(!is_token(b"", Some("")));
    }
}
