//! Signatures of cosign: bundles of cosign 3 among the artifact's referrers, else signatures of cosign 2 beside it.
//!
//! As source-controller checks them: one signature is enough, and where there is a bundle the older signatures are not asked. Keys
//! need no transparency log; [keyless] signatures do. Other than there, the digest that an older signature speaks of must be the
//! artifact's: otherwise the signature of one artifact could be copied to another.

mod bundle;
pub(super) mod keyless;
mod simple;
#[cfg(test)]
mod tests;

use super::key::{Hash, PublicKey, Scheme};
use super::{Artifact, is_lasting};
use crate::ports::{Charts, ErrorKind, Layer, PortError};
use bundle::Bundle;
use bytes::Bytes;
use keyless::Keyless;
use std::collections::BTreeMap;

/// Signatures, or manifests that refer to an artifact, that are looked at.
const MANY: usize = 100;
/// Bytes of a statement of cosign 2; it is a digest and a name.
const SIMPLE: u64 = 256 << 10;
/// Bytes of a bundle; it may hold an attestation.
const BUNDLE: u64 = 4 << 20;
/// The annotation of a layer that is its signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// Who is trusted.
pub(super) enum Signers {
    /// The owners of these keys.
    Keys(Vec<PublicKey>),
    /// Whom an authority and a log of Sigstore vouch for.
    Keyless(Box<Keyless>),
}

/// Why no signature was accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unverified {
    #[error("{0}")]
    Port(PortError),
    #[error("it has no cosign signature; sign it with '{0}'")]
    Absent(&'static str),
    #[error("none of its {0} signatures is of this digest and by a key that is trusted")]
    Others(usize),
    #[error("none of its {0} signatures is of this digest and by an identity that is trusted: {1}")]
    Refused(usize, Refused),
    #[error("it has {0}, and more than {MANY} are not looked at")]
    TooMany(String),
}

/// Why one signature was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("it cannot be read")]
    Unreadable,
    #[error("it speaks of another digest")]
    Digest,
    #[error("a key made it, and none that is trusted")]
    Key,
    #[error("it has no certificate: a key made it, and spec.verify.secretRef names none")]
    NoCertificate,
    #[error(
        "it has no entry of a transparency log with it: sign it again with cosign 2 or newer, and its log"
    )]
    NoEntry,
    #[error("it has {0}")]
    TooMuch(&'static str),
    #[error("{0}")]
    Unproven(String),
    #[error("it is by '{subject}' of the issuer '{issuer}'")]
    Stranger { subject: String, issuer: String },
    #[error(
        "a bundle may not be anybody's: say in spec.verify.matchOIDCIdentity by which issuer and subject it must be"
    )]
    Anybody,
}

impl Refused {
    /// Of two reasons the one that says more: that of a signature which was meant.
    fn or(self, before: Option<Self>) -> Self {
        match (before, self) {
            (Some(before), Self::Unreadable | Self::Digest | Self::NoCertificate) => before,
            (_, own) => own,
        }
    }
}

/// What was made of the signatures of one form.
enum Looked {
    Accepted,
    /// How many there are, and why one of them was refused.
    Refused(usize, Refused),
}

/// Looks for one signature by one who is trusted.
///
/// # Errors
/// Why there is none.
pub(super) async fn check(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    by: &Signers,
) -> Result<(), Unverified> {
    let trouble = match bundles(charts, artifact, by).await {
        Ok(Some(looked)) => return by.told(looked),
        Ok(None) => None,
        // A registry that answers the question for referrers with a refusal may have older signatures.
        Err(error) => Some(error),
    };
    match (signatures(charts, artifact, by).await, trouble) {
        (Err(Unverified::Absent(_)), Some(error)) => Err(error),
        (told, _) => by.told(told?),
    }
}

/// Looks through the bundles among what refers to the artifact; nothing when there is none.
async fn bundles(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    by: &Signers,
) -> Result<Option<Looked>, Unverified> {
    let (repository, how) = (artifact.repository, artifact.how);
    let referrers = charts.referrers(repository, artifact.digest, how).await?;
    if referrers.len() > MANY {
        let what = format!("{} referrers", referrers.len());
        return Err(Unverified::TooMany(what));
    }
    let (mut count, mut told) = (0, None);
    for referrer in referrers {
        let manifest = charts.manifest(repository, &referrer.digest, how).await;
        let Some(manifest) = passed_over(manifest)? else {
            continue;
        };
        let [layer] = manifest.layers.as_slice() else {
            continue;
        };
        if !layer.media_type.starts_with(bundle::MEDIA_TYPE) {
            continue;
        }
        let bytes = charts.layer(repository, layer, how, BUNDLE).await;
        let bytes = passed_over(bytes)?.unwrap_or_default();
        let Some(bundle) = Bundle::read(&bytes) else {
            continue;
        };
        count += 1;
        match by.check_bundle(&bundle, &bytes, artifact.digest) {
            Ok(()) => return Ok(Some(Looked::Accepted)),
            Err(why) => told = Some(why.or(told)),
        }
    }
    Ok(told.map(|why| Looked::Refused(count, why)))
}

