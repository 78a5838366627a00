//! Signatures of cosign: bundles of cosign 3 among the artifact's referrers, else signatures of
//! cosign 2 in the same repository.
//!
//! They are checked as source-controller does it: one signature is enough, and if there is a
//! bundle, older signatures are not read. Keys need no transparency log; [keyless] signatures do.
//! Unlike source-controller, the digest in the statement of an older signature must be the
//! artifact's: otherwise the signature of one artifact could be copied to another.

mod bundle;
pub(super) mod keyless;
mod simple_signing;
#[cfg(test)]
mod tests;

use super::key::{Hash, PublicKey, Scheme};
use super::{Artifact, is_lasting};
use bundle::Bundle;
use bytes::Bytes;
use driftless_kernel::ports::{Charts, ErrorKind, Layer, PortError};
use keyless::Keyless;
use std::collections::BTreeMap;

/// Maximum number of signatures, or of manifests that refer to an artifact.
const MAX_SIGNATURES: usize = 100;
/// Maximum bytes of a statement of cosign 2, which holds a digest and a name.
const MAX_STATEMENT_BYTES: u64 = 256 << 10;
/// Maximum bytes of a bundle, which may hold an attestation.
const MAX_BUNDLE_BYTES: u64 = 4 << 20;
/// The annotation of a layer that holds its signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// The trusted signers.
pub(super) enum Signers {
    /// The owners of these keys.
    Keys(Vec<PublicKey>),
    /// The identities that an authority and a log of Sigstore vouch for.
    Keyless(Box<Keyless>),
}

/// The reason why no signature was accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unverified {
    #[error("{0}")]
    Port(PortError),
    #[error("the artifact has no cosign signature: sign it with '{0}'")]
    Absent(&'static str),
    #[error("none of the {0} signatures is for this digest and by a trusted key")]
    Others(usize),
    #[error("none of the {0} signatures is for this digest and by a trusted identity: {1}")]
    Refused(usize, SignatureError),
    #[error("the artifact has {0}: at most {MAX_SIGNATURES} are checked")]
    TooMany(String),
}

/// The reason why one signature was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignatureError {
    #[error("the signature cannot be read")]
    Unreadable,
    #[error("the signature is for another digest")]
    Digest,
    #[error("the signature is not by a trusted key")]
    Key,
    #[error(
        "the signature has no certificate: it was made with a key, but spec.verify.secretRef is not set"
    )]
    NoCertificate,
    #[error(
        "the signature has no entry of a transparency log: sign the artifact again with cosign 2 or newer and its log"
    )]
    NoEntry,
    #[error("the signature has {0}")]
    TooMuch(&'static str),
    #[error("{0}")]
    NotVerified(String),
    #[error("the signature is by '{subject}' of the issuer '{issuer}'")]
    OtherIdentity { subject: String, issuer: String },
    #[error(
        "spec.verify.matchOIDCIdentity: the issuer and the subject of the signer are required to verify a bundle"
    )]
    NoIdentity,
}

impl SignatureError {
    /// Returns the more helpful of two reasons: one of a signature that was meant for this
    /// artifact.
    fn or(self, earlier: Option<Self>) -> Self {
        match (earlier, self) {
            (Some(earlier), Self::Unreadable | Self::Digest | Self::NoCertificate) => earlier,
            (_, own) => own,
        }
    }
}

/// The result of checking the signatures of one form.
enum SearchResult {
    Accepted,
    /// The number of signatures, and why one of them was refused.
    Refused(usize, SignatureError),
}

/// Checks that the artifact has a signature by a trusted signer.
///
/// # Errors
/// The reason why no signature is accepted.
pub(super) async fn check(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    by: &Signers,
) -> Result<(), Unverified> {
    let referrers_error = match check_bundles(charts, artifact, by).await {
        Ok(Some(result)) => return by.evaluate(result),
        Ok(None) => None,
        // A registry that refuses to list referrers may have older signatures.
        Err(error) => Some(error),
    };
    match (
        check_signatures(charts, artifact, by).await,
        referrers_error,
    ) {
        (Err(Unverified::Absent(_)), Some(error)) => Err(error),
        (result, _) => by.evaluate(result?),
    }
}

