//! The artifacts of a generator: they are built from the files of the sources, and stored.

use super::sources::Observed;
use crate::artifact;
use crate::generated::path_pattern::{self, Expanded};
use crate::generated::{self, Budget, Source};
use driftless_flux::{
    ARTIFACT_ALIAS, ArtifactGenerator, ArtifactStatus, GeneratedEntry, Invalid, ORIGIN_REVISION,
    ObjectRef, OutputArtifact, reason,
};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::compute;
use driftless_manifest::{FileTree, names};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most bytes of a file for `status.exportedInputs`.
const MAX_INPUTS_BYTES: usize = 1 << 20;

/// An artifact that is stored, with the object for it.
pub(super) struct Output {
    /// The reference of the ExternalArtifact.
    pub id: ObjectRef,
    /// The stored artifact.
    pub artifact: ArtifactStatus,
    /// The labels of the object, from the captures of the path pattern.
    pub labels: BTreeMap<String, String>,
    /// The values that the object exports.
    pub inputs: Option<Map<String, Value>>,
}

impl Output {
    /// Returns the entry of the inventory.
    pub fn entry(&self) -> GeneratedEntry {
        let ArtifactStatus { path, digest, .. } = &self.artifact;
        GeneratedEntry {
            kind: self.id.kind.as_str().to_owned(),
            name: self.id.name.clone(),
            namespace: self.id.namespace.clone(),
            digest: digest.clone(),
            filename: path.rsplit('/').next().unwrap_or_default().to_owned(),
        }
    }
}

/// Builds and stores the artifacts of a generator.
///
/// # Errors
/// `BuildFailed`, `ValidationFailed` for a path pattern, or the bucket's.
pub(super) async fn make(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    observed: &[Observed],
    files: BTreeMap<String, Source>,
) -> Result<Vec<Output>, Failure> {
    let wanted = expand(generator, &files)
        .map_err(|error| Failure::terminal(reason::VALIDATION_FAILED, &error).caused_by(error))?;
    let sizes = observed.iter().filter_map(|one| one.artifact.size);
    let memory = sizes.sum::<u64>();
    let (files, mut budget) = (Arc::new(files), Budget::of_step(&context.fuel));
    let mut outputs: Vec<Output> = Vec::with_capacity(wanted.len());
    for Expanded { artifact, labels } in wanted {
        let id = generator.artifact(&artifact.name, artifact.namespace.as_deref());
        check_use(observed, &id)?;
        let name = artifact.name.clone();
        let failed = |error: Invalid| {
            let message = format!("{name} build failed: {error}");
            Failure::retry(reason::BUILD_FAILED, message)
        };
        let (sources, operations) = (files.clone(), artifact.copy.clone());
        let build = move || {
            let built = generated::build(&operations, &sources, &mut budget);
            (built, budget)
        };
        let (built, left) = compute(context.ports.compute.as_ref(), memory, build).await?;
        budget = left;
        let tree = built.map_err(failed)?;
        let inputs = inputs(&artifact, &files, &tree).map_err(failed)?;
        let stored = artifact::store(context.ports, tree, "").await;
        let mut stored =
            stored.map_err(|error| failed(format!("failed to create artifact: {error}").into()))?;
        set_revisions(&mut stored, &artifact, observed);
        outputs.push(Output {
            id,
            artifact: stored,
            labels,
            inputs,
        });
    }
    Ok(outputs)
}

/// Returns the artifacts of the spec, or those of its path pattern.
fn expand(
    generator: &ArtifactGenerator,
    files: &BTreeMap<String, Source>,
) -> Result<Vec<Expanded>, Invalid> {
    let artifacts = &generator.spec.artifacts;
    let Some(pattern) = generator.spec.path_pattern.as_deref() else {
        let plain = artifacts.iter().map(|artifact| Expanded {
            artifact: artifact.clone(),
            labels: BTreeMap::new(),
        });
        return Ok(plain.collect());
    };
    let alias = path_pattern::alias(pattern)?;
    let source = files.get(alias);
    let source = source.ok_or_else(|| {
        format!("pathPattern {pattern:?}: source alias {alias} not found in local sources")
    })?;
    path_pattern::expand(pattern, source, artifacts)
}

