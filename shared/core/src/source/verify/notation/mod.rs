//! Signatures of notation: a signer with a certificate of an authority that the object's Secret names, under its trust policy.
//!
//! As notation-go 1.3 verifies them for source-controller, but for what needs a network or a program of its own: revocation of
//! certificates that name a place for it, countersignatures of time stamping services and plugins are taken for unknown, which a policy
//! that enforces them does not let pass.

mod certificate;
mod cose;
mod envelope;
mod jws;
mod name;
mod policy;
#[cfg(test)]
mod tests;

use super::{Artifact, Verdict};
use crate::ports::{Charts, PortError};
use envelope::{Envelope, SigningScheme};
use name::DistinguishedName;
use policy::{Action, Level, Policy, Statement, Store};
use std::time::Duration;
use x509_cert::Certificate;

/// Signatures that are looked at, as in source-controller.
const MANY: usize = 3;
/// Bytes of a signature.
const ENVELOPE: u64 = 1 << 20;
/// What a manifest of a signature says to be.
const SIGNATURE: &str = "application/vnd.cncf.notary.signature";

/// Who is trusted, and how far.
#[derive(Debug)]
pub(super) struct Trust {
    policy: Policy,
    certificates: Vec<Certificate>,
}

/// Why no signature was accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unverified {
    #[error("{0}")]
    Port(PortError),
    #[error("the trust policy has no statement whose registryScopes have '{0}' or '*'")]
    NoStatement(String),
    #[error("it has no notation signature; sign it with 'notation sign'")]
    Absent,
    #[error("none of its first {MANY} signatures is trusted ({0}), and more are not looked at")]
    TooMany(String),
    #[error("none of its signatures is trusted ({0})")]
    Others(String),
}

impl Trust {
    /// From `trustpolicy.json` and the texts of certificates, each with its name.
    ///
    /// # Errors
    /// What is wrong, for a message that names the Secret.
    pub fn read(policy: &[u8], certificates: &[(String, Vec<u8>)]) -> Result<Self, String> {
        let policy = Policy::read(policy).map_err(|what| format!("trustpolicy.json: {what}"))?;
        let read = |(name, text): &(String, Vec<u8>)| {
            certificate::trusted(text).map_err(|what| format!("'{name}' {what}"))
        };
        let certificates = certificates.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self {
            policy,
            certificates,
        })
    }

    /// Looks for one signature that the policy lets pass at the time `now` (since 1970).
    ///
    /// # Errors
    /// Why there is none.
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
        let (repository, how) = (artifact.repository, artifact.how);
        let referrers = charts.referrers(repository, artifact.digest, how).await?;
        let signatures = referrers
            .iter()
            .filter(|one| one.artifact_type == SIGNATURE);
        let mut refused = None;
        for referrer in signatures.clone().take(MANY) {
            let told = match fetch(charts, artifact, &referrer.digest).await? {
                Ok(envelope) => self.judge(statement, level, &envelope, artifact.digest, now),
                Err(what) => Err(what),
            };
            match told {
                Ok(verdict) => return Ok(verdict),
                Err(what) => refused = Some(what),
            }
        }
        Err(match refused {
            None => Unverified::Absent,
            Some(what) if signatures.count() >= MANY => Unverified::TooMany(what),
            Some(what) => Unverified::Others(what),
        })
    }

    /// What the statement makes of a signature whose integrity is known.
    fn judge(
        &self,
        statement: &Statement,
        level: &Level,
        envelope: &Envelope,
        digest: &str,
        now: Duration,
    ) -> Result<Verdict, String> {
        if envelope.digest != digest {
            return Err("it is of another artifact".to_owned());
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

    fn check_authenticity(&self, statement: &Statement, envelope: &Envelope) -> Result<(), String> {
        let store = match envelope.scheme {
            SigningScheme::X509 => Store::Authority,
            SigningScheme::SigningAuthority => Store::SigningAuthority,
        };
        if !statement.stores.contains(&store) || !envelope.chain.is_trusted(&self.certificates) {
            return Err("its certificate was not issued by a trusted authority".to_owned());
        }
        let Some(identities) = &statement.identities else {
            return Ok(());
        };
        let subject = &envelope.chain.signer().tbs_certificate.subject;
        let subject = DistinguishedName::of_subject(subject)?;
        match identities.iter().any(|one| one.is_part_of(&subject)) {
            true => Ok(()),
            false => Err("its signer is not one of the trustedIdentities".to_owned()),
        }
    }
}

fn passes(action: Action, told: Result<(), String>) -> Result<(), String> {
    match action {
        Action::Enforce => told,
        Action::Log | Action::Skip => Ok(()),
    }
}

fn check_expiry(envelope: &Envelope, now: Duration) -> Result<(), String> {
    match envelope.expiry {
        Some(expiry) if now >= expiry => Err("it has expired".to_owned()),
        _ => Ok(()),
    }
}

fn check_time(statement: &Statement, envelope: &Envelope, now: Duration) -> Result<(), String> {
    let when = match envelope.scheme {
        SigningScheme::X509 => now,
        SigningScheme::SigningAuthority => envelope.signed,
    };
    let invalid = envelope.chain.invalid_at(when);
    let is_countersigned = envelope.scheme == SigningScheme::X509
        && statement.stores.contains(&Store::Timestamps)
        && (!statement.only_after_expiry || invalid.is_some());
    match invalid {
        _ if is_countersigned => Err(
            "the policy wants the countersignature of a time stamping service, which is not supported: remove the tsa store, or \
             set verifyTimestamp to afterCertExpiry and sign with a certificate that is valid"
                .to_owned(),
        ),
        Some(what) => Err(what),
        None => Ok(()),
    }
}

fn check_revocation(envelope: &Envelope) -> Result<(), String> {
    match envelope.chain.is_revocable() {
        true => Err(
            "whether its certificate is revoked is not asked: override revocation with skip or log in the trust policy"
                .to_owned(),
        ),
        false => Ok(()),
    }
}

/// The signature of a manifest; the inner error says why it is none.
async fn fetch(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    digest: &str,
) -> Result<Result<Envelope, String>, Unverified> {
    let (repository, how) = (artifact.repository, artifact.how);
    let manifest = match charts.manifest(repository, digest, how).await {
        Ok(manifest) => manifest,
        Err(error) => return passed_over(error),
    };
    let [layer] = manifest.layers.as_slice() else {
        return Ok(Err("its manifest has not one layer".to_owned()));
    };
    if !envelope::is_known(&layer.media_type) {
        return Ok(Err(format!(
            "it is a '{}', which is not known",
            layer.media_type
        )));
    }
    match charts.layer(repository, layer, how, ENVELOPE).await {
        Ok(bytes) => Ok(Envelope::read(&layer.media_type, &bytes)),
        Err(error) => passed_over(error),
    }
}

fn passed_over(error: PortError) -> Result<Result<Envelope, String>, Unverified> {
    match super::is_lasting(error.kind) {
        true => Ok(Err(error.message)),
        false => Err(error.into()),
    }
}

impl From<PortError> for Unverified {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}
