//! Who signed an artifact: `spec.verify` of OCIRepository and HelmChart, as source-controller 1.9 checks it.
//!
//! [`Trust`] is what the object trusts, from its Secret. [`Trust::check`] looks for signatures beside the artifact in its registry
//! and checks them against the digest of its manifest. Whoever downloads the artifact takes the layers of that very manifest, so
//! a tag that moves between check and download changes nothing. The checks themselves ([`cosign`], [`notation`], [`key`]) are functions of
//! bytes; whatever a registry serves is taken for hostile.

mod cosign;
mod key;
mod notation;
#[cfg(test)]
mod testing;

use crate::failure::{Class, Failure};
use crate::flux::{Verification, reason};
use crate::ports::{Connection, ErrorKind, PortError, Secret};
use crate::source::credentials::{entry, keys, secret};
use crate::step::Context;
use driftless_manifest::Object;
use key::PublicKey;

/// An artifact of a registry, by the digest of its manifest.
pub(super) struct Artifact<'a> {
    /// `HOST/PATH`.
    pub repository: &'a str,
    /// `sha256:…`
    pub digest: &'a str,
    /// How to talk to the registry.
    pub how: &'a Connection,
}

impl Artifact<'_> {
    fn name(&self) -> String {
        format!("{}@{}", self.repository, self.digest)
    }

    /// The repository as a trust policy names it. Docker Hub has a name of its own there.
    fn scope(&self) -> String {
        match self.repository.strip_prefix("docker.io/") {
            Some(path) => format!("index.docker.io/{path}"),
            None => self.repository.to_owned(),
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Somebody who is trusted signed the artifact.
    Verified,
    /// The trust policy lets it pass without that.
    Ignored,
}

/// What an object trusts.
pub(super) struct Trust {
    /// The Secret that says so, for messages: `NAMESPACE/NAME`.
    place: String,
    what: Trusted,
}

enum Trusted {
    Keys(Vec<PublicKey>),
    Policy(notation::Trust),
}

impl Trust {
    /// Reads what `verify` names in the namespace of its object.
    ///
    /// # Errors
    /// [`VERIFICATION_ERROR`](reason::VERIFICATION_ERROR): the Secret is missing, or has not what it should have.
    pub async fn read(
        context: &Context<'_>,
        namespace: &str,
        verify: &Verification,
    ) -> Result<Self, Failure> {
        let found = Self::of_secret(context, namespace, verify).await;
        found.map_err(|failure| failed(verify, failure))
    }

    async fn of_secret(
        context: &Context<'_>,
        namespace: &str,
        verify: &Verification,
    ) -> Result<Self, Failure> {
        let name = verify.secret_ref.as_ref().map_or("", |named| &*named.name);
        let found = secret(&context.hub, namespace, name).await?;
        let found = found.ok_or_else(|| wrong(format!("secrets \"{name}\" not found")))?;
        let place = format!("{namespace}/{name}");
        let what = match verify.provider() {
            "notation" => Trusted::Policy(notation_policy(&found, &place)?),
            _ => Trusted::Keys(cosign_keys(&found, &place)?),
        };
        Ok(Self { place, what })
    }

    /// Looks for a signature of somebody who is trusted.
    ///
    /// # Errors
    /// [`VERIFICATION_ERROR`](reason::VERIFICATION_ERROR): there is none, or the registry did not say.
    pub async fn check(
        &self,
        context: &Context<'_>,
        artifact: &Artifact<'_>,
    ) -> Result<Verdict, Failure> {
        let charts = context.ports.charts.as_ref();
        let why = match &self.what {
            Trusted::Keys(keys) => match cosign::check(charts, artifact, keys).await {
                Ok(()) => return Ok(Verdict::Verified),
                Err(cosign::Unverified::Port(error)) => return Err(unread(&error)),
                Err(why) => format!("{why} (keys: secret '{}')", self.place),
            },
            Trusted::Policy(trust) => {
                let now = context.ports.clock.now();
                match trust.check(charts, artifact, now).await {
                    Ok(verdict) => return Ok(verdict),
                    Err(notation::Unverified::Port(error)) => return Err(unread(&error)),
                    Err(why) => format!("{why} (trust policy: secret '{}')", self.place),
                }
            }
        };
        let name = artifact.name();
        Err(wrong(format!(
            "no matching signatures were found for '{name}': {why}"
        )))
    }
}

/// A failure of a check, as source-controller leads it.
pub(super) fn failed(verify: &Verification, failure: Failure) -> Failure {
    let provider = verify.provider();
    let failure = Failure {
        reason: reason::VERIFICATION_ERROR,
        ..failure
    };
    failure.context(format_args!(
        "failed to verify the signature using provider '{provider}'"
    ))
}

/// The trust policy of a Secret, and the certificates that it means: its entries `*.crt` and `*.pem`.
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
    trust.map_err(|what| wrong(format!("secret '{place}': {what}")))
}

/// The public keys of a Secret: its entries `*.pub`.
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

/// Whether a refusal of a registry says something of what was asked for, and not of the registry's hour.
fn is_lasting(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Unreadable | ErrorKind::Unsupported
    )
}

fn wrong(what: String) -> Failure {
    Failure::retry(reason::VERIFICATION_ERROR, what)
}

/// Whatever keeps a signature from being read, somebody may put right.
fn unread(error: &PortError) -> Failure {
    Failure {
        class: Class::Retry(error.retry_after),
        ..wrong(format!("failed to look for signatures: {error}"))
    }
}
