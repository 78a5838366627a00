//! Password functions: bcrypt, htpasswd, derivePassword.

use super::arg::{bytes, int, out, text};
use super::render_context::random;
use super::{Entry, Out, S, SS};
use driftless_gotmpl::{Exec, Param, Value};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

pub(super) const TABLE: &[Entry] = &[
    ("bcrypt", S, |e, a| {
        let hash = bcrypt_hash(e, bytes(a, 0))?;
        out(e, hash)
    }),
    ("htpasswd", SS, |e, a| {
        let user = text(a, 0);
        if user.contains(':') {
            return out(e, format!("invalid username: {user}"));
        }
        let hash = bcrypt_hash(e, bytes(a, 1))?;
        out(e, format!("{user}:{hash}"))
    }),
    (
        "derivePassword",
        &[
            Param::Uint32,
            Param::Str,
            Param::Str,
            Param::Str,
            Param::Str,
        ],
        derive,
    ),
];

/// The steps of a slow hash: about 50 ms of work.
const SLOW_HASH_STEPS: u64 = 1_500_000;

fn bcrypt_hash(
    exec: &mut Exec<'_>,
    password: &[u8],
) -> Result<String, driftless_gotmpl::FuncError> {
    exec.charge(SLOW_HASH_STEPS)?;
    if password.len() > 72 {
        let reason = "bcrypt: password length exceeds 72 bytes";
        return Ok(format!("failed to encrypt string with bcrypt: {reason}"));
    }
    let mut salt = [0; 16];
    random(exec)?.fill(&mut salt);
    // Go's library accepts a zero byte like any other, as does this crate without its check.
    match bcrypt::hash_with_salt(password, 10, salt) {
        Ok(parts) => Ok(parts.format_for_version(bcrypt::Version::TwoA)),
        Err(_) => Ok("failed to encrypt string with bcrypt".to_owned()),
    }
}

const SEED: &[u8] = b"com.lyndir.masterpassword";

/// Returns the shapes of a password of a type: each letter is a class of characters.
fn shapes(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

fn class(letter: u8) -> &'static [u8] {
    match letter {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'A' => b"AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// Runs the Master Password algorithm, as in sprig.
fn derive(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let kind = text(a, 1);
    let Some(shapes) = shapes(&kind) else {
        return out(exec, format!("cannot find password template {kind}"));
    };
    exec.charge(2 * SLOW_HASH_STEPS)?;
    let (password, user, site) = (bytes(a, 2), bytes(a, 3), bytes(a, 4));
    let length = |text: &[u8]| (text.len() as u32).to_be_bytes();
    let salt = [SEED, &length(user), user].concat();
    let mut key = [0; 64];
    let scrypted = scrypt::Params::new(15, 8, 2, 64)
        .map_err(|e| e.to_string())
        .and_then(|params| {
            scrypt::scrypt(password, &salt, &params, &mut key).map_err(|e| e.to_string())
        });
    scrypted.map_err(|reason| format!("failed to derive password: {reason}"))?;
    let counter = (int(a, 0) as u32).to_be_bytes();
    let message = [SEED, &length(site), site, &counter].concat();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|e| e.to_string())?;
    mac.update(&message);
    let seed = mac.finalize().into_bytes();
    let shape = shapes[usize::from(seed[0]) % shapes.len()];
    let chosen = shape.bytes().zip(&seed[1..]).map(|(letter, byte)| {
        let class = class(letter);
        class[usize::from(*byte) % class.len()]
    });
    Ok(Value::str(chosen.collect::<Vec<u8>>()))
}
