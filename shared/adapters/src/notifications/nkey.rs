//! NKeys of NATS: Ed25519 keys in base32 with a prefix and a checksum, and `.creds` files.

use super::refused;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_notify::TransportError;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// The prefix of seeds, `S`.
const SEED: u8 = 18 << 3;
/// The prefix of keys of users, `U`.
const USER: u8 = 20 << 3;
/// The bytes of a seed: two of the prefixes, the key, the checksum.
const SEED_BYTES: usize = 36;

/// The key of a user.
pub(super) struct Nkey(Ed25519KeyPair);

impl Nkey {
    /// Reads a seed, such as `SUA…`.
    ///
    /// # Errors
    /// The seed is not that of a user, or its checksum differs.
    pub fn from_seed(seed: &[u8]) -> Result<Self, TransportError> {
        let invalid = || refused("the NKey seed of the Secret is not that of a user (SU…)");
        let bytes = decode(seed.trim_ascii()).ok_or_else(invalid)?;
        let [first, second, rest @ ..] = bytes.as_slice() else {
            return Err(invalid());
        };
        let kind = (first & 7) << 5 | (second & 0xf8) >> 3;
        let is_user = first & 0xf8 == SEED && kind == USER;
        if bytes.len() != SEED_BYTES || !is_user {
            return Err(invalid());
        }
        let (key, checksum) = rest.split_at(32);
        if crc16(&bytes[..SEED_BYTES - 2]).to_le_bytes() != checksum {
            return Err(invalid());
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(key);
        pair.map(Self).map_err(|_| invalid())
    }

    /// Returns the public key, such as `UA…`.
    pub fn public(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend(self.0.public_key().as_ref());
        bytes.extend(crc16(&bytes).to_le_bytes());
        encode(&bytes)
    }

    /// Signs the nonce of a server.
    pub fn sign(&self, nonce: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.0.sign(nonce.as_bytes()))
    }
}

/// Returns the JWT and the key of a `.creds` file.
///
/// # Errors
/// The file has no JWT or no seed of a user.
pub(super) fn credentials(file: &[u8]) -> Result<(String, Nkey), TransportError> {
    let file = String::from_utf8_lossy(file);
    let block = |name: &str| {
        let mut lines = file.lines().map(str::trim);
        lines.find(|line| line.contains("-BEGIN ") && line.contains(name))?;
        lines.find(|line| !line.is_empty())
    };
    let jwt = block(" JWT-").ok_or_else(|| refused("'creds' of the Secret has no user JWT"))?;
    let seed = block(" SEED-").ok_or_else(|| refused("'creds' of the Secret has no NKey seed"))?;
    Ok((jwt.to_owned(), Nkey::from_seed(seed.as_bytes())?))
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut buffer, mut bits) = (0_u32, 0);
    for c in text {
        let value = ALPHABET.iter().position(|known| known == c)?;
        buffer = (buffer << 5 | value as u32) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    Some(bytes)
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    let (mut buffer, mut bits) = (0_u32, 0);
    for byte in bytes {
        buffer = (buffer << 8 | u32::from(*byte)) & 0xfff;
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(buffer >> bits) as usize & 31]));
        }
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[(buffer << (5 - bits)) as usize & 31]));
    }
    text
}

/// Computes the checksum CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| match sum & 0x8000 {
            0 => sum << 1,
            _ => (sum << 1) ^ 0x1021,
        })
    })
}
