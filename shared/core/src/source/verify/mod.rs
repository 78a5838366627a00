//! Who signed an artifact: `spec.verify` of OCIRepository and HelmChart, as source-controller 1.9 checks it.
//!
//! [`Trust`] is what the object trusts, from its Secret. [`Trust::check`] looks for signatures beside the artifact in its registry
//! and checks them against the digest of its manifest. Whoever downloads the artifact takes the layers of that very manifest, so
//! a tag that moves between check and download changes nothing. The checks themselves ([`cosign`], [`key`]) are functions of
//! bytes; whatever a registry serves is taken for hostile.

mod cosign;
mod key;
#[cfg(test)]
mod testing;

use crate::failure::{Class, Failure};
use crate::flux::{Verification, reason};
use crate::ports::{Connection, PortError, Secret};
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
}

/// What an object trusts.
pub(super) struct Trust {
    /// The Secret that says so, for messages: `NAMESPACE/NAME`.
    place: String,
    keys: Vec<PublicKey>,
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
        let keys = cosign_keys(&found, &place)?;
        Ok(Self { place, keys })
    }

    /// Looks for a signature of somebody who is trusted.
    ///
    /// # Errors
    /// [`VERIFICATION_ERROR`](reason::VERIFICATION_ERROR): there is none, or the registry did not say.
    pub async fn check(
        &self,
        context: &Context<'_>,
        artifact: &Artifact<'_>,
    ) -> Result<(), Failure> {
        let charts = context.ports.charts.as_ref();
        match cosign::check(charts, artifact, &self.keys).await {
            Ok(()) => Ok(()),
            Err(cosign::Unverified::Port(error)) => Err(unread(&error)),
            Err(why) => Err(wrong(format!(
                "no matching signatures were found for '{}': {why} (keys: secret '{}')",
                artifact.name(),
                self.place
            ))),
        }
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
