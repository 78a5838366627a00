//! Verification of signatures: `spec.verify` of OCIRepository and HelmChart, as source-controller
//! 1.9 checks it. That of GitRepository is in `git`.
//!
//! `Trust` holds what the object trusts, from its Secrets and the hub's settings. `Trust::check`
//! finds the signatures of an artifact in its registry and checks them against the digest of its
//! manifest. A download takes the layers of that very manifest, so a tag that moves between check
//! and download changes nothing. The checks themselves (`cosign`, `notation`, `key`) are functions
//! of bytes; everything that a registry serves is treated as hostile.

mod cosign;
pub mod git;
pub mod key;
mod notation;
#[cfg(test)]
mod testing;

use cosign::Signers;
use cosign::keyless::{Identities, Keyless, Root};
use driftless_flux::{Invalid, Verification, reason};
use driftless_kernel::context::Context;
use driftless_kernel::credentials::{entry, keys, secret};
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::ports::{Connection, ErrorKind, PortError, Secret};
use driftless_manifest::Object;
use key::PublicKey;

/// The entry of a Secret that holds a trusted root.
const TRUSTED_ROOT: &str = "trusted_root.json";

/// Checks that a Secret with this trust policy and these certificates, each with its name, is valid
/// for notation.
///
/// # Errors
/// A message about what is wrong, to follow the name of the Secret.
pub fn check_notation(policy: &[u8], certificates: &[(String, Vec<u8>)]) -> Result<(), Invalid> {
    notation::Trust::read(policy, certificates).map(|_| ())
}

/// An artifact of a registry, by the digest of its manifest.
pub struct Artifact<'a> {
    /// `HOST/PATH`.
    pub repository: &'a str,
    /// `sha256:…`
    pub digest: &'a str,
    /// The login, certificates and limits for the registry.
    pub connection: &'a Connection,
}

impl Artifact<'_> {
    fn name(&self) -> String {
        format!("{}@{}", self.repository, self.digest)
    }

    /// Returns the repository as a trust policy names it. Docker Hub has another name there.
    fn scope(&self) -> String {
        match self.repository.strip_prefix("docker.io/") {
            Some(path) => format!("index.docker.io/{path}"),
            None => self.repository.to_owned(),
        }
    }
}

/// The result of a check without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A trusted signer signed the artifact.
    Verified,
    /// The trust policy accepts the artifact without a trusted signature.
    Ignored,
}

/// The signers or the trust policy that an object trusts.
pub struct Trust {
    /// The Secret or setting that this is from, for messages.
    place: String,
    trusted: Trusted,
}

enum Trusted {
    Signers(Signers),
    Policy(notation::Trust),
}

impl Trust {
    /// Reads the Secrets that `verify` names in the namespace of its object.
    ///
    /// # Errors
    /// [`VERIFICATION_ERROR`](reason::VERIFICATION_ERROR): a Secret or an entry of it is missing or
    /// not valid.
    pub async fn read(
        context: &Context<'_>,
        namespace: &str,
        verify: &Verification,
    ) -> Result<Self, Failure> {
        let found = Self::of(context, namespace, verify).await;
        found.map_err(|failure| failed(verify, failure))
    }

    async fn of(
        context: &Context<'_>,
        namespace: &str,
        verify: &Verification,
    ) -> Result<Self, Failure> {
        let Some(named) = &verify.secret_ref else {
            return Self::keyless(context, namespace, verify).await;
        };
        let (place, found) = named_secret(context, namespace, &named.name).await?;
        let (trusted, place) = match verify.provider() {
            "notation" => (
                Trusted::Policy(notation_policy(&found, &place)?),
                format!("trust policy: secret '{place}'"),
            ),
            _ => (
                Trusted::Signers(Signers::Keys(cosign_keys(&found, &place)?)),
                format!("keys: secret '{place}'"),
            ),
        };
        Ok(Self { place, trusted })
    }

    /// Returns the accepted identities of signatures without keys, and the trusted root: the
    /// object's, the hub's or the public one.
    async fn keyless(
        context: &Context<'_>,
        namespace: &str,
        verify: &Verification,
    ) -> Result<Self, Failure> {
        let identities = Identities::compile(&verify.match_oidc_identity).map_err(wrong)?;
        let (root, place) = match &verify.trusted_root_secret_ref {
            Some(named) => {
                let place = format!("secret '{namespace}/{}'", named.name);
                (trusted_root(context, namespace, &named.name).await?, place)
            }
            None => hub_root(context)?,
        };
        let keyless = Keyless::new(root, identities);
        Ok(Self {
            place: format!("trusted root: {place}"),
            trusted: Trusted::Signers(Signers::Keyless(Box::new(keyless))),
        })
    }

    /// Checks that the artifact has a signature by a trusted signer.
    ///
    /// # Errors
    /// [`VERIFICATION_ERROR`](reason::VERIFICATION_ERROR): there is no such signature, or the
    /// registry did not answer.
    pub async fn check(
        &self,
        context: &Context<'_>,
        artifact: &Artifact<'_>,
    ) -> Result<Verdict, Failure> {
        let charts = context.ports.charts.as_ref();
        let reason = match &self.trusted {
            Trusted::Signers(signers) => match cosign::check(charts, artifact, signers).await {
                Ok(()) => return Ok(Verdict::Verified),
                Err(cosign::Unverified::Port(error)) => return Err(unread(&error)),
                Err(reason) => reason.to_string(),
            },
            Trusted::Policy(trust) => {
                let now = context.ports.clock.now();
                match trust.check(charts, artifact, now).await {
                    Ok(verdict) => return Ok(verdict),
                    Err(notation::Unverified::Port(error)) => return Err(unread(&error)),
                    Err(reason) => reason.to_string(),
                }
            }
        };
        let (name, place) = (artifact.name(), &self.place);
        Err(wrong(format!(
            "no matching signatures were found for '{name}': {reason} ({place})"
        )))
    }
}

