//! `spec.verify` of GitRepository, as source-controller 1.9 and 1.10 check it: the signatures of a
//! commit and of the tag that points to it.
//!
//! The bytes of commit and tag come from a port. Their ids are computed here, so that a signature
//! counts only for the commit whose files become the artifact.

mod object;
mod openpgp;
mod ssh;

use driftless_flux::{GitRepository, GitVerification, Invalid, reason};
use driftless_kernel::context::Context;
use driftless_kernel::credentials::{entry, keys, secret};
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Commit, PartsDigest, SignedObjects};
use driftless_manifest::Object;
use object::Signed;
use std::time::Duration;

/// The end of the name of an entry with SSH keys. All other entries are OpenPGP key rings.
const SSH_SUFFIX: &str = ".sshpub";
const PGP_SUFFIX: &str = ".asc";

/// The public keys of the Secret that `spec.verify` names.
pub struct GitKeys {
    rings: Vec<String>,
    authorized: Vec<String>,
}

impl GitKeys {
    /// Reads the Secret.
    ///
    /// # Errors
    /// [`VERIFICATION_ERROR`](reason::VERIFICATION_ERROR): it does not exist.
    pub async fn read(
        context: &Context<'_>,
        namespace: &str,
        verify: &GitVerification,
    ) -> Result<Self, Failure> {
        let name = &verify.secret_ref.name;
        let found = secret(&context.hub, namespace, name).await;
        let found = found.map_err(|failure| {
            failure.during(reason::VERIFICATION_ERROR, "public keys secret error")
        })?;
        let found = found.ok_or_else(|| {
            let message = format!("public keys secret error: secrets \"{name}\" not found");
            Failure::retry(reason::VERIFICATION_ERROR, message)
        })?;
        Ok(Self::of(&found))
    }

    fn of(secret: &Object) -> Self {
        let (mut rings, mut authorized) = (Vec::new(), Vec::new());
        for key in keys(secret) {
            // Bytes that are not UTF-8 count as an entry that cannot be read.
            let bytes = entry(secret, &key);
            let text = bytes.and_then(|bytes| bytes.expose_str().map(str::to_owned));
            let text = text.unwrap_or_default();
            match key.ends_with(SSH_SUFFIX) {
                true => authorized.push(text),
                false => rings.push(text),
            }
        }
        Self { rings, authorized }
    }

    /// Returns a digest of what decides about a verification: the keys, the mode and the objects.
    pub fn digest(&self, verify: &GitVerification, commit: &Commit) -> String {
        let mut digest = PartsDigest::default();
        let mut part = |text: &str| digest.part(text.as_bytes());
        part(verify.mode());
        part(&commit.revision());
        part(commit.tag.as_deref().unwrap_or_default());
        for (kind, keys) in [("pgp", &self.rings), ("ssh", &self.authorized)] {
            for key in keys {
                part(kind);
                part(key);
            }
        }
        digest.hex()
    }

    /// Checks the signature of a commit or tag, and returns the name of the key that made it.
    fn check(&self, signed: &Signed, kind: &str, now: Duration) -> Result<String, Invalid> {
        let signature = String::from_utf8_lossy(&signed.signature);
        let (payload, text) = (&signed.payload, signature.trim());
        let missing = |kind: &str, suffix: &str| {
            format!(
                "{kind} signature detected but no {kind} public keys found in secret (keys with {suffix} suffix)"
            )
        };
        if text.starts_with(openpgp::BEGIN) {
            if self.rings.is_empty() {
                return Err(missing("PGP", PGP_SUFFIX).into());
            }
            let checked = openpgp::verify(text, payload, &self.rings, now);
            return checked
                .map_err(|error| Invalid::from(format!("unable to verify Git {kind}: {error}")));
        }
        if text.starts_with(ssh::BEGIN) {
            if self.authorized.is_empty() {
                return Err(missing("SSH", SSH_SUFFIX).into());
            }
            let checked = ssh::verify(text, payload, &self.authorized);
            return checked.map_err(|error| {
                Invalid::from(format!(
                    "unable to verify Git {kind} SSH signature: {error}"
                ))
            });
        }
        let found = match text {
            "" => "empty",
            text if text.starts_with(object::X509) => "x509",
            _ => "unknown",
        };
        Err(format!("unsupported signature type: {found}").into())
    }
}

