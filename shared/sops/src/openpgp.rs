//! OpenPGP: secret keys in armor, and the messages in which sops encrypts a data key for them.
//!
//! The format is RFC 9580, with GnuPG's own form of OCB-encrypted data. The `pgp` crate reads the
//! exports of gpg 2.2 and 2.4 (`--export-secret-keys --armor`) and the messages of sops 3.

use std::fmt;
use std::io::{Cursor, Read as _};

use pgp::composed::{DecryptionOptions, Deserializable as _, Message, SignedSecretKey, TheRing};
use pgp::types::{KeyDetails as _, Password, Seipdv1ReadMode};
use zeroize::Zeroizing;

/// The first line of an armored block of secret keys.
const BEGIN: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";
/// The most keys of one file.
const KEYS: usize = 100;
/// The most bytes of a message, which holds a data key.
const MESSAGE: usize = 4 << 10;
/// A data key, or a part of one with its x coordinate, takes 33 bytes.
const DATA_KEY: u64 = 64;

/// A secret key with its subkeys. `Debug` prints only the fingerprint.
pub(crate) struct PgpKey(Box<SignedSecretKey>);

impl fmt::Debug for PgpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PgpKey").field(&self.fingerprint()).finish()
    }
}

impl PgpKey {
    /// Parses the keys of one or more armored blocks.
    ///
    /// # Errors
    /// The description of the problem.
    pub(crate) fn read_all(text: &str) -> Result<Vec<Self>, &'static str> {
        let mut keys = Vec::new();
        for block in text.split(BEGIN).skip(1) {
            let block = format!("{BEGIN}{block}");
            let parsed = SignedSecretKey::from_armor_many(Cursor::new(block.into_bytes()));
            let (found, _) = parsed.map_err(|_| "the armor cannot be read")?;
            for key in found {
                let key = key.map_err(|_| "a key cannot be read")?;
                if !has_plain_part(&key) {
                    return Err("a key has a passphrase: export one without, as Flux needs it");
                }
                if keys.len() >= KEYS {
                    return Err("more than 100 keys");
                }
                keys.push(Self(Box::new(key)));
            }
        }
        match keys.is_empty() {
            true => Err("expected a block -----BEGIN PGP PRIVATE KEY BLOCK-----"),
            false => Ok(keys),
        }
    }

    /// Returns the primary key's fingerprint in uppercase hexadecimal digits, which is sops's name
    /// of the key.
    pub(crate) fn fingerprint(&self) -> String {
        self.0.primary_key.fingerprint().to_string().to_uppercase()
    }
}

/// Checks whether the key, or a subkey, can be used without a passphrase. gpg exports a key whose
/// primary part is kept elsewhere with a part that cannot be used.
fn has_plain_part(key: &SignedSecretKey) -> bool {
    let subkeys = key.secret_subkeys.iter();
    !key.primary_key.secret_params().is_encrypted()
        || subkeys
            .into_iter()
            .any(|subkey| !subkey.key.secret_params().is_encrypted())
}

/// Decrypts a message by one of the keys; `None` if no key opens it, or it is not such a message.
pub(crate) fn open(keys: &[PgpKey], message: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (message, _) = Message::from_armor(Cursor::new(message.as_bytes())).ok()?;
    let no_passphrase = Password::empty();
    let read_mode = Seipdv1ReadMode::CheckFirst {
        max_message_size: MESSAGE,
    };
    let ring = TheRing {
        secret_keys: keys.iter().map(|key| &*key.0).collect(),
        key_passwords: vec![&no_passphrase],
        decrypt_options: DecryptionOptions::new()
            .enable_gnupg_aead()
            .set_seipdv1_read_mode(read_mode),
        ..TheRing::default()
    };
    let (mut opened, _) = message.decrypt_the_ring(ring, true).ok()?;
    if opened.is_compressed() {
        opened = opened.decompress().ok()?;
    }
    let mut secret = Zeroizing::new(Vec::with_capacity(64));
    opened
        .by_ref()
        .take(DATA_KEY)
        .read_to_end(&mut secret)
        .ok()?;
    // The message must be read to its end, which also checks its integrity.
    match opened.read(&mut [0]) {
        Ok(0) => Some(secret),
        _ => None,
    }
}