/// Checks the bundles among the referrers of the artifact; returns `None` without a bundle.
async fn check_bundles(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    by: &Signers,
) -> Result<Option<SearchResult>, Unverified> {
    let (repository, connection) = (artifact.repository, artifact.connection);
    let referrers = charts
        .referrers(repository, artifact.digest, connection)
        .await?;
    if referrers.len() > MAX_SIGNATURES {
        let found = format!("{} referrers", referrers.len());
        return Err(Unverified::TooMany(found));
    }
    let (mut count, mut refused) = (0, None);
    for referrer in referrers {
        let manifest = charts
            .manifest(repository, &referrer.digest, connection)
            .await;
        let Some(manifest) = skip_lasting(manifest)? else {
            continue;
        };
        let [layer] = manifest.layers.as_slice() else {
            continue;
        };
        if !layer.media_type.starts_with(bundle::MEDIA_TYPE) {
            continue;
        }
        let bytes = charts
            .layer(repository, layer, connection, MAX_BUNDLE_BYTES)
            .await;
        let bytes = skip_lasting(bytes)?.unwrap_or_default();
        let Some(bundle) = Bundle::read(&bytes) else {
            continue;
        };
        count += 1;
        match by.check_bundle(&bundle, &bytes, artifact.digest) {
            Ok(()) => return Ok(Some(SearchResult::Accepted)),
            Err(reason) => refused = Some(reason.or(refused)),
        }
    }
    Ok(refused.map(|reason| SearchResult::Refused(count, reason)))
}

/// Checks the signatures of cosign 2: layers of a manifest whose tag is made of the artifact's
/// digest.
async fn check_signatures(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    by: &Signers,
) -> Result<SearchResult, Unverified> {
    let (repository, connection) = (artifact.repository, artifact.connection);
    let tag = format!("{}.sig", artifact.digest.replace(':', "-"));
    let manifest = charts.manifest(repository, &tag, connection).await;
    let layers = match manifest {
        Ok(manifest) => manifest.layers,
        Err(error) if error.kind == ErrorKind::NotFound => return Err(by.absent()),
        Err(error) => return Err(error.into()),
    };
    if layers.is_empty() {
        return Err(by.absent());
    }
    if layers.len() > MAX_SIGNATURES {
        return Err(Unverified::TooMany(format!("{} signatures", layers.len())));
    }
    let mut refused = None;
    // Two signatures of the same statement have the same layer digest, so it is read only once.
    let mut statements = BTreeMap::<&str, Option<Bytes>>::new();
    for layer in &layers {
        let Some(signature) = signature(layer) else {
            continue;
        };
        if !statements.contains_key(&*layer.digest) {
            let bytes = charts
                .layer(repository, layer, connection, MAX_STATEMENT_BYTES)
                .await;
            statements.insert(&layer.digest, skip_lasting(bytes)?);
        }
        let Some(Some(statement)) = statements.get(&*layer.digest) else {
            continue;
        };
        let reason = match simple_signing::is_for(statement, artifact.digest) {
            false => SignatureError::Digest,
            true => match by.check_simple(layer, statement, &signature) {
                Ok(()) => return Ok(SearchResult::Accepted),
                Err(reason) => reason,
            },
        };
        refused = Some(reason.or(refused));
    }
    let refused = refused.unwrap_or(SignatureError::Unreadable);
    Ok(SearchResult::Refused(layers.len(), refused))
}

fn signature(layer: &Layer) -> Option<Vec<u8>> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.decode(layer.annotations.get(SIGNATURE)?).ok()
}

impl Signers {
    fn check_bundle(
        &self,
        bundle: &Bundle,
        bytes: &[u8],
        digest: &str,
    ) -> Result<(), SignatureError> {
        match self {
            Self::Keys(keys) => match keys.iter().any(|key| bundle.verifies(key, digest)) {
                true => Ok(()),
                false => Err(SignatureError::Key),
            },
            Self::Keyless(keyless) => keyless.check_bundle(bytes, digest),
        }
    }

    fn check_simple(
        &self,
        layer: &Layer,
        statement: &[u8],
        signature: &[u8],
    ) -> Result<(), SignatureError> {
        match self {
            Self::Keys(keys) => match keys.iter().any(|key| verifies(key, statement, signature)) {
                true => Ok(()),
                false => Err(SignatureError::Key),
            },
            Self::Keyless(keyless) => keyless.check_simple(layer, statement, signature),
        }
    }

    fn evaluate(&self, result: SearchResult) -> Result<(), Unverified> {
        match (result, self) {
            (SearchResult::Accepted, _) => Ok(()),
            (SearchResult::Refused(count, _), Self::Keys(_)) => Err(Unverified::Others(count)),
            (SearchResult::Refused(count, reason), Self::Keyless(_)) => {
                Err(Unverified::Refused(count, reason))
            }
        }
    }

    fn absent(&self) -> Unverified {
        Unverified::Absent(match self {
            Self::Keys(_) => "cosign sign --key",
            Self::Keyless(_) => "cosign sign",
        })
    }
}

/// Returns whether a key made a signature, in the schemes that Sigstore's tools use for a key of
/// that kind.
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

/// Returns nothing for content that is missing, broken or too large, and an error if the registry
/// may answer later.
fn skip_lasting<T>(answer: Result<T, PortError>) -> Result<Option<T>, Unverified> {
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
