//! Public keys, and checks of signatures with them.

use ed25519_dalek::Verifier as _;
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use rsa::traits::PublicKeyParts as _;
use rsa::{Pkcs1v15Sign, Pss, RsaPublicKey};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use x509_cert::der::{Decode as _, asn1::ObjectIdentifier, pem};
use x509_cert::spki::SubjectPublicKeyInfoRef;

/// Accepted bits of an RSA key: fewer do not protect, more cost time.
const RSA_BITS: std::ops::RangeInclusive<usize> = 1024..=8192;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

/// A public key of a supported kind.
#[derive(Clone)]
pub enum PublicKey {
    /// A key for ECDSA on the curve P-256.
    P256(p256::ecdsa::VerifyingKey),
    /// A key for ECDSA on the curve P-384.
    P384(p384::ecdsa::VerifyingKey),
    /// A key for ECDSA on the curve P-521.
    P521(Box<p521::ecdsa::VerifyingKey>),
    /// A key for Ed25519.
    Ed25519(ed25519_dalek::VerifyingKey),
    /// A key for RSA.
    Rsa(RsaPublicKey),
}

/// A public key in the form of RFC 7517. The numbers are base64url.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Jwk {
    /// The id of the key.
    pub kid: String,
    kty: String,
    crv: String,
    #[serde(rename = "use")]
    purpose: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

/// The reason why an input is not a public key: the rest of a sentence, without the input itself.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The input has no PEM block.
    #[error("is not PEM")]
    Pem,
    /// The PEM block has the label of something else.
    #[error("is not a public key: expected a PEM block PUBLIC KEY or RSA PUBLIC KEY")]
    Label,
    /// The bytes are not a valid key.
    #[error("is a public key that cannot be read")]
    Broken,
    /// The key is for another algorithm or curve.
    #[error(
        "is a key of a kind that is not supported: expected ECDSA (P-256, P-384, P-521), RSA or Ed25519"
    )]
    Kind,
    /// The RSA key has this number of bits.
    #[error("is an RSA key of {0} bits: expected {min} to {max}", min = RSA_BITS.start(), max = RSA_BITS.end())]
    Bits(usize),
}

/// The hash function of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// The function SHA-256.
    Sha256,
    /// The function SHA-384.
    Sha384,
    /// The function SHA-512.
    Sha512,
}

/// The algorithm and the encoding of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// RSASSA-PKCS1-v1_5.
    Pkcs1(Hash),
    /// RSASSA-PSS with a salt as long as the hash.
    Pss(Hash),
    /// ECDSA, two numbers in DER.
    EcdsaDer(Hash),
    /// ECDSA, two numbers of the curve's fixed length.
    EcdsaFixed(Hash),
    /// Ed25519 over the message itself.
    Ed25519,
}

impl Hash {
    /// Returns the hash of a message.
    pub fn of(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha384 => Sha384::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }

    fn pkcs1(self) -> Pkcs1v15Sign {
        match self {
            Self::Sha256 => Pkcs1v15Sign::new::<rsa::sha2::Sha256>(),
            Self::Sha384 => Pkcs1v15Sign::new::<rsa::sha2::Sha384>(),
            Self::Sha512 => Pkcs1v15Sign::new::<rsa::sha2::Sha512>(),
        }
    }

    fn pss(self) -> Pss {
        match self {
            Self::Sha256 => Pss::new::<rsa::sha2::Sha256>(),
            Self::Sha384 => Pss::new::<rsa::sha2::Sha384>(),
            Self::Sha512 => Pss::new::<rsa::sha2::Sha512>(),
        }
    }
}

/// Checks a signature over a hash with a key of one curve.
macro_rules! ecdsa {
    ($curve:ident, $key:expr, $hashed:expr, $signature:expr, $read:ident) => {
        $curve::ecdsa::Signature::$read($signature)
            .is_ok_and(|signature| $key.verify_prehash($hashed, &signature).is_ok())
    };
}

