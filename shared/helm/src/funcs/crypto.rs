//! Digests and AES for templates.

use super::arg::{bytes, out};
use super::render_context::random;
use super::split::base64_decode;
use super::{Entry, Out, S, SS};
use aes::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit as _};
use base64::Engine as _;
use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use driftless_gotmpl::{Exec, Value};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

pub(super) const TABLE: &[Entry] = &[
    ("sha1sum", S, |e, a| digest::<Sha1>(e, a)),
    ("sha256sum", S, |e, a| digest::<Sha256>(e, a)),
    ("sha512sum", S, |e, a| digest::<Sha512>(e, a)),
    ("adler32sum", S, |e, a| {
        out(e, adler32(bytes(a, 0)).to_string())
    }),
    ("encryptAES", SS, encrypt),
    ("decryptAES", SS, decrypt),
];

fn digest<D: sha2::Digest>(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    exec.charge(bytes(a, 0).len() as u64 / 8)?;
    out(exec, hex::encode(D::digest(bytes(a, 0))))
}

fn adler32(s: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    // The number of bytes whose sums fit into 32 bits.
    const CHUNK: usize = 5_552;
    let (mut low, mut high) = (1u32, 0u32);
    for chunk in s.chunks(CHUNK) {
        for byte in chunk {
            low += u32::from(*byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

/// Returns the first 32 bytes of a password, filled with zeros.
fn key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let length = password.len().min(32);
    key[..length].copy_from_slice(&password[..length]);
    key
}

fn encrypt(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let plain = bytes(a, 1);
    if plain.is_empty() {
        return Ok(Value::str(""));
    }
    exec.charge_bytes(plain.len().saturating_mul(2))?;
    let mut iv = [0; 16];
    random(exec)?.fill(&mut iv);
    let cipher = cbc::Encryptor::<aes::Aes256>::new(&key(bytes(a, 0)).into(), &iv.into());
    let sealed = cipher.encrypt_padded_vec_mut::<Pkcs7>(plain);
    let text = base64::engine::general_purpose::STANDARD.encode([&iv[..], &sealed].concat());
    out(exec, text)
}

fn decrypt(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    if bytes(a, 1).is_empty() {
        return Ok(Value::str(""));
    }
    let sealed = base64_decode(bytes(a, 1))?;
    exec.charge_bytes(sealed.len())?;
    let Some((iv, sealed)) = sealed.split_first_chunk::<16>() else {
        return Err("runtime error: slice bounds out of range".into());
    };
    if sealed.len() % 16 != 0 {
        return Err("crypto/cipher: input not full blocks".into());
    }
    let cipher = cbc::Decryptor::<aes::Aes256>::new(&key(bytes(a, 0)).into(), iv.into());
    let plain = cipher
        .decrypt_padded_vec_mut::<NoPadding>(sealed)
        .map_err(|_| "crypto/cipher: input not full blocks")?;
    let padding = plain.last().copied().map(usize::from);
    match padding.and_then(|n| plain.len().checked_sub(n)) {
        Some(length) => out(exec, &plain[..length]),
        None => Err("runtime error: slice bounds out of range".into()),
    }
}
