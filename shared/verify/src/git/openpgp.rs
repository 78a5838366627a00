//! OpenPGP signatures, as gpg makes them for git.
//!
//! The rules are those of ProtonMail's openpgp 1.4, which Flux uses: the key must be allowed to
//! sign, and the key, its subkey and the signature must be neither revoked nor expired now.

use driftless_flux::Invalid;
use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, KeyId, Tag, VerifyingKey};
use std::io::Cursor;
use std::time::Duration;

/// The first line of a signature.
pub(super) const BEGIN: &str = "-----BEGIN PGP SIGNATURE-----";
/// The greatest number of keys of one entry.
const KEYS: usize = 1000;
/// The greatest number of signatures of one object.
const SIGNATURES: usize = 16;

/// Returns the id of the key that made the signature, one of those in these armored key rings. For
/// a subkey it is the id of its primary key.
///
/// # Errors
/// Flux's message if none of the keys made the signature, or that key is not valid now.
pub(super) fn verify(
    signature: &str,
    payload: &[u8],
    rings: &[String],
    now: Duration,
) -> Result<String, Invalid> {
    let signatures = signatures(signature).unwrap_or_default();
    let (mut unread, mut is_read, mut refused) = (None, false, None);
    for ring in rings {
        let keys = match parse(ring) {
            Ok(keys) => keys,
            Err(error) => {
                unread.get_or_insert(error);
                continue;
            }
        };
        is_read = true;
        for key in &keys {
            for signature in &signatures {
                match signer(key, signature, payload, now) {
                    Some(Ok(())) => return Ok(name(&key.legacy_key_id())),
                    Some(Err(reason)) => {
                        let key = name(&key.legacy_key_id());
                        refused = Some(format!("key '{key}' {reason}"));
                    }
                    None => {}
                }
            }
        }
    }
    if let (false, Some(error)) = (is_read, unread) {
        return Err(format!("unable to read armored key ring: {error}").into());
    }
    let refused = refused.map(|reason| format!(" ({reason})"));
    Err(format!(
        "unable to verify payload with any of the given key rings: no matching key{}",
        refused.unwrap_or_default()
    )
    .into())
}

/// Parses the keys of an entry.
fn parse(ring: &str) -> Result<Vec<SignedPublicKey>, &'static str> {
    let parsed = SignedPublicKey::from_armor_many(Cursor::new(ring.as_bytes()));
    let (keys, _) = parsed.map_err(|_| "expected a block -----BEGIN PGP PUBLIC KEY BLOCK-----")?;
    let keys: Result<Vec<_>, _> = keys.take(KEYS + 1).collect();
    let keys = keys.map_err(|_| "a key cannot be read")?;
    match keys.len() {
        0 => Err("the block has no keys"),
        count if count > KEYS => Err("the block has more than 1000 keys"),
        _ => Ok(keys),
    }
}

fn signatures(armored: &str) -> Option<Vec<Signature>> {
    let parsed = DetachedSignature::from_armor_many(Cursor::new(armored.trim().as_bytes()));
    let (found, _) = parsed.ok()?;
    let found = found.take(SIGNATURES).filter_map(Result::ok);
    Some(found.map(|one| one.signature).collect())
}

/// Returns the key's id as Flux prints it.
fn name(id: &KeyId) -> String {
    id.to_string().to_uppercase()
}

/// Checks a signature by one key or by its subkeys; `None` if they did not make it.
fn signer(
    key: &SignedPublicKey,
    signature: &Signature,
    payload: &[u8],
    now: Duration,
) -> Option<Result<(), &'static str>> {
    if is_issuer(signature, key) && signature.verify(&key.primary_key, payload).is_ok() {
        return Some(check(key, None, signature, now));
    }
    let made = |subkey: &&SignedPublicSubKey| {
        is_issuer(signature, *subkey) && signature.verify(&subkey.key, payload).is_ok()
    };
    let subkey = key.public_subkeys.iter().find(made)?;
    Some(check(key, Some(subkey), signature, now))
}

/// Returns whether a signature names this key as the one that made it.
fn is_issuer(signature: &Signature, key: &impl KeyDetails) -> bool {
    let (print, id) = (key.fingerprint(), key.legacy_key_id());
    signature.issuer_fingerprint().contains(&&print) || signature.issuer_key_id().contains(&&id)
}