/// Checks that the source names a tag if the tag must be signed.
///
/// # Errors
/// [`INVALID_VERIFICATION_MODE`](reason::INVALID_VERIFICATION_MODE): it is not.
pub fn check_mode(source: &GitRepository, verify: &GitVerification) -> Result<(), Failure> {
    match verify.verifies_tag() && !source.reference().is_tag() {
        false => Ok(()),
        true => Err(Failure::terminal(
            reason::INVALID_VERIFICATION_MODE,
            "cannot verify tag object's signature if a tag reference is not specified",
        )),
    }
}

/// Checks the signatures that a source requires, and returns Flux's message about the keys that
/// made them.
///
/// # Errors
/// A signature is missing, or was made by another key.
pub fn check(
    keys: &GitKeys,
    verify: &GitVerification,
    commit: &Commit,
    objects: &SignedObjects,
    now: Duration,
) -> Result<String, Failure> {
    let mut verified = "verified signature of".to_owned();
    if verify.verifies_tag() {
        let name = commit.tag_name();
        let Some(id) = commit.tag.as_deref() else {
            return Err(not_signed(name));
        };
        let shown = |tag: &[u8]| format!("{}@{id}", object::header(tag, "tag").unwrap_or(name));
        let tag = chain(objects, id, &commit.sha).map_err(|error| {
            let message = format!("signature verification of tag '{name}@{id}' failed: {error}");
            Failure::retry(reason::INVALID_TAG_SIGNATURE, message)
        })?;
        let signed = object::tag(tag);
        if signed.signature.is_empty() {
            return Err(not_signed(&shown(tag)));
        }
        let checked = keys.check(&signed, "tag", now).and_then(|key| {
            // Someone who can push, but not sign, must not publish an old tag by another name.
            match object::header(tag, "tag") == Some(name) {
                true => Ok(key),
                false => Err(format!("the tag was signed for another name than '{name}'").into()),
            }
        });
        let key = checked.map_err(|error| {
            let message = format!(
                "signature verification of tag '{}' failed: {error}",
                shown(tag)
            );
            Failure::retry(reason::INVALID_TAG_SIGNATURE, message)
        })?;
        verified += &format!("\n\t- tag '{}' with key '{key}'", shown(tag));
    }
    if verify.verifies_head() {
        let sha = &commit.sha;
        let checked = match object::id("commit", &objects.commit) == *sha {
            false => Err("the host returned another commit".into()),
            true => object::commit(&objects.commit)
                .map_err(Invalid::from)
                .and_then(|signed| keys.check(&signed, "commit", now)),
        };
        let key = checked.map_err(|error| {
            let message = format!("signature verification of commit '{sha}' failed: {error}");
            Failure::retry(reason::INVALID_COMMIT_SIGNATURE, message)
        })?;
        verified += &format!("\n\t- commit '{sha}' with key '{key}'");
    }
    Ok(verified)
}

fn not_signed(tag: &str) -> Failure {
    let message = format!("cannot verify signature of tag '{tag}' since it is not signed");
    Failure::retry(reason::INVALID_GIT_OBJECT, message)
}

/// Returns the tag with this id, after checking that it leads to the commit, also over other tags.
fn chain<'a>(objects: &'a SignedObjects, id: &str, commit: &str) -> Result<&'a [u8], Invalid> {
    let mut at = id.to_owned();
    for tag in &objects.tags {
        if object::id("tag", tag) != at {
            return Err("the host returned another tag".into());
        }
        at = object::header(tag, "object").unwrap_or_default().to_owned();
    }
    match objects.tags.first() {
        Some(first) if at == commit => Ok(first),
        _ => Err(format!("the tag does not lead to commit {commit}").into()),
    }
}

#[cfg(test)]
mod tests;
