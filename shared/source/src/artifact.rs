//! Artifacts in the bucket, named by their content: the packed files of one source at one revision,
//! charts, and indexes of chart repositories. Packed files have an index of names and ids, which
//! answers "would this build read anything new?" without unpacking.

use crate::{archive, external};
use bytes::Bytes;
use driftless_flux::{ArtifactStatus, FluxKind, ObjectRef, rfc3339};
use driftless_fuel::Tank;
use driftless_kernel::context::Context;
use driftless_kernel::ports::{
    Cause, ErrorKind, FetchLimits, PortError, Ports, Precondition, Result, compute,
};
use driftless_kernel::schedule;
use driftless_kernel::state;
use driftless_manifest::{FileTree, TreeIndex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The bytes from which a digest would delay other steps: it takes about a millisecond.
const ASYNC_DIGEST_BYTES: u64 = 1 << 20;

/// The format of the bytes of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactKind {
    /// The packed files of a source.
    Tree,
    /// A packed chart (`.tgz`, one directory with the chart's name in it), or an unchanged layer:
    /// `Chart::from_archive` reads its [`bytes()`]. It also reads a [`ArtifactKind::Tree`] of an
    /// OCIRepository that extracts a chart's layer.
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

/// Stores a file unchanged and returns the artifact for the source's status. The same bytes are
/// stored once.
///
/// # Errors
/// The bucket's.
pub async fn store_file(
    ports: &Ports,
    content: Bytes,
    form: ArtifactKind,
    revision: &str,
) -> Result<ArtifactStatus> {
    let hash = sha256(ports, &content).await?;
    store_hashed(ports, content, &hash, form, revision).await
}

async fn store_hashed(
    ports: &Ports,
    content: Bytes,
    hash: &str,
    form: ArtifactKind,
    revision: &str,
) -> Result<ArtifactStatus> {
    let path = form.key(hash);
    let size = content.len() as u64;
    // An existing blob has the same content or is damaged. It is written in both cases: the new
    // time keeps it from expiring.
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

/// Stores a tree and returns the artifact for the source's status. The same tree is stored once.
///
/// # Errors
/// The bucket's.
pub async fn store(ports: &Ports, tree: FileTree, revision: &str) -> Result<ArtifactStatus> {
    // The files may not be compressible, so the packed bytes may be as many.
    let files: u64 = tree.index().iter().map(|(_, entry)| entry.size).sum();
    let pack = move || {
        let packed = archive::pack(&tree)?;
        let hash = hex::encode(Sha256::digest(&packed));
        Ok::<_, PortError>((Bytes::from(packed), hash, tree.index().clone()))
    };
    let (packed, hash, index) =
        compute(ports.compute.as_ref(), files.saturating_mul(2), pack).await??;
    // The index is stored first, so that an artifact never exists without it.
    store_index(ports, &hash, &index).await?;
    store_hashed(ports, packed, &hash, ArtifactKind::Tree, revision).await
}

/// Returns the SHA-256 of an artifact in hex. That of a large one runs as a computation.
async fn sha256(ports: &Ports, content: &Bytes) -> Result<String> {
    let bytes = content.len() as u64;
    let content = content.clone();
    let hash = move || hex::encode(Sha256::digest(&content));
    match bytes < ASYNC_DIGEST_BYTES {
        true => Ok(hash()),
        false => compute(ports.compute.as_ref(), bytes, hash).await,
    }
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

/// Returns the names and ids of an artifact. A lost or damaged index is created again from the
/// files.
///
/// # Errors
/// The same as [`load`].
async fn index(ports: &Ports, artifact: &ArtifactStatus, step: &Tank) -> Result<TreeIndex> {
    let hash = hash_of(artifact)?;
    let known = state::recall::<TreeIndex>(ports.blobs.as_ref(), &index_key(hash)).await?;
    if let Some((index, _)) = known {
        return Ok(index);
    }
    let tree = load(ports, artifact, step).await?;
    store_index(ports, hash, tree.index()).await?;
    Ok(tree.index().clone())
}

/// Returns the files of an artifact, checked against its digest. They are unpacked once for all
/// objects that build from them.
///
/// # Errors
/// The same as [`bytes()`], or the archive is refused.
pub async fn load(ports: &Ports, artifact: &ArtifactStatus, step: &Tank) -> Result<Arc<FileTree>> {
    let hash = hash_of(artifact)?;
    if let Some(tree) = ports.unpacked.get(hash)
        && exists(ports, artifact).await?
    {
        return Ok(tree);
    }
    let packed = bytes(ports, artifact).await?;
    let port = ports.compute.as_ref();
    let tree = archive::unpack_apart(port, packed, false, FetchLimits::of_step(step)).await?;
    let tree = Arc::new(tree);
    ports.unpacked.keep(hash, &tree);
    Ok(tree)
}

/// Returns the bytes of an artifact, checked against its digest. A damaged artifact is set aside.
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
    if sha256(ports, &content).await? == hash {
        return Ok(content);
    }
    let message = format!(
        "artifact {}: the content in the bucket is not what was stored",
        artifact.revision
    );
    let blobs = ports.blobs.as_ref();
    let kind = match state::set_aside(blobs, &artifact.path, &version, &message).await {
        true => ErrorKind::NotFound,
        false => ErrorKind::Unreadable,
    };
    Err(PortError::new(kind, message))
}

/// The part of a source's memory that names the artifact it stored last.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Origin {
    stored: String,
    /// The artifact before, of an ExternalArtifact: its status still names it while the generator
    /// writes the new one.
    #[serde(skip_serializing_if = "String::is_empty")]
    previous: String,
}

/// Notes in the record of an ExternalArtifact which artifact its generator stored for it, before
/// the status names it.
///
/// # Errors
/// The bucket's.
pub(super) async fn note_generated(
    context: &Context<'_>,
    id: &ObjectRef,
    digest: &str,
) -> Result<()> {
    let hub = &context.hub.settings.name;
    let record = schedule::read_record(context.ports, hub, id).await?;
    let known = record.map(|record| record.memory::<Origin>());
    let stored = known.unwrap_or_default().stored;
    if stored == digest {
        return Ok(());
    }
    let origin = Origin {
        stored: digest.to_owned(),
        previous: stored,
    };
    schedule::remember_of(context.ports, hub, id, &origin).await
}

/// Forgets the artifacts that a generator stored for an ExternalArtifact.
///
/// # Errors
/// The bucket's.
pub(super) async fn forget_generated(context: &Context<'_>, id: &ObjectRef) -> Result<()> {
    let hub = &context.hub.settings.name;
    let origin = serde_json::Value::Null;
    schedule::remember_of(context.ports, hub, id, &origin).await
}

/// Returns whether a generator has stored any artifact for an ExternalArtifact.
///
/// # Errors
/// The bucket's.
pub(super) async fn has_generator(context: &Context<'_>, id: &ObjectRef) -> Result<bool> {
    let hub = &context.hub.settings.name;
    let record = schedule::read_record(context.ports, hub, id).await?;
    Ok(record.is_some_and(|record| !record.memory::<Origin>().stored.is_empty()))
}

/// Returns whether the step of a generator stored this artifact for an ExternalArtifact. Any other
/// one is treated as that of another controller.
///
/// # Errors
/// The bucket's.
pub(super) async fn is_generated(
    context: &Context<'_>,
    id: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<bool> {
    if hash_of(artifact).is_err() {
        return Ok(false);
    }
    let hub = &context.hub.settings.name;
    let record = schedule::read_record(context.ports, hub, id).await?;
    let origin = record.map(|record| record.memory::<Origin>());
    Ok(origin.is_some_and(|origin| [origin.stored, origin.previous].contains(&artifact.digest)))
}

/// Returns whether an artifact is downloaded: that of an ExternalArtifact which no generator
/// stored.
async fn is_downloaded(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<bool> {
    Ok(source.kind == FluxKind::ExternalArtifact
        && !is_generated(context, source, artifact).await?)
}

/// Downloads an artifact that no generator stored. If it has the form of a stored one, its record
/// may be lost: then its generator stores it again.
async fn download(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Bytes> {
    let found = external::download(context, artifact).await;
    if found.is_err() && hash_of(artifact).is_ok() {
        let request = context.request(source.clone(), Cause::Changed);
        context.ports.queue.send(vec![request]).await?;
    }
    found
}

/// Refuses an artifact that the steps of the source did not store. A user who can write the status
/// of a source could name the artifact of another source there.
///
/// # Errors
/// The bucket's; `NotFound` if the source stored another artifact, or if its memory is lost.
async fn check_origin(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<()> {
    if source.kind == FluxKind::ExternalArtifact {
        // Its callers have checked the record.
        return Ok(());
    }
    let hub = &context.hub.settings.name;
    let record = schedule::read_record(context.ports, hub, source).await?;
    let origin = record.map(|record| record.memory::<Origin>());
    if origin.is_some_and(|origin| origin.stored == artifact.digest) {
        return Ok(());
    }
    let message = format!("artifact {} was not stored by {source}", artifact.revision);
    Err(PortError::new(ErrorKind::NotFound, message))
}

/// Returns the names and ids of an artifact for an object that follows a source. Equal ids mean
/// equal files, so an index is as private as the files. If the artifact is missing, the source is
/// queued to store it again.
///
/// # Errors
/// The same as [`load_of`].
pub async fn index_of(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<TreeIndex> {
    if is_downloaded(context, source, artifact).await? {
        let tree = load_of(context, source, artifact).await?;
        return Ok(tree.index().clone());
    }
    let found = match check_origin(context, source, artifact).await {
        Ok(()) => index(context.ports, artifact, &context.fuel).await,
        Err(error) => Err(error),
    };
    or_request(context, source, found).await
}

/// Calls [`load`] for an object that follows a source. If the artifact is missing, the source is
/// queued to store it again. The artifact of an ExternalArtifact is downloaded, unless a generator
/// stored it.
///
/// # Errors
/// The same as [`load`]; also `NotFound` for an artifact that the source did not store.
pub async fn load_of(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Arc<FileTree>> {
    if is_downloaded(context, source, artifact).await? {
        let packed = download(context, source, artifact).await?;
        let port = context.ports.compute.as_ref();
        let limits = FetchLimits::of_step(&context.fuel);
        let tree = archive::unpack_apart(port, packed, false, limits).await?;
        return Ok(Arc::new(tree));
    }
    let found = match check_origin(context, source, artifact).await {
        Ok(()) => load(context.ports, artifact, &context.fuel).await,
        Err(error) => Err(error),
    };
    or_request(context, source, found).await
}

/// Calls [`bytes()`] for an object that follows a source. If the artifact is missing, the source is
/// queued to store it again.
///
/// # Errors
/// The same as [`load_of`].
pub async fn bytes_of(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Bytes> {
    if is_downloaded(context, source, artifact).await? {
        return download(context, source, artifact).await;
    }
    let found = match check_origin(context, source, artifact).await {
        Ok(()) => bytes(context.ports, artifact).await,
        Err(error) => Err(error),
    };
    or_request(context, source, found).await
}

/// Returns `found` unchanged, and queues the source if the artifact is not in the bucket, so that
/// it is stored again: an object that follows the source may notice this first.
///
/// # Errors
/// The error in `found`, or the queue's.
async fn or_request<T>(context: &Context<'_>, source: &ObjectRef, found: Result<T>) -> Result<T> {
    if let Err(error) = &found
        && error.kind == ErrorKind::NotFound
    {
        let request = context.request(source.clone(), Cause::Changed);
        context.ports.queue.send(vec![request]).await?;
    }
    found
}

/// Returns whether the artifact is in the bucket with its stored size. The digest is checked when
/// the bytes are read.
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

/// Returns whether a blob is an artifact or the index of one.
pub fn is_key(key: &str) -> bool {
    key.starts_with("artifacts/")
}

fn index_key(hash: &str) -> String {
    format!("artifacts/{hash}.index.json")
}

/// Returns the hash of an artifact if its digest and path are ones that driftless writes: a status
/// can hold anything that its writers want.
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
    use driftless_manifest::EntryKind;
    use driftless_manifest::TreePath;
    use driftless_memory::MemoryBlobs;
    use futures::FutureExt as _;

    /// Returns the result of a future that never waits, as those of in-memory ports.
    fn now<T>(future: impl Future<Output = T>) -> T {
        future
            .now_or_never()
            .expect("in-memory ports answer at once")
    }

    #[test]
    fn an_artifact_is_unpacked_once_and_only_while_it_is_there() {
        let blobs = Arc::new(MemoryBlobs::default());
        let ports = driftless_memory::ports(blobs, Arc::default(), Arc::default());
        let mut tree = FileTree::new();
        let path = TreePath::new("unpacked-once.yaml").unwrap();
        tree.insert(path, EntryKind::File, "a: b\n").unwrap();
        let stored = now(store(&ports, tree, "main@sha1:1")).unwrap();
        let first = now(load(&ports, &stored, &Tank::default())).unwrap();
        let second = now(load(&ports, &stored, &Tank::default())).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        now(ports.blobs.delete(&stored.path)).unwrap();
        assert_eq!(
            now(load(&ports, &stored, &Tank::default()))
                .unwrap_err()
                .kind,
            ErrorKind::NotFound
        );
    }
}
