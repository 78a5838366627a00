//! Artifacts in the bucket, named by their content: the files of one source at one revision,
//! charts, and indexes of chart repositories. Files are stored in two forms: the archive that
//! clients of Flux download, and packed files, which [`crate::files`] reads by need.

use crate::{archive, external};
use bytes::Bytes;
use driftless_flux::{ArtifactStatus, FluxKind, ObjectRef, rfc3339};
use driftless_kernel::context::Context;
use driftless_kernel::packed_files::{self, FormatError, Limits, PackedIndex};
use driftless_kernel::ports::{
    Cause, ErrorKind, FetchLimits, PortError, Ports, Precondition, PushedCommit, Result, compute,
};
use driftless_kernel::schedule;
use driftless_kernel::state;
use driftless_manifest::FileTree;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The bytes from which a digest would delay other steps: it takes about a millisecond.
const ASYNC_DIGEST_BYTES: u64 = 1 << 20;

/// The most bytes of new files that the process keeps: the steps that follow read them.
const MAX_KEPT: u64 = 16 << 20;

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
        Ok::<_, PortError>((Bytes::from(packed), hash, tree))
    };
    let (packed, hash, tree) =
        compute(ports.compute.as_ref(), files.saturating_mul(2), pack).await??;
    // The packed files are stored first, so that an artifact rarely exists without them.
    store_files(ports, &hash, tree).await?;
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

/// Stores the packed files of an artifact, which are read by need, and keeps them for the next
/// steps of this process.
///
/// # Errors
/// The bucket's.
pub(crate) async fn store_files(
    ports: &Ports,
    hash: &str,
    tree: FileTree,
) -> Result<Arc<PackedIndex>> {
    let bytes: u64 = tree.index().iter().map(|(_, entry)| entry.size).sum();
    let cache = ports.files.clone();
    let pack = move || {
        let (blob, index) = packed_files::pack(&tree).map_err(|error| refused(&error))?;
        if bytes <= MAX_KEPT {
            for piece in index.pieces() {
                cache.keep_piece(piece, &index.contents_of(piece, &tree));
            }
        }
        Ok::<_, PortError>((Bytes::from(blob), Arc::new(index)))
    };
    let memory = bytes.saturating_mul(2);
    let (blob, index) = compute(ports.compute.as_ref(), memory, pack).await??;
    let key = files_key(hash);
    ports.blobs.put(&key, blob, Precondition::None).await?;
    ports.files.keep_index(hash, &index);
    Ok(index)
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
    /// The artifact with the digest `stored`, of a source with its own steps.
    #[serde(rename = "storedArtifact", skip_serializing_if = "Option::is_none")]
    artifact: Option<ArtifactStatus>,
    /// The commit of that artifact, as a delivery described it.
    #[serde(rename = "storedCommit", skip_serializing_if = "Option::is_none")]
    commit: Option<PushedCommit>,
}

/// Returns the artifact that the steps of a source stored last, from the record of the source, with
/// its commit if a delivery described it; `None` if the record does not have the artifact.
///
/// # Errors
/// The bucket's.
pub async fn stored_by(
    context: &Context<'_>,
    source: &ObjectRef,
) -> Result<Option<(ArtifactStatus, Option<PushedCommit>)>> {
    let hub = &context.hub.settings.name;
    let record = schedule::read_record(context.ports, hub, source).await?;
    let origin = record.map(|record| record.memory::<Origin>());
    Ok(origin.and_then(|origin| {
        let artifact = origin.artifact?;
        (artifact.digest == origin.stored).then_some((artifact, origin.commit))
    }))
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
        artifact: None,
        commit: None,
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
pub(crate) async fn is_downloaded(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<bool> {
    Ok(source.kind == FluxKind::ExternalArtifact
        && !is_generated(context, source, artifact).await?)
}

/// Downloads an artifact that no generator stored. If it has the form of a stored one, its record
/// may be lost: then its generator stores it again.
pub(crate) async fn download(
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
pub(crate) async fn check_origin(
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

/// Calls [`bytes()`] for an object that follows a source. If the artifact is missing, the source is
/// queued to store it again.
///
/// # Errors
/// The same as [`bytes()`]; also `NotFound` for an artifact that the source did not store.
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
pub(crate) async fn or_request<T>(
    context: &Context<'_>,
    source: &ObjectRef,
    found: Result<T>,
) -> Result<T> {
    if let Err(error) = &found
        && error.kind == ErrorKind::NotFound
    {
        let request = context.request(source.clone(), Cause::Changed);
        context.ports.queue.send(vec![request]).await?;
    }
    found
}

/// Returns whether the artifact is in the bucket with its stored size. The digest is checked when
/// the bytes are read. A rehearsal takes it for granted: its function may not read artifacts, and a
/// full step looks once a day.
///
/// # Errors
/// The bucket's.
pub async fn exists(context: &Context<'_>, artifact: &ArtifactStatus) -> Result<bool> {
    if hash_of(artifact).is_err() {
        return Ok(false);
    }
    if context.is_rehearsal {
        return Ok(true);
    }
    let found = context.ports.blobs.size(&artifact.path).await?;
    Ok(found.is_some_and(|size| artifact.size.is_none_or(|stored| stored == size)))
}

/// Returns whether an artifact has the files of a source.
pub(crate) fn has_files(artifact: &ArtifactStatus) -> bool {
    hash_of(artifact).is_ok_and(|hash| artifact.path == ArtifactKind::Tree.key(hash))
}

/// Returns the key of the packed files of an artifact.
pub(crate) fn files_key(hash: &str) -> String {
    format!("artifacts/{hash}.files")
}

/// Returns the limits of packed files, which are those of a source.
pub(crate) fn limits() -> Limits {
    let FetchLimits { bytes, files, .. } = FetchLimits::default();
    Limits { bytes, files }
}

/// Returns the hash of an artifact if its digest and path are ones that driftless writes: a status
/// can hold anything that its writers want.
pub(crate) fn hash_of(artifact: &ArtifactStatus) -> Result<&str> {
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

fn refused(error: &FormatError) -> PortError {
    PortError::new(ErrorKind::Invalid, error.to_string())
}

fn missing(artifact: &ArtifactStatus) -> PortError {
    PortError::new(
        ErrorKind::NotFound,
        format!("artifact {} is not in the bucket", artifact.revision),
    )
}
