//! A registry, keys and signatures for tests. The private keys are the public numbers below.

use super::key::{Hash, Scheme};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{
    Charts, Connection, DownloadOutcome, ErrorKind, Layer, Manifest, PortError, Referrer, Result,
    Validator,
};
use ed25519_dalek::Signer as _;
use p256::ecdsa::signature::hazmat::{PrehashSigner as _, RandomizedPrehashSigner as _};
use p256::elliptic_curve::rand_core;
use rsa::pkcs8::{EncodePublicKey as _, LineEnding};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// One repository of a registry, in memory.
#[derive(Default)]
pub(super) struct Registry {
    /// The manifests by tag or digest.
    pub manifests: BTreeMap<String, Manifest>,
    blobs: BTreeMap<String, Vec<u8>>,
    referrers: BTreeMap<String, Vec<Referrer>>,
    /// True if the registry refuses to list referrers.
    pub deny_referrers: bool,
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Returns a layer whose bytes are not in the registry.
pub(super) fn layer(media_type: &str) -> Layer {
    Layer {
        media_type: media_type.to_owned(),
        digest: digest(media_type.as_bytes()),
        ..Layer::default()
    }
}

impl Registry {
    pub fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Layer {
        let digest = digest(bytes);
        self.blobs.insert(digest.clone(), bytes.to_vec());
        Layer {
            digest,
            size: bytes.len() as u64,
            ..layer(media_type)
        }
    }

    pub fn tag(&mut self, tag: &str, layers: Vec<Layer>) {
        let manifest = Manifest {
            layers,
            ..Manifest::default()
        };
        self.manifests.insert(tag.to_owned(), manifest);
    }

    /// Adds a manifest of these layers that refers to another one.
    pub fn refer(&mut self, to: &str, layers: Vec<Layer>) {
        let own = digest(format!("{layers:?}{}", self.manifests.len()).as_bytes());
        self.tag(&own, layers);
        let referrer = Referrer {
            digest: own,
            ..Referrer::default()
        };
        let list = self.referrers.entry(to.to_owned());
        list.or_default().push(referrer);
    }
}

fn absent<T>() -> Result<T> {
    Err(PortError::new(ErrorKind::NotFound, "absent"))
}

#[async_trait]
impl Charts for Registry {
    async fn get(&self, _: &str, _: &Connection, _: &Validator, _: u64) -> Result<DownloadOutcome> {
        absent()
    }

    async fn tags(&self, _: &str, _: &Connection) -> Result<Vec<String>> {
        absent()
    }

    async fn manifest(&self, _: &str, reference: &str, _: &Connection) -> Result<Manifest> {
        let found = self.manifests.get(reference).cloned();
        found.map_or_else(absent, Ok)
    }

    async fn referrers(&self, _: &str, digest: &str, _: &Connection) -> Result<Vec<Referrer>> {
        match self.deny_referrers {
            true => Err(PortError::new(ErrorKind::Denied, "denied")),
            false => Ok(self.referrers.get(digest).cloned().unwrap_or_default()),
        }
    }

    async fn layer(&self, _: &str, layer: &Layer, _: &Connection, limit: u64) -> Result<Bytes> {
        match self.blobs.get(&layer.digest) {
            Some(bytes) if bytes.len() as u64 > limit => {
                Err(PortError::new(ErrorKind::Invalid, "too large"))
            }
            Some(bytes) => Ok(bytes.clone().into()),
            None => absent(),
        }
    }
}

pub(super) enum Signer {
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(p521::ecdsa::SigningKey),
    Ed25519(ed25519_dalek::SigningKey),
    Rsa(Box<rsa::RsaPrivateKey>),
}

/// Returns a key of each kind, with its name.
pub(super) fn signers() -> Vec<(&'static str, Signer)> {
    vec![
        ("p256", p256(1)),
        (
            "p384",
            Signer::P384(p384::ecdsa::SigningKey::from_slice(&[2; 48]).unwrap()),
        ),
        (
            "p521",
            Signer::P521(p521::ecdsa::SigningKey::from_slice(&[1; 66]).unwrap()),
        ),
        (
            "ed25519",
            Signer::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[4; 32])),
        ),
        ("rsa", rsa()),
    ]
}