/// Adds the reason and the prefix of source-controller to a failure of a check.
pub fn failed(verify: &Verification, failure: Failure) -> Failure {
    let provider = match (verify.provider(), &verify.secret_ref) {
        ("cosign", None) => "cosign keyless",
        (provider, _) => provider,
    };
    let failure = Failure {
        reason: reason::VERIFICATION_ERROR,
        ..failure
    };
    failure.context(format_args!(
        "failed to verify the signature using provider '{provider}'"
    ))
}

/// Returns a Secret that `verify` names, and its name for messages: `NAMESPACE/NAME`.
async fn named_secret(
    context: &Context<'_>,
    namespace: &str,
    name: &str,
) -> Result<(String, Object), Failure> {
    let found = secret(&context.hub, namespace, name).await?;
    let found = found.ok_or_else(|| wrong(format!("secrets \"{name}\" not found")))?;
    Ok((format!("{namespace}/{name}"), found))
}

/// Reads the trusted root of a Secret.
async fn trusted_root(context: &Context<'_>, namespace: &str, name: &str) -> Result<Root, Failure> {
    let place = format!("secret '{namespace}/{name}'");
    let unread = |failure: Failure| {
        failure.context(format_args!("failed to read trusted root from {place}"))
    };
    let (_, found) = named_secret(context, namespace, name)
        .await
        .map_err(unread)?;
    let text = entry(&found, TRUSTED_ROOT)
        .ok_or_else(|| unread(wrong(format!("'{TRUSTED_ROOT}' not found in {place}"))))?;
    Root::read(text.expose()).map_err(|error| {
        wrong(format!(
            "unable to parse trusted root: '{TRUSTED_ROOT}' of {place} {error}"
        ))
    })
}

/// Returns the trusted root of objects that name none, and its origin for messages.
fn hub_root(context: &Context<'_>) -> Result<(Root, String), Failure> {
    let (root, place) = match &context.hub.settings.sigstore_root {
        Some(text) => (
            Root::read(text.as_bytes()),
            "the hub's --sigstore-root".to_owned(),
        ),
        None => (
            Root::public(),
            format!(
                "that of the public Sigstore of {}: set a newer one with --sigstore-root",
                Root::PUBLIC_DATE
            ),
        ),
    };
    match root {
        Ok(root) => Ok((root, place)),
        Err(error) => Err(wrong(format!("the trusted root, {place}, {error}"))),
    }
}

/// Checks that a `trusted_root.json` can be used.
///
/// # Errors
/// The rest of a sentence about the file, such as "is not JSON".
pub fn check_trusted_root(text: &[u8]) -> Result<(), Invalid> {
    Root::read(text).map(|_| ())
}

/// Reads the trust policy of a Secret and its certificates: the entries `*.crt` and `*.pem`.
fn notation_policy(secret: &Object, place: &str) -> Result<notation::Trust, Failure> {
    let policy = entry(secret, "trustpolicy.json")
        .ok_or_else(|| wrong(format!("'trustpolicy.json' not found in secret '{place}'")))?;
    let names = keys(secret).into_iter();
    let names = names.filter(|name| name.ends_with(".crt") || name.ends_with(".pem"));
    let certificates: Vec<_> = names
        .filter_map(|name| Some((entry(secret, &name)?.expose().to_vec(), name)))
        .map(|(text, name)| (name, text))
        .collect();
    if certificates.is_empty() {
        return Err(wrong(format!(
            "no certificates found in secret '{place}': expected entries whose names end in .crt or .pem"
        )));
    }
    let trust = notation::Trust::read(policy.expose(), &certificates);
    trust.map_err(|error| wrong(format!("secret '{place}': {error}")))
}

/// Reads the public keys of a Secret: the entries `*.pub`.
fn cosign_keys(secret: &Object, place: &str) -> Result<Vec<PublicKey>, Failure> {
    let names = keys(secret);
    let names = names.iter().filter(|name| name.ends_with(".pub"));
    let read = |name: &String| {
        let text = entry(secret, name);
        let key = PublicKey::from_pem(text.as_ref().map_or(&[], Secret::expose));
        key.map_err(|error| wrong(format!("'{name}' of secret '{place}' {error}")))
    };
    let keys = names.map(read).collect::<Result<Vec<_>, _>>()?;
    match keys.is_empty() {
        false => Ok(keys),
        true => Err(wrong(format!(
            "no public keys found in secret '{place}': expected entries whose names end in .pub"
        ))),
    }
}

/// Returns whether an error of a registry is about the requested content, and not about the state
/// of the registry.
fn is_lasting(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Unreadable | ErrorKind::Unsupported
    )
}

fn wrong(message: impl std::fmt::Display) -> Failure {
    Failure::retry(reason::VERIFICATION_ERROR, message)
}

/// Returns the failure for an unreadable signature. It is retried, because each cause can be
/// repaired outside the object.
fn unread(error: &PortError) -> Failure {
    Failure {
        class: Class::Retry(error.retry_after),
        ..wrong(format!("failed to look for signatures: {error}"))
    }
}
