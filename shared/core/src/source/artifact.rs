//! Artifacts in the bucket, named by their content: the packed files of one source at one revision, with an index of names and
//! ids beside them that answers "would this build read anything new?" without unpacking; charts; indexes of repositories.

use crate::flux::{ArtifactStatus, ObjectRef, rfc3339};
use crate::kernel::Context;
use crate::ports::{Cause, ErrorKind, FetchLimits, PortError, Ports, Precondition, Result};
use crate::schedule;
use crate::source::archive;
use crate::state;
use bytes::Bytes;
use driftless_manifest::{FileTree, TreeIndex};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What an artifact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactKind {
    /// The packed files of a source.
    Tree,
    /// A packed chart (`.tgz`, one directory with the chart's name in it), or a layer as it came: [`bytes()`] are what
    /// `Chart::from_archive` reads. A [`ArtifactKind::Tree`] of an OCIRepository that extracts a chart's layer is read by it as well.
    Chart,
    /// A repository's `index.yaml`.
    Index,
}

impl ArtifactKind {
    const ALL: [ArtifactKind; 3] = [ArtifactKind::Tree, ArtifactKind::Chart, ArtifactKind::Index];

    fn key(self, hash: &str) -> String {
        let extension = match self {
            ArtifactKind::Tree => "tar.gz",
            ArtifactKind::Chart => "tgz",
            ArtifactKind::Index => "yaml",
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
    form: ArtifactKind,
    revision: &str,
) -> Result<ArtifactStatus> {
    let hash = hex::encode(Sha256::digest(&content));
    let path = form.key(&hash);
    let size = content.len() as u64;
    // Over what stands there: it is the same, or damaged. Either way it was written now, so nobody takes it for forgotten.
    ports.blobs.put(&path, content, Precondition::None).await?;
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
    // The index goes first: whoever finds the artifact finds its index.
    store_index(ports, &hash, tree.index()).await?;
    store_file(ports, packed, ArtifactKind::Tree, revision).await
}

async fn store_index(ports: &Ports, hash: &str, index: &TreeIndex) -> Result<()> {
    state::write(
        ports.blobs.as_ref(),
        &index_key(hash),
        index,
        Precondition::None,
    )
    .await?;
    Ok(())
}

/// The names and ids of an artifact. An index that is lost or damaged is made anew from the files.
///
/// # Errors
/// As [`load`].
pub async fn index(ports: &Ports, artifact: &ArtifactStatus) -> Result<TreeIndex> {
    let hash = hash_of(artifact)?;
    let known = state::recall::<TreeIndex>(ports.blobs.as_ref(), &index_key(hash)).await?;
    if let Some((index, _)) = known {
        return Ok(index);
    }
    let tree = load(ports, artifact).await?;
    store_index(ports, hash, tree.index()).await?;
    Ok(tree.index().clone())
}

/// The files of an artifact, checked against its digest. They are unpacked once for all objects that build from them.
///
/// # Errors
/// As [`bytes()`], or the files are refused.
pub async fn load(ports: &Ports, artifact: &ArtifactStatus) -> Result<Arc<FileTree>> {
    let hash = hash_of(artifact)?;
    if let Some(tree) = ports.unpacked.get(hash)
        && exists(ports, artifact).await?
    {
        return Ok(tree);
    }
    let packed = bytes(ports, artifact).await?;
    let unpack = move || archive::unpack(&packed, false, FetchLimits::default());
    let tree = Arc::new(ports.compute(unpack).await??);
    ports.unpacked.keep(hash, &tree);
    Ok(tree)
}

/// The bytes of an artifact, checked against its digest. Damaged ones are set aside.
///
/// # Errors
/// The bucket's, `NotFound` when the artifact is gone or was set aside.
pub async fn bytes(ports: &Ports, artifact: &ArtifactStatus) -> Result<Bytes> {
    let hash = hash_of(artifact)?;
    let (content, version) = ports
        .blobs
        .get(&artifact.path)
        .await?
        .ok_or_else(|| missing(artifact))?;
    if hex::encode(Sha256::digest(&content)) == hash {
        return Ok(content);
    }
    let what = format!(
        "artifact {} has other bytes than were stored",
        artifact.revision
    );
    let blobs = ports.blobs.as_ref();
    let kind = match state::set_aside(blobs, &artifact.path, &version, &what).await {
        true => ErrorKind::NotFound,
        false => ErrorKind::Unreadable,
    };
    Err(PortError::new(kind, what))
}

/// What the steps of a source remember of what they stored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Origin {
    stored: String,
}

/// Refuses an artifact that the steps of the source did not store. Who may write the status of a source of his own could name
/// another's artifact there.
///
/// # Errors
/// The bucket's; `NotFound` when the source stored another artifact, or none that is known of.
async fn check_origin(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<()> {
    let hub = &context.hub.settings.name;
    let record = schedule::read_record(context.ports, hub, source).await?;
    let origin = record.map(|record| record.memory::<Origin>());
    if origin.is_some_and(|origin| origin.stored == artifact.digest) {
        return Ok(());
    }
    let what = format!(
        "artifact {} is not known to be of {source}",
        artifact.revision
    );
    Err(PortError::new(ErrorKind::NotFound, what))
}

/// [`load`] for an object that follows a source. One that is missing is asked of the source.
///
/// # Errors
/// As [`load`]; `NotFound`, too, for an artifact that the source did not store.
pub async fn load_of(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Arc<FileTree>> {
    let found = match check_origin(context, source, artifact).await {
        Ok(()) => load(context.ports, artifact).await,
        Err(error) => Err(error),
    };
    or_ask(context, source, found).await
}

/// [`bytes()`] for an object that follows a source. What is missing is asked of the source.
///
/// # Errors
/// As [`load_of`].
pub async fn bytes_of(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Bytes> {
    let found = match check_origin(context, source, artifact).await {
        Ok(()) => bytes(context.ports, artifact).await,
        Err(error) => Err(error),
    };
    or_ask(context, source, found).await
}

/// The same answer, after asking the source to store an artifact again that is not in the bucket: who follows a source may
/// learn of that before the source does.
///
/// # Errors
/// As before, or the queue's.
pub async fn or_ask<T>(context: &Context<'_>, source: &ObjectRef, found: Result<T>) -> Result<T> {
    if let Err(error) = &found
        && error.kind == ErrorKind::NotFound
    {
        let look = context.request(source.clone(), Cause::Changed);
        context.ports.queue.send(vec![look]).await?;
    }
    found
}

/// Whether the artifact is in the bucket with as many bytes as were stored. Their digest is checked when they are read.
///
/// # Errors
/// The bucket's.
pub async fn exists(ports: &Ports, artifact: &ArtifactStatus) -> Result<bool> {
    if hash_of(artifact).is_err() {
        return Ok(false);
    }
    let found = ports.blobs.size(&artifact.path).await?;
    Ok(found.is_some_and(|size| artifact.size.is_none_or(|stored| stored == size)))
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
    if ours
        && ArtifactKind::ALL
            .iter()
            .any(|form| artifact.path == form.key(hash))
    {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, MemoryBlobs};
    use driftless_manifest::EntryKind;
    use driftless_manifest::TreePath;
    use futures::FutureExt as _;

    /// Nothing in memory ever waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        future
            .now_or_never()
            .expect("in-memory ports answer at once")
    }

    #[test]
    fn an_artifact_is_unpacked_once_and_only_while_it_is_there() {
        let blobs = Arc::new(MemoryBlobs::default());
        let ports = testing::ports(blobs, Arc::default(), Arc::default());
        let mut tree = FileTree::new();
        let path = TreePath::new("unpacked-once.yaml").unwrap();
        tree.insert(path, EntryKind::File, "a: b\n").unwrap();
        let stored = now(store(&ports, &tree, "main@sha1:1")).unwrap();
        let first = now(load(&ports, &stored)).unwrap();
        let second = now(load(&ports, &stored)).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        now(ports.blobs.delete(&stored.path)).unwrap();
        assert_eq!(
            now(load(&ports, &stored)).unwrap_err().kind,
            ErrorKind::NotFound
        );
    }
}
