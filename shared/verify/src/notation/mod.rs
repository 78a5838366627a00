//! Signatures of notation: the signer has a certificate of an authority in the object's Secret,
//! which also holds a trust policy.
//!
//! They are verified as notation-go 1.3 does it for source-controller, except for checks that need
//! a network or another program: the revocation of certificates with a CRL or OCSP address,
//! countersignatures of time stamping services and plugins count as unknown, and a policy that
//! enforces them refuses the signature.

mod certificate;
mod cose;
mod envelope;
mod jws;
mod name;
mod parts;
mod policy;
#[cfg(test)]
mod tests;

use super::{Artifact, Verdict};
use driftless_flux::Invalid;
use driftless_kernel::ports::{Charts, PortError};
use envelope::{Envelope, SigningScheme};
use name::DistinguishedName;
use policy::{Action, Level, Policy, Statement, Store};
use std::time::Duration;
use x509_cert::Certificate;

/// Maximum number of signatures that are checked, as in source-controller.
const MAX_SIGNATURES: usize = 3;
/// Maximum bytes of a signature.
const MAX_ENVELOPE_BYTES: u64 = 1 << 20;
/// The artifact type of a manifest of a signature.
const SIGNATURE: &str = "application/vnd.cncf.notary.signature";

/// The trust policy and the certificates of the trusted authorities.
#[derive(Debug)]
pub(super) struct Trust {
    policy: Policy,
    certificates: Vec<Certificate>,
}

/// The reason why no signature was accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unverified {
    #[error("{0}")]
    Port(PortError),
    #[error("the trust policy has no statement whose registryScopes have '{0}' or '*'")]
    NoStatement(String),
    #[error("the artifact has no notation signature: sign it with 'notation sign'")]
    Absent,
    #[error(
        "none of the first {MAX_SIGNATURES} signatures is trusted ({0}), and more are not checked"
    )]
    TooMany(Invalid),
    #[error("none of the signatures is trusted ({0})")]
    Others(Invalid),
}

impl Trust {
    /// Reads `trustpolicy.json` and certificates (PEM or DER), each with its name.
    ///
    /// # Errors
    /// A message about what is wrong, to follow the name of the Secret.
    pub fn read(policy: &[u8], certificates: &[(String, Vec<u8>)]) -> Result<Self, Invalid> {
        let policy = Policy::read(policy)
            .map_err(|error| Invalid::from(format!("trustpolicy.json: {error}")))?;
        let read = |(name, text): &(String, Vec<u8>)| {
            certificate::trusted(text).map_err(|error| Invalid::from(format!("'{name}' {error}")))
        };
        let certificates = certificates.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self {
            policy,
            certificates,
        })
    }

    /// Checks that the artifact has a signature that the policy accepts at the time `now` (since
    /// 1970).
    ///
    /// # Errors
    /// The reason why no signature is accepted.
    pub async fn check(
        &self,
        charts: &dyn Charts,
        artifact: &Artifact<'_>,
        now: Duration,
    ) -> Result<Verdict, Unverified> {
        let scope = artifact.scope();
        let statement = self.policy.applicable(&scope);
        let statement = statement.ok_or(Unverified::NoStatement(scope))?;
        let Some(level) = &statement.level else {
            return Ok(Verdict::Ignored);
        };
        let (repository, connection) = (artifact.repository, artifact.connection);
        let referrers = charts
            .referrers(repository, artifact.digest, connection)
            .await?;
        let signatures = referrers
            .iter()
            .filter(|one| one.artifact_type == SIGNATURE);
        let mut refused = None;
        for referrer in signatures.clone().take(MAX_SIGNATURES) {
            let checked = match fetch(charts, artifact, &referrer.digest).await? {
                Ok(envelope) => {
                    self.apply_statement(statement, level, &envelope, artifact.digest, now)
                }
                Err(reason) => Err(reason),
            };
            match checked {
                Ok(verdict) => return Ok(verdict),
                Err(reason) => refused = Some(reason),
            }
        }
        Err(match refused {
            None => Unverified::Absent,
            Some(reason) if signatures.count() >= MAX_SIGNATURES => Unverified::TooMany(reason),
            Some(reason) => Unverified::Others(reason),
        })
    }

    /// Applies the statement to a signature whose integrity is verified.
    fn apply_statement(
        &self,
        statement: &Statement,
        level: &Level,
        envelope: &Envelope,
        digest: &str,
        now: Duration,
    ) -> Result<Verdict, Invalid> {
        if envelope.digest != digest {
            return Err("the signature is for another artifact".into());
        }
        let authentic = self.check_authenticity(statement, envelope);
        let verdict = match &authentic {
            Ok(()) => Verdict::Verified,
            Err(_) => Verdict::Ignored,
        };
        passes(level.authenticity, authentic)?;
        passes(level.expiry, check_expiry(envelope, now))?;
        passes(level.timestamp, check_time(statement, envelope, now))?;
        passes(level.revocation, check_revocation(envelope))?;
        Ok(verdict)
    }

    fn check_authenticity(
        &self,
        statement: &Statement,
        envelope: &Envelope,
    ) -> Result<(), Invalid> {
        let store = match envelope.scheme {
            SigningScheme::X509 => Store::Authority,
            SigningScheme::SigningAuthority => Store::SigningAuthority,
        };
        if !statement.stores.contains(&store) || !envelope.chain.is_trusted(&self.certificates) {
            return Err("the signer's certificate was not issued by a trusted authority".into());
        }
        let Some(identities) = &statement.identities else {
            return Ok(());
        };
        let subject = &envelope.chain.signer().tbs_certificate.subject;
        let subject = DistinguishedName::of_subject(subject)?;
        match identities.iter().any(|one| one.is_part_of(&subject)) {
            true => Ok(()),
            false => Err("the signer is not one of the trustedIdentities".into()),
        }
    }
}

