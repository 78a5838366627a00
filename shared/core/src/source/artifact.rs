//! Artifacts in the bucket, named by their content: the packed files of one source at one revision, with an index of names and
//! ids beside them that answers "would this build read anything new?" without unpacking; charts; indexes of repositories.

use crate::flux::{ArtifactStatus, rfc3339};
use crate::ports::{ErrorKind, FetchLimits, PortError, Ports, Precondition, Result};
use crate::source::archive;
use bytes::Bytes;
use driftless_manifest::{FileTree, TreeIndex};
use sha2::{Digest, Sha256};

/// What an artifact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The packed files of a source.
    Tree,
    /// A packed chart (`.tgz`, one folder with the chart's name in it), or a layer as it came: [`bytes`] are what
    /// `Chart::from_archive` reads. A [`Form::Tree`] of an OCIRepository that extracts a chart's layer is read by it as well.
    Chart,
    /// A repository's `index.yaml`.
    Index,
}

impl Form {
    const ALL: [Form; 3] = [Form::Tree, Form::Chart, Form::Index];

    fn key(self, hash: &str) -> String {
        let extension = match self {
            Form::Tree => "tar.gz",
            Form::Chart => "tgz",
            Form::Index => "yaml",
        };
        format!("artifacts/{hash}.{extension}")
    }
}

/// Stores a file as it is and returns what the source's status says of it. The same bytes are stored once.
///
/// # Errors
/// The bucket's.
pub async fn store_file(
    ports: &Ports,
    content: Bytes,
    form: Form,
    revision: &str,
) -> Result<ArtifactStatus> {
    let hash = hex::encode(Sha256::digest(&content));
    let path = form.key(&hash);
    let size = content.len() as u64;
    ports
        .blobs
        .put(&path, content, Precondition::Absent)
        .await?;
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

/// Stores a tree and returns what the source's status says of it. The same tree is stored once.
///
/// # Errors
/// The bucket's.
pub async fn store(ports: &Ports, tree: &FileTree, revision: &str) -> Result<ArtifactStatus> {
    let packed = Bytes::from(archive::pack(tree)?);
    let hash = hex::encode(Sha256::digest(&packed));
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
    store_file(ports, packed, Form::Tree, revision).await
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
/// As [`bytes`], or the files are refused.
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
    let (content, _) = ports
        .blobs
        .get(&artifact.path)
        .await?
        .ok_or_else(|| missing(artifact))?;
    if hex::encode(Sha256::digest(&content)) != hash {
        let what = format!(
            "artifact {} has other bytes than were stored",
            artifact.revision
        );
        return Err(PortError::new(ErrorKind::Unreadable, what));
    }
    Ok(content)
}

/// Whether the artifact is still in the bucket.
///
/// # Errors
/// The bucket's.
pub async fn exists(ports: &Ports, artifact: &ArtifactStatus) -> Result<bool> {
    if hash_of(artifact).is_err() {
        return Ok(false);
    }
    Ok(!ports.blobs.list(&artifact.path).await?.is_empty())
}

/// Whether a blob is an artifact, or tells of one.
pub fn is_key(key: &str) -> bool {
    key.starts_with("artifacts/")
}

fn index_key(hash: &str) -> String {
    format!("artifacts/{hash}.index.json")
}

/// Only a digest that we could have written names a blob: a status is written by anyone who may write it.
fn hash_of(artifact: &ArtifactStatus) -> Result<&str> {
    let hash = artifact.digest.strip_prefix("sha256:").unwrap_or_default();
    let ours = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if ours && Form::ALL.iter().any(|form| artifact.path == form.key(hash)) {
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
