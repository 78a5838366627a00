//! Keys for SSH: new keys in the format of Flux 2.9 (PKCS #8 in PEM), and keys of files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, KeypairBytes};
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use rsa::RsaPrivateKey;
use rsa::pkcs1::DecodeRsaPrivateKey as _;
use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};
use rsa::traits::PublicKeyParts as _;

/// The algorithm of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// RSA
    Rsa,
    /// ECDSA
    Ecdsa,
    /// Ed25519
    Ed25519,
}

/// The curve of an ECDSA key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Curve {
    /// NIST P-256
    P256,
    /// NIST P-384
    P384,
    /// NIST P-521
    P521,
}

/// A private key and its public key.
#[derive(Debug)]
pub struct KeyPair {
    /// The private key in PEM.
    pub private: String,
    /// The public key as a line of `authorized_keys`.
    pub public: String,
}

/// The reason that a key cannot be generated or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system gives no random bytes.
    #[error("{0}")]
    Random(#[from] getrandom::Error),
    /// The RSA key is not valid.
    #[error("{0}")]
    Rsa(#[from] rsa::Error),
    /// The file is not valid PKCS #1.
    #[error("{0}")]
    Pkcs1(#[from] rsa::pkcs1::Error),
    /// The key cannot be written as PKCS #8.
    #[error("{0}")]
    Pkcs8(#[from] rsa::pkcs8::Error),
    /// The file has a feature that only OpenSSH's format may have.
    #[error(
        "a key with {0} is not supported: convert it to OpenSSH's format with ssh-keygen -p -f FILE"
    )]
    Unsupported(&'static str),
    /// A password was given for a key without one.
    #[error("the key has no password: leave --password out")]
    NoPassword,
    /// The key needs a password.
    #[error("the key has a password: give it with --password")]
    PasswordNeeded,
    /// The PEM file has something else.
    #[error("'{0}' is not a private key for SSH")]
    OtherLabel(String),
    /// The file is not PEM.
    #[error("the file has no private key in PEM")]
    NoPem,
    /// The key is of no known algorithm.
    #[error("not a valid RSA, ECDSA or Ed25519 key")]
    OtherAlgorithm,
    /// The key is of no known curve.
    #[error("not a valid ECDSA key of P-256, P-384 or P-521")]
    OtherCurve,
    /// The file is not valid in OpenSSH's format.
    #[error("not a valid key in OpenSSH's format")]
    OpenSsh,
}

type Result<T> = std::result::Result<T, KeyError>;

impl KeyPair {
    /// Generates a key with the defaults of Flux: ECDSA on P-384.
    ///
    /// # Errors
    /// Fails as [`KeyPair::generate`] does.
    pub fn new() -> Result<Self> {
        Self::generate(Algorithm::Ecdsa, Curve::P384, 0)
    }

    /// Generates a key; `bits` is the size of an RSA key.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub fn generate(algorithm: Algorithm, curve: Curve, bits: usize) -> Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        let mut random = ChaCha20Rng::from_seed(seed);
        let lines = LineEnding::LF;
        let (private, blob) = match (algorithm, curve) {
            (Algorithm::Rsa, _) => {
                let key = RsaPrivateKey::new(&mut random, bits)?;
                (key.to_pkcs8_pem(lines), rsa_blob(&key))
            }
            (Algorithm::Ed25519, _) => {
                let mut secret = [0; 32];
                random.fill_bytes(&mut secret);
                let key = SigningKey::from_bytes(&secret);
                // Without the public key, as Go writes it.
                let bytes = KeypairBytes {
                    secret_key: key.to_bytes(),
                    public_key: None,
                };
                (bytes.to_pkcs8_pem(lines), ed25519_blob(&key))
            }
            (Algorithm::Ecdsa, Curve::P256) => {
                let key = p256::SecretKey::random(&mut random);
                (key.to_pkcs8_pem(lines), p256_blob(&key))
            }
            (Algorithm::Ecdsa, Curve::P384) => {
                let key = p384::SecretKey::random(&mut random);
                (key.to_pkcs8_pem(lines), p384_blob(&key))
            }
            (Algorithm::Ecdsa, Curve::P521) => {
                let key = p521::SecretKey::random(&mut random);
                (key.to_pkcs8_pem(lines), p521_blob(&key))
            }
        };
        Ok(Self::from_blob(private?.to_string(), &blob))
    }

    /// Parses the key of a file. With `has_password` the key must be encrypted in OpenSSH's own
    /// format, because there the public key can be read without the password, which is not tried.
    ///
    /// # Errors
    /// Fails if the key is not valid or supported, or `has_password` is wrong.
    pub fn load(text: String, has_password: bool) -> Result<Self> {
        let label = label(&text)?;
        let blob = match label {
            "OPENSSH PRIVATE KEY" => openssh_blob(&text, has_password)?,
            "ENCRYPTED PRIVATE KEY" => return Err(KeyError::Unsupported("a password in PKCS #8")),
            _ if text.contains("Proc-Type:") => {
                return Err(KeyError::Unsupported("a password in PEM"));
            }
            _ if has_password => return Err(KeyError::NoPassword),
            "RSA PRIVATE KEY" => {
                let key = RsaPrivateKey::from_pkcs1_pem(&text)?;
                rsa_blob(&key)
            }
            "EC PRIVATE KEY" => ec_blob(&text)?,
            "PRIVATE KEY" => pkcs8_blob(&text)?,
            _ => return Err(KeyError::OtherLabel(label.to_owned())),
        };
        Ok(Self::from_blob(text, &blob))
    }

    /// `blob` is the public key in SSH's binary format.
    fn from_blob(private: String, blob: &[u8]) -> Self {
        // The blob begins with the name of its type.
        let length = blob.get(..4).map_or(0, |length| {
            length
                .iter()
                .fold(0, |all, byte| all << 8 | usize::from(*byte))
        });
        let key_type = String::from_utf8_lossy(blob.get(4..4 + length).unwrap_or_default());
        let public = format!("{key_type} {}\n", STANDARD.encode(blob));
        Self { private, public }
    }
}

/// Returns the label of a PEM file.
fn label(text: &str) -> Result<&str> {
    let label = text
        .split_once("-----BEGIN ")
        .and_then(|(_, rest)| rest.split_once("-----"));
    label.map(|(label, _)| label).ok_or(KeyError::NoPem)
}

fn pkcs8_blob(text: &str) -> Result<Vec<u8>> {
    if let Ok(key) = SigningKey::from_pkcs8_pem(text) {
        return Ok(ed25519_blob(&key));
    }
    if let Ok(key) = RsaPrivateKey::from_pkcs8_pem(text) {
        return Ok(rsa_blob(&key));
    }
    if let Ok(key) = p256::SecretKey::from_pkcs8_pem(text) {
        return Ok(p256_blob(&key));
    }
    if let Ok(key) = p384::SecretKey::from_pkcs8_pem(text) {
        return Ok(p384_blob(&key));
    }
    if let Ok(key) = p521::SecretKey::from_pkcs8_pem(text) {
        return Ok(p521_blob(&key));
    }
    Err(KeyError::OtherAlgorithm)
}

fn ec_blob(text: &str) -> Result<Vec<u8>> {
    if let Ok(key) = p256::SecretKey::from_sec1_pem(text) {
        return Ok(p256_blob(&key));
    }
    if let Ok(key) = p384::SecretKey::from_sec1_pem(text) {
        return Ok(p384_blob(&key));
    }
    if let Ok(key) = p521::SecretKey::from_sec1_pem(text) {
        return Ok(p521_blob(&key));
    }
    Err(KeyError::OtherCurve)
}

/// Returns the public key in a file of OpenSSH's own format (PROTOCOL.key), which is unencrypted
/// and before the private key.
fn openssh_blob(text: &str, has_password: bool) -> Result<Vec<u8>> {
    let invalid = || KeyError::OpenSsh;
    let body: String = text
        .lines()
        .map(str::trim)
        .skip_while(|line| !line.starts_with("-----BEGIN"))
        .skip(1)
        .take_while(|line| !line.starts_with("-----END"))
        .collect();
    let bytes = STANDARD.decode(body).map_err(|_| invalid())?;
    let mut rest = bytes
        .strip_prefix(b"openssh-key-v1\0".as_slice())
        .ok_or_else(invalid)?;
    let mut next = || take(&mut rest);
    let cipher = next().ok_or_else(invalid)?;
    next().and_then(|_| next()).ok_or_else(invalid)?;
    match (cipher == b"none", has_password) {
        (true, true) => return Err(KeyError::NoPassword),
        (false, false) => return Err(KeyError::PasswordNeeded),
        _ => {}
    }
    // The number of keys is always one.
    if rest.get(..4) != Some(&[0, 0, 0, 1]) {
        return Err(invalid());
    }
    rest = &rest[4..];
    take(&mut rest).map(<[u8]>::to_vec).ok_or_else(invalid)
}

/// Splits off a string of SSH: its length, and then its bytes.
pub fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (taken, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Writes strings of SSH: each part after its length.
pub fn write(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        out.extend(length.to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// Encodes a positive number for SSH: with a leading zero byte if the highest bit is set.
pub fn number(mut bytes: &[u8]) -> Vec<u8> {
    while let [0, rest @ ..] = bytes {
        bytes = rest;
    }
    let sign: &[u8] = match bytes.first() {
        Some(first) if first & 0x80 != 0 => &[0],
        _ => &[],
    };
    [sign, bytes].concat()
}

fn rsa_blob(key: &RsaPrivateKey) -> Vec<u8> {
    let (exponent, modulus) = (key.e().to_bytes_be(), key.n().to_bytes_be());
    write(&[b"ssh-rsa", &number(&exponent), &number(&modulus)])
}

fn ed25519_blob(key: &SigningKey) -> Vec<u8> {
    write(&[b"ssh-ed25519", key.verifying_key().as_bytes()])
}

fn ecdsa_blob(curve: &str, point: &[u8]) -> Vec<u8> {
    let key_type = format!("ecdsa-sha2-{curve}");
    write(&[key_type.as_bytes(), curve.as_bytes(), point])
}

fn p256_blob(key: &p256::SecretKey) -> Vec<u8> {
    let point = key.public_key().to_encoded_point(false);
    ecdsa_blob("nistp256", point.as_bytes())
}

fn p384_blob(key: &p384::SecretKey) -> Vec<u8> {
    let point = key.public_key().to_encoded_point(false);
    ecdsa_blob("nistp384", point.as_bytes())
}

fn p521_blob(key: &p521::SecretKey) -> Vec<u8> {
    let point = key.public_key().to_encoded_point(false);
    ecdsa_blob("nistp521", point.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(algorithm: Algorithm, curve: Curve) -> KeyPair {
        KeyPair::generate(algorithm, curve, 1024).unwrap()
    }

    #[test]
    fn a_new_key_loads_with_the_same_public_key() {
        for (algorithm, curve, of) in [
            (Algorithm::Rsa, Curve::P256, "ssh-rsa AAAAB3NzaC1yc2E"),
            (
                Algorithm::Ed25519,
                Curve::P256,
                "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
            ),
            (
                Algorithm::Ecdsa,
                Curve::P256,
                "ecdsa-sha2-nistp256 AAAAE2VjZHNh",
            ),
            (
                Algorithm::Ecdsa,
                Curve::P384,
                "ecdsa-sha2-nistp384 AAAAE2VjZHNh",
            ),
            (
                Algorithm::Ecdsa,
                Curve::P521,
                "ecdsa-sha2-nistp521 AAAAE2VjZHNh",
            ),
        ] {
            let pair = new(algorithm, curve);
            assert!(pair.public.starts_with(of), "{}", pair.public);
            assert!(pair.private.starts_with("-----BEGIN PRIVATE KEY-----\n"));
            let loaded = KeyPair::load(pair.private.clone(), false).unwrap();
            assert_eq!(loaded.public, pair.public);
            let error = KeyPair::load(pair.private, true).unwrap_err();
            assert!(error.to_string().contains("has no password"), "{error}");
        }
    }

    #[test]
    fn public_keys_of_openssh_files_are_read() {
        let file = |cipher: &[u8], key: &[u8]| {
            let head = write(&[cipher, b"none", b""]);
            let body = [
                b"openssh-key-v1\0",
                head.as_slice(),
                &[0, 0, 0, 1],
                &write(&[key, b"secret"]),
            ]
            .concat();
            let body = STANDARD.encode(body);
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n"
            )
        };
        let blob = write(&[b"ssh-ed25519", &[7; 32]]);
        let want = format!("ssh-ed25519 {}\n", STANDARD.encode(&blob));
        let plain = KeyPair::load(file(b"none", &blob), false).unwrap();
        assert_eq!(plain.public, want);
        let locked = KeyPair::load(file(b"aes256-ctr", &blob), true).unwrap();
        assert_eq!(locked.public, want);
        for (cipher, password, word) in [
            (b"none".as_slice(), true, "has no password"),
            (b"aes256-ctr", false, "has a password"),
        ] {
            let error = KeyPair::load(file(cipher, &blob), password).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        for (text, word) in [
            ("hello", "no private key in PEM"),
            (
                "-----BEGIN CERTIFICATE-----\n",
                "'CERTIFICATE' is not a private key",
            ),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
                "a password in PKCS #8",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
                "a password in PEM",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                "not a valid RSA",
            ),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
                "not a valid key in OpenSSH",
            ),
        ] {
            let error = KeyPair::load(text.to_owned(), false).unwrap_err();
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}