impl PublicKey {
    /// Reads the key in the first PEM block of `text`.
    ///
    /// # Errors
    /// The block is not a public key, or a key of a kind that is not supported.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let (label, bytes) = first_block(text).ok_or(KeyError::Pem)?;
        match label {
            "PUBLIC KEY" => Self::from_der(&bytes),
            "RSA PUBLIC KEY" => Self::rsa(&bytes),
            _ => Err(KeyError::Label),
        }
    }

    /// Reads the key of a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// The same as [`from_pem`](Self::from_pem).
    pub fn from_der(bytes: &[u8]) -> Result<Self, KeyError> {
        let info = SubjectPublicKeyInfoRef::from_der(bytes).map_err(|_| KeyError::Broken)?;
        let key = info.subject_public_key.as_bytes().ok_or(KeyError::Broken)?;
        let broken = |_| KeyError::Broken;
        match info.algorithm.oid {
            RSA => Self::rsa(key),
            ED25519 => {
                let key = key.try_into().map_err(|_| KeyError::Broken)?;
                let key = ed25519_dalek::VerifyingKey::from_bytes(key).map_err(broken)?;
                Ok(Self::Ed25519(key))
            }
            EC => match info
                .algorithm
                .parameters_oid()
                .map_err(|_| KeyError::Kind)?
            {
                P256 => p256::ecdsa::VerifyingKey::from_sec1_bytes(key).map(Self::P256),
                P384 => p384::ecdsa::VerifyingKey::from_sec1_bytes(key).map(Self::P384),
                P521 => p521::ecdsa::VerifyingKey::from_sec1_bytes(key)
                    .map(|key| Self::P521(Box::new(key))),
                _ => return Err(KeyError::Kind),
            }
            .map_err(broken),
            _ => Err(KeyError::Kind),
        }
    }

    /// Reads a key in the form of RFC 7517; `None` for a key that is not for signatures, or of a
    /// kind that is not supported.
    pub fn from_jwk(key: &Jwk) -> Option<Self> {
        use base64::Engine as _;
        let decode = |text: &str| {
            let text = text.trim_end_matches('=');
            base64::engine::general_purpose::URL_SAFE_NO_PAD
                .decode(text)
                .ok()
        };
        if !matches!(key.purpose.as_str(), "" | "sig") {
            return None;
        }
        let point = || Some([&[4][..], &decode(&key.x)?, &decode(&key.y)?].concat());
        match (key.kty.as_str(), key.crv.as_str()) {
            ("RSA", _) => {
                let number = |text: &str| Some(rsa::BigUint::from_bytes_be(&decode(text)?));
                Self::rsa_of(number(&key.n)?, number(&key.e)?).ok()
            }
            ("OKP", "Ed25519") => {
                let bytes = decode(&key.x)?.try_into().ok()?;
                let key = ed25519_dalek::VerifyingKey::from_bytes(&bytes).ok()?;
                Some(Self::Ed25519(key))
            }
            ("EC", "P-256") => {
                let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(&point()?);
                key.ok().map(Self::P256)
            }
            ("EC", "P-384") => {
                let key = p384::ecdsa::VerifyingKey::from_sec1_bytes(&point()?);
                key.ok().map(Self::P384)
            }
            ("EC", "P-521") => {
                let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(&point()?);
                key.ok().map(|key| Self::P521(Box::new(key)))
            }
            _ => None,
        }
    }

    fn rsa(bytes: &[u8]) -> Result<Self, KeyError> {
        let key = rsa::pkcs1::RsaPublicKey::from_der(bytes).map_err(|_| KeyError::Broken)?;
        let number = |bytes: &[u8]| rsa::BigUint::from_bytes_be(bytes);
        let modulus = number(key.modulus.as_bytes());
        Self::rsa_of(modulus, number(key.public_exponent.as_bytes()))
    }

    fn rsa_of(modulus: rsa::BigUint, exponent: rsa::BigUint) -> Result<Self, KeyError> {
        let bits = modulus.bits();
        if !RSA_BITS.contains(&bits) {
            return Err(KeyError::Bits(bits));
        }
        let key = RsaPublicKey::new_with_max_size(modulus, exponent, *RSA_BITS.end());
        key.map(Self::Rsa).map_err(|_| KeyError::Broken)
    }

    /// Returns the length of an RSA key in bits.
    pub fn rsa_bits(&self) -> Option<usize> {
        match self {
            Self::Rsa(key) => Some(key.n().bits()),
            _ => None,
        }
    }

    /// Returns whether the owner of this key made `signature` over `message`; false if the scheme
    /// is for another kind of key.
    pub fn verifies(&self, scheme: Scheme, message: &[u8], signature: &[u8]) -> bool {
        match (self, scheme) {
            (Self::Rsa(key), Scheme::Pkcs1(hash)) => key
                .verify(hash.pkcs1(), &hash.of(message), signature)
                .is_ok(),
            (Self::Rsa(key), Scheme::Pss(hash)) => {
                key.verify(hash.pss(), &hash.of(message), signature).is_ok()
            }
            (Self::Ed25519(key), Scheme::Ed25519) => {
                let signature = ed25519_dalek::Signature::from_slice(signature);
                signature.is_ok_and(|signature| key.verify(message, &signature).is_ok())
            }
            (_, Scheme::EcdsaDer(hash)) => self.ecdsa(&hash.of(message), signature, true),
            (_, Scheme::EcdsaFixed(hash)) => self.ecdsa(&hash.of(message), signature, false),
            _ => false,
        }
    }

    fn ecdsa(&self, hashed: &[u8], signature: &[u8], der: bool) -> bool {
        match (self, der) {
            (Self::P256(key), true) => ecdsa!(p256, key, hashed, signature, from_der),
            (Self::P256(key), false) => ecdsa!(p256, key, hashed, signature, from_slice),
            (Self::P384(key), true) => ecdsa!(p384, key, hashed, signature, from_der),
            (Self::P384(key), false) => ecdsa!(p384, key, hashed, signature, from_slice),
            (Self::P521(key), true) => ecdsa!(p521, key, &wide(hashed), signature, from_der),
            (Self::P521(key), false) => ecdsa!(p521, key, &wide(hashed), signature, from_slice),
            _ => false,
        }
    }
}

