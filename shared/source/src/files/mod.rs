//! The files of an artifact, read by need: its index, and the pieces with the files that a caller
//! asks for. Nothing is unpacked as a whole, unless the packed files are lost or damaged, or are
//! those of an earlier version: then they are made again from the artifact.

mod blob;

use crate::{archive, artifact};
use blob::{read_index, read_pieces};
use driftless_flux::{ArtifactStatus, ObjectRef};
use driftless_fuel::Tank;
use driftless_kernel::context::Context;
use driftless_kernel::packed_files::PackedIndex;
use driftless_kernel::ports::{FetchLimits, Ports, Result};
use driftless_manifest::{FileTree, TreeIndex, TreePath};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The files of an artifact. The tree has all paths, and the contents that were loaded.
#[derive(Clone, Debug)]
pub struct Files {
    tree: Arc<FileTree>,
    /// The packed files; `None` if the tree has all contents.
    packed: Option<Packed>,
    /// The source that stores the artifact again if it is missing.
    source: Option<ObjectRef>,
    /// The fuel of the step, which the pieces charge.
    fuel: Tank,
}

#[derive(Clone, Debug)]
struct Packed {
    index: Arc<PackedIndex>,
    artifact: ArtifactStatus,
}

impl Files {
    /// Returns the files of a tree that has all contents.
    pub fn whole(tree: Arc<FileTree>) -> Self {
        Self {
            tree,
            packed: None,
            source: None,
            fuel: Tank::default(),
        }
    }

    fn by_need(index: Arc<PackedIndex>, artifact: &ArtifactStatus, step: &Tank) -> Self {
        Self {
            tree: Arc::new(FileTree::without_contents(index.tree().clone())),
            packed: Some(Packed {
                index,
                artifact: artifact.clone(),
            }),
            source: None,
            fuel: step.clone(),
        }
    }

    /// Returns the paths and ids of all files.
    pub fn index(&self) -> &TreeIndex {
        self.tree.index()
    }

    /// Returns the tree, with the contents that were loaded.
    pub fn tree(&self) -> &Arc<FileTree> {
        &self.tree
    }

    /// Returns the tree for additions to it.
    pub fn tree_mut(&mut self) -> &mut FileTree {
        Arc::make_mut(&mut self.tree)
    }

    /// Loads the contents of files; paths that the artifact does not have are ignored.
    ///
    /// # Errors
    /// The bucket's; `NotFound` if the artifact is gone.
    pub async fn load<'p>(
        &mut self,
        ports: &Ports,
        wanted: impl IntoIterator<Item = &'p TreePath>,
    ) -> Result<()> {
        let Some(packed) = &self.packed else {
            return Ok(());
        };
        let is_missing = |path: &&TreePath| self.tree.content(path).is_none();
        let wanted = wanted.into_iter().filter(is_missing);
        let pieces: BTreeSet<usize> = wanted
            .filter_map(|path| packed.index.piece_of(path))
            .collect();
        let (index, artifact) = (packed.index.clone(), packed.artifact.clone());
        let Some(found) = read_pieces(
            ports,
            &index,
            artifact::hash_of(&artifact)?,
            pieces,
            &self.fuel,
        )
        .await?
        else {
            let whole = make_again(ports, &artifact, &self.fuel).await?;
            let files = index.tree().iter();
            let contents = files.filter_map(|(path, _)| {
                let content = whole.content(path)?.clone();
                Some((path.clone(), content))
            });
            self.tree_mut().fill(contents);
            return Ok(());
        };
        for (at, contents) in found {
            if let Some(piece) = index.pieces().get(at) {
                self.tree_mut().fill(index.files_of(piece, &contents));
            }
        }
        Ok(())
    }

    /// Loads the contents of files for the step of an object that follows the source. If the
    /// artifact is missing, the source is queued to store it again.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub async fn load_for<'p>(
        &mut self,
        context: &Context<'_>,
        wanted: impl IntoIterator<Item = &'p TreePath>,
    ) -> Result<()> {
        let found = self.load(context.ports, wanted).await;
        match &self.source {
            Some(source) => artifact::or_request(context, source, found).await,
            None => found,
        }
    }

    /// Loads the contents of all files, and returns the tree.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub async fn load_all(mut self, ports: &Ports) -> Result<Arc<FileTree>> {
        if let Some(packed) = &self.packed {
            let index = packed.index.tree().clone();
            self.load(ports, index.iter().map(|(path, _)| path)).await?;
        }
        Ok(self.tree)
    }
}