fn passes(action: Action, check: Result<(), Invalid>) -> Result<(), Invalid> {
    match action {
        Action::Enforce => check,
        Action::Log | Action::Skip => Ok(()),
    }
}

fn check_expiry(envelope: &Envelope, now: Duration) -> Result<(), Invalid> {
    match envelope.expiry {
        Some(expiry) if now >= expiry => Err("the signature has expired".into()),
        _ => Ok(()),
    }
}

fn check_time(statement: &Statement, envelope: &Envelope, now: Duration) -> Result<(), Invalid> {
    let when = match envelope.scheme {
        SigningScheme::X509 => now,
        SigningScheme::SigningAuthority => envelope.signed,
    };
    let invalid = envelope.chain.invalid_at(when);
    let is_countersigned = envelope.scheme == SigningScheme::X509
        && statement.stores.contains(&Store::Timestamps)
        && (!statement.only_after_expiry || invalid.is_some());
    match invalid {
        _ if is_countersigned => Err("the policy requires the countersignature of a time stamping service, which is not supported: remove the tsa store, or \
             set verifyTimestamp to afterCertExpiry and sign with a certificate that is valid".into()),
        Some(message) => Err(message.into()),
        None => Ok(()),
    }
}

fn check_revocation(envelope: &Envelope) -> Result<(), Invalid> {
    match envelope.chain.is_revocable() {
        true => Err("the revocation of the signer's certificate is not checked: override revocation with skip or log in the trust policy".into()),
        false => Ok(()),
    }
}

/// Returns the signature of a manifest; the inner error is the reason why it is not a valid
/// signature.
async fn fetch(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    digest: &str,
) -> Result<Result<Envelope, Invalid>, Unverified> {
    let (repository, connection) = (artifact.repository, artifact.connection);
    let manifest = match charts.manifest(repository, digest, connection).await {
        Ok(manifest) => manifest,
        Err(error) => return skip_lasting(error),
    };
    let [layer] = manifest.layers.as_slice() else {
        return Ok(Err(
            "the manifest of the signature does not have exactly one layer".into(),
        ));
    };
    if !envelope::is_known(&layer.media_type) {
        return Ok(Err(format!(
            "the media type '{}' of the signature is not supported",
            layer.media_type
        )
        .into()));
    }
    match charts
        .layer(repository, layer, connection, MAX_ENVELOPE_BYTES)
        .await
    {
        Ok(bytes) => Ok(Envelope::read(&layer.media_type, &bytes)),
        Err(error) => skip_lasting(error),
    }
}

fn skip_lasting(error: PortError) -> Result<Result<Envelope, Invalid>, Unverified> {
    match super::is_lasting(error.kind) {
        true => Ok(Err(error.message.into())),
        false => Err(error.into()),
    }
}

impl From<PortError> for Unverified {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}