/// Checks the key, its subkey and the signature; the signature itself was verified.
fn check(
    key: &SignedPublicKey,
    subkey: Option<&SignedPublicSubKey>,
    signature: &Signature,
    now: Duration,
) -> Result<(), &'static str> {
    let is_message = matches!(
        signature.typ(),
        Some(SignatureType::Binary | SignatureType::Text)
    );
    if !is_message {
        return Err("made a signature of another type than one of a document");
    }
    use HashAlgorithm as Hash;
    let hash = signature.hash_alg();
    if hash.is_none_or(|hash| matches!(hash, Hash::Md5 | Hash::Sha1 | Hash::Ripemd160)) {
        return Err("made a signature with a hash algorithm that is not safe");
    }
    let own = self_signature(key).ok_or("has no valid self-signature")?;
    let mut signatures = vec![signature, own];
    let revocations = &key.details.revocation_signatures;
    let mut is_revoked = revocations.iter().any(|revocation| {
        is_issuer(revocation, key) && revocation.verify_key(&key.primary_key).is_ok()
    });
    let mut is_expired = is_key_expired(&key.primary_key, own, now);
    let mut flags = own.key_flags();
    if let Some(subkey) = subkey {
        let binding = binding(key, subkey).ok_or("has no valid binding of its subkey")?;
        is_revoked |= subkey.signatures.iter().any(|one| {
            one.typ() == Some(SignatureType::SubkeyRevocation)
                && one
                    .verify_subkey_binding(&key.primary_key, &subkey.key)
                    .is_ok()
        });
        is_expired |= is_key_expired(&subkey.key, binding, now);
        flags = binding.key_flags();
        signatures.extend(
            [Some(binding), binding.embedded_signature()]
                .into_iter()
                .flatten(),
        );
    }
    match () {
        () if !flags.sign() => Err("may not sign"),
        () if is_revoked => Err("is revoked"),
        () if is_expired => Err("is expired"),
        () if signatures.iter().any(|one| is_signature_expired(one, now)) => {
            Err("has or made a signature that is expired, or of the future")
        }
        () if signatures.iter().any(|one| has_unknown(one)) => {
            Err("has or made a signature with a critical part that is not known")
        }
        () => Ok(()),
    }
}

/// Returns the newest valid self-signature: of the primary user id, else of any user id that is not
/// revoked, else of the key itself.
fn self_signature(key: &SignedPublicKey) -> Option<&Signature> {
    let primary = &key.primary_key;
    let mut best: Option<(bool, &Signature)> = None;
    for user in &key.details.users {
        let own = user.signatures.iter().filter(|one| is_issuer(one, key));
        let own = own.filter(|one| {
            one.verify_certification(primary, Tag::UserId, &user.id)
                .is_ok()
        });
        let newest = own.max_by_key(|one| one.created());
        let Some(newest) = newest.filter(|one| one.is_certification()) else {
            continue;
        };
        let rank = |(is_primary, one): (bool, &Signature)| (is_primary, one.created());
        let this = (newest.is_primary(), newest);
        if best.is_none_or(|best| rank(this) > rank(best)) {
            best = Some(this);
        }
    }
    let direct = key.details.direct_signatures.iter();
    let direct = direct.filter(|one| is_issuer(one, key) && one.verify_key(primary).is_ok());
    best.map(|(_, one)| one)
        .or_else(|| direct.max_by_key(|one| one.created()))
}

/// Returns the newest valid binding of a subkey. If it may sign, the subkey has also signed.
fn binding<'a>(key: &SignedPublicKey, subkey: &'a SignedPublicSubKey) -> Option<&'a Signature> {
    let (primary, subkey_itself) = (&key.primary_key, &subkey.key);
    let valid = subkey.signatures.iter().filter(|one| {
        let is_binding = one.typ() == Some(SignatureType::SubkeyBinding)
            && one.verify_subkey_binding(primary, subkey_itself).is_ok();
        let back = one.embedded_signature();
        let is_backed = back.is_some_and(|back| {
            back.verify_primary_key_binding(subkey_itself, primary)
                .is_ok()
        });
        is_binding && (is_backed || !one.key_flags().sign())
    });
    valid.max_by_key(|one| one.created())
}

fn is_key_expired(key: &impl VerifyingKey, own: &Signature, now: Duration) -> bool {
    let created = u64::from(key.created_at().as_secs());
    let life = own.key_expiration_time();
    let life = life.map_or(0, |life| u64::from(life.as_secs()));
    created > now.as_secs() || (life > 0 && created + life < now.as_secs())
}

fn is_signature_expired(signature: &Signature, now: Duration) -> bool {
    let Some(created) = signature.created() else {
        return true;
    };
    let created = u64::from(created.as_secs());
    let life = signature.signature_expiration_time();
    let life = life.map_or(0, |life| u64::from(life.as_secs()));
    created > now.as_secs() || (life > 0 && created + life < now.as_secs())
}

/// Returns whether a signature has a critical part that is not understood here.
fn has_unknown(signature: &Signature) -> bool {
    let Some(config) = signature.config() else {
        return true;
    };
    config.hashed_subpackets.iter().any(|part| {
        let is_unknown = matches!(
            part.data,
            SubpacketData::Notation(_) | SubpacketData::Other(..) | SubpacketData::Experimental(..)
        );
        part.is_critical && is_unknown
    })
}
