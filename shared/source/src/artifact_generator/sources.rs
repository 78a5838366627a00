//! The sources of a generator: their artifacts, and the files of those that it reads.

use crate::files;
use crate::generated::Source;
use crate::lookup::artifact_of;
use driftless_flux::{ArtifactGenerator, ArtifactStatus, ObjectRef, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::ports::FetchLimits;
use driftless_kernel::schedule;
use std::collections::{BTreeMap, BTreeSet};

/// A source with its artifact.
pub(super) struct Observed {
    /// The name of the source in the spec.
    pub alias: String,
    /// The reference of the source.
    pub id: ObjectRef,
    /// The artifact that the source has now.
    pub artifact: ArtifactStatus,
}

/// Reads the artifacts of all sources.
///
/// # Errors
/// `SourceFetchFailed`: a source does not exist or has no artifact. The generator is queued when it
/// has one.
pub(super) async fn observe(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
) -> Result<Vec<Observed>, Failure> {
    let sources = generator.sources().unwrap_or_default();
    let mut observed = Vec::with_capacity(sources.len());
    for (alias, id) in sources {
        let found = match find(context, &id).await {
            Err(failure) if failure.class == Class::Waiting => {
                schedule::register(context, &id).await?;
                // The step of the source may have ended before this generator was registered.
                find(context, &id).await
            }
            found => found,
        };
        let artifact = found.map_err(|failure| failure.context("get sources failed"))?;
        observed.push(Observed {
            alias: alias.to_owned(),
            id,
            artifact,
        });
    }
    Ok(observed)
}

async fn find(context: &Context<'_>, id: &ObjectRef) -> Result<ArtifactStatus, Failure> {
    let reason = reason::SOURCE_FETCH_FAILED;
    let object = context.hub.get(id).await;
    let object = object.map_err(|error| {
        let place = format!("unable to get source '{}/{}'", id.namespace, id.name);
        Failure::port(reason, &error).context(place)
    })?;
    let object = object.ok_or_else(|| Failure::waiting(reason, id.not_cached()))?;
    artifact_of(&object)
        .filter(|artifact| !artifact.digest.is_empty())
        .ok_or_else(|| Failure::waiting(reason, format!("source '{id}' is not ready")))
}

/// Reads the files of the sources that the spec names in a path.
///
/// # Errors
/// `SourceFetchFailed`: an artifact cannot be read, or the sources are too large.
pub(super) async fn load(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    observed: &[Observed],
) -> Result<BTreeMap<String, Source>, Failure> {
    let used = used(generator);
    let limits = FetchLimits::default();
    let (mut files, mut bytes, mut count) = (BTreeMap::new(), 0u64, 0usize);
    for one in observed.iter().filter(|one| used.contains(&*one.alias)) {
        let tree = files::load_of(context, &one.id, &one.artifact).await;
        let tree = tree.map_err(|error| {
            let place = format!("fetch sources failed: {}", one.id);
            Failure::port(reason::SOURCE_FETCH_FAILED, &error).context(place)
        })?;
        let sizes = tree.index().iter().map(|(_, entry)| entry.size);
        bytes = bytes.saturating_add(sizes.sum());
        count = count.saturating_add(tree.index().len());
        if bytes > limits.bytes || count > limits.files {
            let (bytes, files) = (limits.bytes >> 20, limits.files);
            let message = format!(
                "fetch sources failed: the sources together have more than {bytes} MiB or {files} files, which is the limit: use several generators"
            );
            return Err(Failure::retry(reason::SOURCE_FETCH_FAILED, message));
        }
        files.insert(one.alias.clone(), Source::new(tree));
    }
    Ok(files)
}

/// Returns the aliases in the paths of a spec.
fn used(generator: &ArtifactGenerator) -> BTreeSet<&str> {
    let spec = &generator.spec;
    let artifacts = spec.artifacts.iter().flat_map(|artifact| {
        let copies = artifact.copy.iter().map(|operation| &*operation.from);
        copies.chain(artifact.inputs_from.as_deref())
    });
    let paths = artifacts.chain(spec.path_pattern.as_deref());
    paths
        .filter_map(|path| path.get(1..path.find('/')?))
        .collect()
}