/// Returns the key of P-256 with this number.
pub(super) fn p256(number: u8) -> Signer {
    Signer::P256(p256::ecdsa::SigningKey::from_slice(&[number; 32]).unwrap())
}

/// Returns a key of 2,048 bits, of the primes 2^1024 - 105 and 2^1023 + 1155.
fn rsa() -> Signer {
    let one = rsa::BigUint::from(1u8);
    let p = (&one << 1024) - rsa::BigUint::from(105u8);
    let q = (&one << 1023) + rsa::BigUint::from(1155u16);
    let key = rsa::RsaPrivateKey::from_p_q(p, q, rsa::BigUint::from(65537u32)).unwrap();
    Signer::Rsa(Box::new(key))
}

impl Signer {
    pub fn public_pem(&self) -> String {
        let ending = LineEnding::LF;
        match self {
            Self::P256(key) => key.verifying_key().to_public_key_pem(ending).unwrap(),
            Self::P384(key) => spki(
                "1.3.132.0.34",
                key.verifying_key().to_encoded_point(false).as_bytes(),
            ),
            Self::P521(key) => {
                let key = p521::ecdsa::VerifyingKey::from(key);
                spki("1.3.132.0.35", key.to_encoded_point(false).as_bytes())
            }
            Self::Ed25519(key) => key.verifying_key().to_public_key_pem(ending).unwrap(),
            Self::Rsa(key) => key.to_public_key().to_public_key_pem(ending).unwrap(),
        }
    }

    /// Returns a signature in every scheme of this kind of key.
    pub fn signatures(&self, message: &[u8]) -> Vec<(Scheme, Vec<u8>)> {
        let hashed = Sha256::digest(message);
        let ecdsa = |der: Vec<u8>, fixed: Vec<u8>| {
            vec![
                (Scheme::EcdsaDer(Hash::Sha256), der),
                (Scheme::EcdsaFixed(Hash::Sha256), fixed),
            ]
        };
        match self {
            Self::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign_prehash(&hashed).unwrap();
                ecdsa(signature.to_der().as_bytes().to_vec(), signature.to_vec())
            }
            Self::P384(key) => {
                let signature: p384::ecdsa::Signature = key.sign_prehash(&hashed).unwrap();
                ecdsa(signature.to_der().as_bytes().to_vec(), signature.to_vec())
            }
            Self::P521(key) => {
                let mut wide = [0; 66];
                wide[34..].copy_from_slice(&hashed);
                let signature: p521::ecdsa::Signature =
                    key.sign_prehash_with_rng(&mut Counter(7), &wide).unwrap();
                ecdsa(signature.to_der().as_bytes().to_vec(), signature.to_vec())
            }
            Self::Ed25519(key) => vec![(Scheme::Ed25519, key.sign(message).to_vec())],
            Self::Rsa(key) => {
                let signature = key.sign(rsa::Pkcs1v15Sign::new::<rsa::sha2::Sha256>(), &hashed);
                vec![(Scheme::Pkcs1(Hash::Sha256), signature.unwrap())]
            }
        }
    }

    /// Returns a signature as cosign makes it.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.signatures(message).swap_remove(0).1
    }
}

/// Encodes a public key in PEM, for curves whose crates need more features for it.
fn spki(curve: &str, point: &[u8]) -> String {
    use x509_cert::der::asn1::{BitString, ObjectIdentifier};
    use x509_cert::der::{Any, Encode as _, pem};
    let info = x509_cert::spki::SubjectPublicKeyInfoOwned {
        algorithm: x509_cert::spki::AlgorithmIdentifierOwned {
            oid: ObjectIdentifier::new("1.2.840.10045.2.1").unwrap(),
            parameters: Some(Any::from(ObjectIdentifier::new(curve).unwrap())),
        },
        subject_public_key: BitString::from_bytes(point).unwrap(),
    };
    pem::encode_string("PUBLIC KEY", pem::LineEnding::LF, &info.to_der().unwrap()).unwrap()
}

/// A deterministic source of "random" numbers.
struct Counter(u8);

impl rand_core::RngCore for Counter {
    fn next_u32(&mut self) -> u32 {
        rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_add(1);
            *byte = self.0;
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl rand_core::CryptoRng for Counter {}
