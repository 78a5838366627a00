//! Artifacts in the bucket: the packed files of one source at one revision, named by their content, and beside them an
//! index of names and ids that answers "would this build read anything new?" without unpacking.

use crate::flux::{ArtifactStatus, rfc3339};
use crate::ports::{ErrorKind, FetchLimits, PortError, Ports, Precondition, Result};
use crate::source::archive;
use bytes::Bytes;
use driftless_manifest::{FileTree, TreeIndex};
use sha2::{Digest, Sha256};

/// Stores a tree and returns what the source's status says of it. The same tree is stored once.
///
/// # Errors
/// The bucket's.
pub async fn store(ports: &Ports, tree: &FileTree, revision: &str) -> Result<ArtifactStatus> {
    let packed = Bytes::from(archive::pack(tree)?);
    let hash = hex::encode(Sha256::digest(&packed));
    let path = format!("artifacts/{hash}.tar.gz");
    let size = packed.len() as u64;
    let index = serde_json::to_vec(tree.index()).map_err(|error| {
        PortError::new(
            ErrorKind::Invalid,
            format!("the index of {revision} cannot be written: {error}"),
        )
    })?;
    // The index goes first: whoever finds the artifact finds its index.
    ports
        .blobs
        .put(&index_key(&hash), Bytes::from(index), Precondition::Absent)
        .await?;
    ports.blobs.put(&path, packed, Precondition::Absent).await?;
    Ok(ArtifactStatus {
        url: ports.blobs.url(&path),
        path,
        revision: revision.to_owned(),
        digest: format!("sha256:{hash}"),
        last_update_time: rfc3339(ports.clock.now()),
        size: Some(size),
        ..ArtifactStatus::default()
    })
}

/// The names and ids of an artifact.
///
/// # Errors
/// The bucket's, or `NotFound` when the artifact is gone.
pub async fn index(ports: &Ports, artifact: &ArtifactStatus) -> Result<TreeIndex> {
    let hash = hash_of(artifact)?;
    let (bytes, _) = ports
        .blobs
        .get(&index_key(hash))
        .await?
        .ok_or_else(|| missing(artifact))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        PortError::new(
            ErrorKind::Unreadable,
            format!("index of {}: {error}", artifact.revision),
        )
    })
}

/// The files of an artifact, checked against its digest.
///
/// # Errors
/// The bucket's, `NotFound` when the artifact is gone, `Unreadable` when its bytes are not the ones that were stored.
pub async fn load(ports: &Ports, artifact: &ArtifactStatus) -> Result<FileTree> {
    archive::unpack(
        &bytes(ports, artifact).await?,
        false,
        FetchLimits::default(),
    )
}

/// The bytes of an artifact, checked against its digest.
///
/// # Errors
/// The bucket's, `NotFound` when the artifact is gone, `Unreadable` when its bytes are not the ones that were stored.
pub async fn bytes(ports: &Ports, artifact: &ArtifactStatus) -> Result<Bytes> {
    let hash = hash_of(artifact)?;
    let (packed, _) = ports
        .blobs
        .get(&format!("artifacts/{hash}.tar.gz"))
        .await?
        .ok_or_else(|| missing(artifact))?;
    if hex::encode(Sha256::digest(&packed)) != hash {
        let what = format!(
            "artifact {} has other bytes than were stored",
            artifact.revision
        );
        return Err(PortError::new(ErrorKind::Unreadable, what));
    }
    Ok(packed)
}

/// Whether the artifact is still in the bucket.
///
/// # Errors
/// The bucket's.
pub async fn exists(ports: &Ports, artifact: &ArtifactStatus) -> Result<bool> {
    let Ok(hash) = hash_of(artifact) else {
        return Ok(false);
    };
    Ok(!ports
        .blobs
        .list(&format!("artifacts/{hash}.tar.gz"))
        .await?
        .is_empty())
}

fn index_key(hash: &str) -> String {
    format!("artifacts/{hash}.index.json")
}

/// Only a digest that we could have written names a blob: a status is written by anyone who may write it.
fn hash_of(artifact: &ArtifactStatus) -> Result<&str> {
    let hash = artifact.digest.strip_prefix("sha256:").unwrap_or_default();
    let ours = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if ours && artifact.path == format!("artifacts/{hash}.tar.gz") {
        Ok(hash)
    } else {
        Err(missing(artifact))
    }
}

fn missing(artifact: &ArtifactStatus) -> PortError {
    PortError::new(
        ErrorKind::NotFound,
        format!("artifact {} is not in the bucket", artifact.revision),
    )
}