/// Pads a hash to the width of the numbers of P-521: the crate refuses a hash of less than half of
/// that, such as SHA-256.
fn wide(hashed: &[u8]) -> [u8; 66] {
    let mut wide = [0; 66];
    let padding = wide.len().saturating_sub(hashed.len());
    wide[padding..].copy_from_slice(&hashed[..66 - padding]);
    wide
}

/// Returns the label and the bytes of the first PEM block of `text`; other content before and after
/// it is ignored.
pub(super) fn first_block(text: &[u8]) -> Option<(&str, Vec<u8>)> {
    let text = std::str::from_utf8(text).ok()?;
    let block = &text[text.find("-----BEGIN ")?..];
    let end = block.find("-----END ")?;
    let tail = end + "-----END ".len();
    let length = tail + block[tail..].find("-----")? + "-----".len();
    pem::decode_vec(&block.as_bytes()[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn every_kind_of_key_checks_its_own_signatures() {
        for (name, signer) in testing::signers() {
            let key = PublicKey::from_pem(signer.public_pem().as_bytes())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            for (scheme, signature) in signer.signatures(b"message") {
                assert!(
                    key.verifies(scheme, b"message", &signature),
                    "{name} {scheme:?}"
                );
                assert!(
                    !key.verifies(scheme, b"messagf", &signature),
                    "{name} {scheme:?}"
                );
                let mut edited = signature.clone();
                *edited.last_mut().unwrap() ^= 1;
                assert!(
                    !key.verifies(scheme, b"message", &edited),
                    "{name} {scheme:?}"
                );
                assert!(!key.verifies(scheme, b"message", b""));
                for (other, stranger) in testing::signers() {
                    let stranger = PublicKey::from_pem(stranger.public_pem().as_bytes()).unwrap();
                    let right = stranger.verifies(scheme, b"message", &signature);
                    assert_eq!(right, name == other, "{name} {other} {scheme:?}");
                }
            }
        }
    }

    #[test]
    fn invalid_keys() {
        let read = |text: &str| PublicKey::from_pem(text.as_bytes()).err();
        assert_eq!(read(""), Some(KeyError::Pem));
        assert_eq!(read("-----BEGIN "), Some(KeyError::Pem));
        assert_eq!(
            read("-----BEGIN PUBLIC KEY-----\n-----END"),
            Some(KeyError::Pem)
        );
        let block = |label: &str| format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n");
        assert_eq!(read(&block("PUBLIC KEY")), Some(KeyError::Broken));
        assert_eq!(read(&block("RSA PUBLIC KEY")), Some(KeyError::Broken));
        assert_eq!(read(&block("EC PRIVATE KEY")), Some(KeyError::Label));
        // A key of X25519, which cannot sign.
        let exchange = "-----BEGIN PUBLIC KEY-----\n\
            MCowBQYDK2VuAyEAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n-----END PUBLIC KEY-----\n";
        assert_eq!(read(exchange), Some(KeyError::Kind));
        let (_, signer) = testing::signers().swap_remove(0);
        let commented = format!("a comment\n{}\nbehind it", signer.public_pem());
        assert!(read(&commented).is_none());
    }
}