/// Looks through the signatures of cosign 2: layers of a manifest whose tag is made of the artifact's digest.
async fn signatures(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    by: &Signers,
) -> Result<Looked, Unverified> {
    let (repository, how) = (artifact.repository, artifact.how);
    let tag = format!("{}.sig", artifact.digest.replace(':', "-"));
    let manifest = charts.manifest(repository, &tag, how).await;
    let layers = match manifest {
        Ok(manifest) => manifest.layers,
        Err(error) if error.kind == ErrorKind::NotFound => return Err(by.absent()),
        Err(error) => return Err(error.into()),
    };
    if layers.is_empty() {
        return Err(by.absent());
    }
    if layers.len() > MANY {
        return Err(Unverified::TooMany(format!("{} signatures", layers.len())));
    }
    let mut told = None;
    // The same statement signed twice is one layer's bytes.
    let mut statements = BTreeMap::<&str, Option<Bytes>>::new();
    for layer in &layers {
        let Some(signature) = signature(layer) else {
            continue;
        };
        if !statements.contains_key(&*layer.digest) {
            let bytes = charts.layer(repository, layer, how, SIMPLE).await;
            statements.insert(&layer.digest, passed_over(bytes)?);
        }
        let Some(Some(statement)) = statements.get(&*layer.digest) else {
            continue;
        };
        let why = match simple::speaks_of(statement, artifact.digest) {
            false => Refused::Digest,
            true => match by.check_simple(layer, statement, &signature) {
                Ok(()) => return Ok(Looked::Accepted),
                Err(why) => why,
            },
        };
        told = Some(why.or(told));
    }
    let told = told.unwrap_or(Refused::Unreadable);
    Ok(Looked::Refused(layers.len(), told))
}

fn signature(layer: &Layer) -> Option<Vec<u8>> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.decode(layer.annotations.get(SIGNATURE)?).ok()
}

impl Signers {
    fn check_bundle(&self, bundle: &Bundle, bytes: &[u8], digest: &str) -> Result<(), Refused> {
        match self {
            Self::Keys(keys) => match keys.iter().any(|key| bundle.verifies(key, digest)) {
                true => Ok(()),
                false => Err(Refused::Key),
            },
            Self::Keyless(keyless) => keyless.check_bundle(bytes, digest),
        }
    }

    fn check_simple(
        &self,
        layer: &Layer,
        statement: &[u8],
        signature: &[u8],
    ) -> Result<(), Refused> {
        match self {
            Self::Keys(keys) => match keys.iter().any(|key| verifies(key, statement, signature)) {
                true => Ok(()),
                false => Err(Refused::Key),
            },
            Self::Keyless(keyless) => keyless.check_simple(layer, statement, signature),
        }
    }

    fn told(&self, looked: Looked) -> Result<(), Unverified> {
        match (looked, self) {
            (Looked::Accepted, _) => Ok(()),
            (Looked::Refused(count, _), Self::Keys(_)) => Err(Unverified::Others(count)),
            (Looked::Refused(count, why), Self::Keyless(_)) => Err(Unverified::Refused(count, why)),
        }
    }

    fn absent(&self) -> Unverified {
        Unverified::Absent(match self {
            Self::Keys(_) => "cosign sign --key",
            Self::Keyless(_) => "cosign sign",
        })
    }
}

/// Whether a key made a signature, the way sigstore's tools sign with a key of that kind.
fn verifies(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    let schemes: &[Scheme] = match key {
        PublicKey::Rsa(_) => &[Scheme::Pkcs1(Hash::Sha256)],
        PublicKey::Ed25519(_) => &[Scheme::Ed25519],
        PublicKey::P256(_) | PublicKey::P384(_) | PublicKey::P521(_) => &[
            Scheme::EcdsaDer(Hash::Sha256),
            Scheme::EcdsaFixed(Hash::Sha256),
        ],
    };
    schemes
        .iter()
        .any(|scheme| key.verifies(*scheme, message, signature))
}

/// What is gone, broken or too large is no signature; a registry that may answer later says nothing about it.
fn passed_over<T>(answer: Result<T, PortError>) -> Result<Option<T>, Unverified> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_lasting(error.kind) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl From<PortError> for Unverified {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}