/// Checks that an artifact is not a source of its generator, and has a valid name.
fn check_use(observed: &[Observed], id: &ObjectRef) -> Result<(), Failure> {
    let name = &id.name;
    if let Some(one) = observed.iter().find(|one| one.id == *id) {
        let alias = &one.alias;
        let message = format!(
            "source '{alias}' is the artifact '{name}' of this generator: remove one of the two"
        );
        return Err(Failure::terminal(reason::VALIDATION_FAILED, message));
    }
    let problems = [names::subdomain(name), names::label(&id.namespace)].concat();
    if !problems.is_empty() {
        let (name, namespace) = (name.escape_debug(), id.namespace.escape_debug());
        let message = format!(
            "artifact '{name}' of namespace '{namespace}': expected valid names of Kubernetes objects"
        );
        return Err(Failure::terminal(reason::VALIDATION_FAILED, message));
    }
    Ok(())
}

/// Sets the revision of an artifact, and that of its origin.
fn set_revisions(stored: &mut ArtifactStatus, artifact: &OutputArtifact, observed: &[Observed]) {
    let source = |field: &Option<String>| {
        let alias = field.as_deref()?.trim_start_matches('@');
        let found = observed.iter().find(|one| one.alias == alias);
        found.map(|one| &one.artifact)
    };
    stored.revision = match source(&artifact.revision) {
        Some(source) => source.revision.clone(),
        None => format!("latest@{}", stored.digest),
    };
    if let Some(source) = source(&artifact.origin_revision) {
        let origin = source.metadata.get(ORIGIN_REVISION);
        let origin = origin.filter(|origin| !origin.is_empty());
        let origin = origin.unwrap_or(&source.revision).clone();
        stored.metadata.insert(ORIGIN_REVISION.to_owned(), origin);
    }
}

/// Returns the values of the file of `inputsFrom`; `None` if it is not set or has none.
fn inputs(
    artifact: &OutputArtifact,
    files: &BTreeMap<String, Source>,
    tree: &FileTree,
) -> Result<Option<Map<String, Value>>, Invalid> {
    let Some(from) = artifact.inputs_from.as_deref() else {
        return Ok(None);
    };
    let parts = from.strip_prefix('@').and_then(|rest| rest.split_once('/'));
    let (alias, path) =
        parts.ok_or("invalid inputsFrom path: path format must be '@alias/path'".to_owned())?;
    let is_climbing = path.split('/').any(|part| part == "..");
    if path.is_empty() || path.starts_with('/') || is_climbing {
        return Err(format!(
            "invalid inputsFrom path: path {path:?} must stay within the source root"
        )
        .into());
    }
    let built;
    let source = match alias {
        ARTIFACT_ALIAS => {
            built = Source::new(Arc::new(tree.clone()));
            &built
        }
        alias => files.get(alias).ok_or_else(|| {
            Invalid::from(format!(
                "invalid inputsFrom path: source alias {alias:?} not found"
            ))
        })?,
    };
    let content = source.content(path);
    let content = content.ok_or_else(|| {
        Invalid::from(format!(
            "failed to read inputs file {from:?}: it does not exist"
        ))
    })?;
    if content.len() > MAX_INPUTS_BYTES {
        return Err(format!(
            "failed to read inputs file {from:?}: file exceeds the maximum size of {MAX_INPUTS_BYTES} bytes"
        ).into());
    }
    let values = generated::load_yaml(path, content)
        .map_err(|error| Invalid::from(format!("failed to parse inputs file {from:?}: {error}")))?;
    Ok((!values.is_empty()).then_some(values))
}
