//! One encrypted value: `ENC[AES256_GCM,data:...,iv:...,tag:...,type:...]`.

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::generic_array::GenericArray;
use aes_gcm::aead::{AeadInPlace, KeyInit};
use aes_gcm::{AesGcm, aes::Aes256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// sops uses nonces of 32 bytes.
type Aead = AesGcm<Aes256, U32>;

/// The key that every value of a file is encrypted with.
pub(crate) struct DataKey(Aead);

/// A decrypted value.
pub(crate) struct Plain {
    pub kind: String,
    pub bytes: Zeroizing<Vec<u8>>,
}

const NOT_ENCRYPTED: &str = "expected an encrypted value (ENC[AES256_GCM,...])";
const WRONG_KEY_MESSAGE: &str = "cannot be decrypted: the value was changed, moved to another key, or encrypted with another data key";

impl DataKey {
    /// Returns a key; `None` if it does not have 32 bytes.
    pub(crate) fn new(bytes: &[u8]) -> Option<DataKey> {
        Aead::new_from_slice(bytes).ok().map(DataKey)
    }

    /// Encrypts a value of a type, bound to its path `place`. The nonce must be new.
    pub(crate) fn encrypt(
        &self,
        plain: &[u8],
        kind: &str,
        place: &str,
        nonce: &[u8; 32],
    ) -> Result<String, &'static str> {
        let mut bytes = Zeroizing::new(plain.to_vec());
        let iv = GenericArray::from_slice(nonce);
        let sealed = self
            .0
            .encrypt_in_place_detached(iv, place.as_bytes(), &mut bytes);
        let tag = sealed.map_err(|_| "the value is too large")?;
        let [data, iv, tag] =
            [bytes.as_slice(), nonce.as_slice(), tag.as_slice()].map(|part| STANDARD.encode(part));
        Ok(format!(
            "ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{kind}]"
        ))
    }

    /// Decrypts a value; `place` is its path, to which the value is bound.
    pub(crate) fn decrypt(&self, text: &str, place: &str) -> Result<Plain, &'static str> {
        let parts = Parts::parse(text).ok_or(NOT_ENCRYPTED)?;
        let mut bytes = Zeroizing::new(STANDARD.decode(parts.data).map_err(|_| NOT_ENCRYPTED)?);
        let iv = STANDARD.decode(parts.iv).map_err(|_| NOT_ENCRYPTED)?;
        let tag = STANDARD.decode(parts.tag).map_err(|_| NOT_ENCRYPTED)?;
        if iv.len() != 32 || tag.len() != 16 {
            return Err(NOT_ENCRYPTED);
        }
        let (nonce, tag) = (
            GenericArray::from_slice(&iv),
            GenericArray::from_slice(&tag),
        );
        self.0
            .decrypt_in_place_detached(nonce, place.as_bytes(), &mut bytes, tag)
            .map_err(|_| WRONG_KEY_MESSAGE)?;
        Ok(Plain {
            kind: parts.kind.to_owned(),
            bytes,
        })
    }
}

struct Parts<'t> {
    data: &'t str,
    iv: &'t str,
    tag: &'t str,
    kind: &'t str,
}

impl<'t> Parts<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let inner = text
            .strip_prefix("ENC[AES256_GCM,data:")?
            .strip_suffix(']')?;
        let (data, rest) = inner.split_once(",iv:")?;
        let (iv, rest) = rest.split_once(",tag:")?;
        let (tag, kind) = rest.split_once(",type:")?;
        Some(Parts {
            data,
            iv,
            tag,
            kind,
        })
    }
}

/// Checks whether a string has the form of an encrypted value.
pub(crate) fn looks_encrypted(text: &str) -> bool {
    Parts::parse(text).is_some()
}