/// Opens the files of an artifact.
///
/// # Errors
/// The bucket's; `NotFound` if the artifact is gone; the archive is refused.
pub async fn open(ports: &Ports, artifact: &ArtifactStatus, step: &Tank) -> Result<Files> {
    let hash = artifact::hash_of(artifact)?;
    if let Some(index) = ports.files.index(hash) {
        return Ok(Files::by_need(index, artifact, step));
    }
    match read_index(ports, hash).await? {
        Some(index) => {
            ports.files.keep_index(hash, &index);
            Ok(Files::by_need(index, artifact, step))
        }
        None => {
            let tree = make_again(ports, artifact, step).await?;
            Ok(Files::whole(Arc::new(tree)))
        }
    }
}

/// Returns all files of an artifact.
///
/// # Errors
/// Those of [`open`].
pub async fn load(ports: &Ports, artifact: &ArtifactStatus, step: &Tank) -> Result<Arc<FileTree>> {
    open(ports, artifact, step).await?.load_all(ports).await
}

/// Opens the files of an artifact for an object that follows a source. Equal ids mean equal files,
/// so an index is as private as the files. If the artifact is missing, the source is queued to
/// store it again. The artifact of an ExternalArtifact is downloaded, unless a generator stored it.
///
/// # Errors
/// The same as [`open`]; also `NotFound` for an artifact that the source did not store.
pub async fn open_of(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Files> {
    if artifact::is_downloaded(context, source, artifact).await? {
        let packed = artifact::download(context, source, artifact).await?;
        let port = context.ports.compute.as_ref();
        let limits = FetchLimits::of_step(&context.fuel);
        let tree = archive::unpack_apart(port, packed, false, limits).await?;
        return Ok(Files::whole(Arc::new(tree)));
    }
    match artifact::check_origin(context, source, artifact).await {
        Ok(()) => open_stored(context, source, artifact).await,
        Err(error) => artifact::or_request(context, source, Err(error)).await,
    }
}

/// Opens the files of an artifact that [`artifact::stored_by`] has returned.
///
/// # Errors
/// The same as [`open_of`].
pub async fn open_stored(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Files> {
    let found = open(context.ports, artifact, &context.fuel)
        .await
        .map(|files| Files {
            source: Some(source.clone()),
            ..files
        });
    artifact::or_request(context, source, found).await
}

/// Returns all files of an artifact for an object that follows a source.
///
/// # Errors
/// The same as [`open_of`].
pub async fn load_of(
    context: &Context<'_>,
    source: &ObjectRef,
    artifact: &ArtifactStatus,
) -> Result<Arc<FileTree>> {
    let files = open_of(context, source, artifact).await?;
    let found = files.load_all(context.ports).await;
    artifact::or_request(context, source, found).await
}

/// Makes the packed files of an artifact again, which are lost, damaged, or of an earlier version.
async fn make_again(ports: &Ports, artifact: &ArtifactStatus, step: &Tank) -> Result<FileTree> {
    let hash = artifact::hash_of(artifact)?;
    let packed = artifact::bytes(ports, artifact).await?;
    let limits = FetchLimits::of_step(step);
    let tree = archive::unpack_apart(ports.compute.as_ref(), packed, false, limits).await?;
    artifact::store_files(ports, hash, tree.clone()).await?;
    tracing::info!(
        revision = artifact.revision,
        "the packed files of an artifact were made again"
    );
    Ok(tree)
}

#[cfg(test)]
mod tests;
