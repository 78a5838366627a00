//! Signatures of cosign by keys: bundles of cosign 3 among the artifact's referrers, else signatures of cosign 2 beside it.
//!
//! As source-controller checks them: no transparency log, one key and one signature are enough, and where there is a bundle the
//! older signatures are not asked. Other than there, the digest that an older signature speaks of must be the artifact's:
//! otherwise the signature of one artifact could be copied to another.

mod bundle;
mod simple;
#[cfg(test)]
mod tests;

use super::key::{Hash, PublicKey, Scheme};
use super::{Artifact, is_lasting};
use crate::ports::{Charts, ErrorKind, Layer, PortError};
use bundle::Bundle;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Signatures, or manifests that refer to an artifact, that are looked at.
const MANY: usize = 100;
/// Bytes of a statement of cosign 2; it is a digest and a name.
const SIMPLE: u64 = 256 << 10;
/// Bytes of a bundle; it may hold an attestation.
const BUNDLE: u64 = 4 << 20;
/// The annotation of a layer that is its signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// Why no signature was accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unverified {
    #[error("{0}")]
    Port(PortError),
    #[error("there is no cosign signature beside it; sign it with 'cosign sign --key'")]
    Absent,
    #[error("none of its {0} signatures is of this digest and by a key that is trusted")]
    Others(usize),
    #[error("it has {0}, and more than {MANY} are not looked at")]
    TooMany(String),
}

/// Looks for one signature by one of the keys.
///
/// # Errors
/// Why there is none.
pub(super) async fn check(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    keys: &[PublicKey],
) -> Result<(), Unverified> {
    let (bundles, trouble) = match bundles(charts, artifact).await {
        Ok(found) => (found, None),
        // A registry that answers the question for referrers with a refusal may have older signatures.
        Err(error) => (Vec::new(), Some(error)),
    };
    if !bundles.is_empty() {
        let by = |key| bundles.iter().any(|one| one.verifies(key, artifact.digest));
        return match keys.iter().any(by) {
            true => Ok(()),
            false => Err(Unverified::Others(bundles.len())),
        };
    }
    match (signatures(charts, artifact, keys).await, trouble) {
        (Err(Unverified::Absent), Some(error)) => Err(error),
        (told, _) => told,
    }
}

/// The bundles among what refers to the artifact.
async fn bundles(charts: &dyn Charts, artifact: &Artifact<'_>) -> Result<Vec<Bundle>, Unverified> {
    let (repository, how) = (artifact.repository, artifact.how);
    let referrers = charts.referrers(repository, artifact.digest, how).await?;
    if referrers.len() > MANY {
        let what = format!("{} referrers", referrers.len());
        return Err(Unverified::TooMany(what));
    }
    let mut found = Vec::new();
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
        let bytes = passed_over(bytes)?;
        found.extend(bytes.and_then(|bytes| Bundle::read(&bytes)));
    }
    Ok(found)
}

/// Looks through the signatures of cosign 2: layers of a manifest whose tag is made of the artifact's digest.
async fn signatures(
    charts: &dyn Charts,
    artifact: &Artifact<'_>,
    keys: &[PublicKey],
) -> Result<(), Unverified> {
    let (repository, how) = (artifact.repository, artifact.how);
    let tag = format!("{}.sig", artifact.digest.replace(':', "-"));
    let manifest = charts.manifest(repository, &tag, how).await;
    let layers = match manifest {
        Ok(manifest) => manifest.layers,
        Err(error) if error.kind == ErrorKind::NotFound => return Err(Unverified::Absent),
        Err(error) => return Err(error.into()),
    };
    if layers.is_empty() {
        return Err(Unverified::Absent);
    }
    if layers.len() > MANY {
        return Err(Unverified::TooMany(format!("{} signatures", layers.len())));
    }
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
        let by = |key| verifies(key, statement, &signature);
        if simple::speaks_of(statement, artifact.digest) && keys.iter().any(by) {
            return Ok(());
        }
    }
    Err(Unverified::Others(layers.len()))
}

fn signature(layer: &Layer) -> Option<Vec<u8>> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.decode(layer.annotations.get(SIGNATURE)?).ok()
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
