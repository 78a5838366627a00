//! The checks of a generator that need no files.

use super::made::generator_of;
use crate::generated::path_pattern;
use driftless_flux::{ArtifactGenerator, FluxKind, ObjectRef, OutputArtifact, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use std::collections::BTreeSet;

/// The most generators that are read to find whether one uses its own artifacts.
const MAX_GENERATORS: usize = 32;

/// Checks the spec.
///
/// # Errors
/// Flux's reasons and messages, `NotSupported`, or `AccessDenied` for an artifact of another
/// namespace without a service account.
pub(super) fn check(context: &Context<'_>, generator: &ArtifactGenerator) -> Result<(), Failure> {
    let settings = &context.hub.settings;
    let invalid = |message: String| Failure::terminal(reason::VALIDATION_FAILED, message);
    if generator.spec.managed_namespaces.is_some() {
        let message = "spec.managedNamespaces is not supported: remove the field, and create the namespaces with a Kustomization";
        return Err(Failure::terminal(reason::UNSUPPORTED, message));
    }
    let sources = generator.sources().map_err(|error| {
        Failure::terminal(
            reason::SOURCE_FETCH_FAILED,
            format!("get sources failed: {error}"),
        )
    })?;
    let mut aliases = BTreeSet::new();
    for (alias, source) in &sources {
        if !aliases.insert(*alias) {
            return Err(invalid(format!("duplicate source alias '{alias}' found")));
        }
        if settings.no_cross_namespace_refs && source.namespace != generator.id.namespace {
            let message = format!("cross-namespace reference to source {source} is not allowed");
            return Err(Failure::terminal(reason::ACCESS_DENIED, message));
        }
    }
    let mut seen = BTreeSet::new();
    for artifact in &generator.spec.artifacts {
        let OutputArtifact {
            name, namespace, ..
        } = artifact;
        let id = generator.artifact(name, namespace.as_deref());
        if !seen.insert(id.clone()) {
            return Err(invalid(format!("duplicate artifact name '{name}' found")));
        }
        let revision = artifact.revision.as_deref().unwrap_or_default();
        let alias = revision.strip_prefix('@').unwrap_or(revision);
        if !alias.is_empty() && !aliases.contains(alias) {
            return Err(invalid(format!(
                "artifact {name} revision source alias '{alias}' not found"
            )));
        }
        if let Some((alias, _)) = sources.iter().find(|(_, source)| *source == id) {
            return Err(invalid(format!(
                "source '{alias}' is the artifact '{name}' of this generator: remove one of the two"
            )));
        }
    }
    if let Some(pattern) = &generator.spec.path_pattern {
        let alias = path_pattern::alias(pattern).map_err(|error| invalid(error.to_string()))?;
        if !aliases.contains(alias) {
            return Err(invalid(format!(
                "pathPattern {pattern:?}: source alias {alias} not found in local sources"
            )));
        }
    }
    Ok(())
}

/// Checks that no source is made from an artifact of this generator: each new artifact would make
/// another one, forever.
///
/// # Errors
/// The cluster's; `ValidationFailed` for a cycle, or for too many generators.
pub(super) async fn check_cycle(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
) -> Result<(), Failure> {
    let invalid = |message: String| Failure::terminal(reason::VALIDATION_FAILED, message);
    let external = |generator: &ArtifactGenerator| {
        let sources = generator.sources().unwrap_or_default().into_iter();
        let is_external = |id: &ObjectRef| id.kind == FluxKind::ExternalArtifact;
        sources
            .map(|(_, id)| id)
            .filter(is_external)
            .collect::<Vec<_>>()
    };
    let mut open = external(generator);
    let mut seen = BTreeSet::new();
    while let Some(artifact) = open.pop() {
        let object = context.hub.get(&artifact).await?;
        let Some(next) = object.as_ref().and_then(generator_of) else {
            continue;
        };
        if next == generator.id {
            return Err(invalid(format!(
                "the sources contain {artifact}, which is made from an artifact of this generator: remove one of the two"
            )));
        }
        if !seen.insert(next.clone()) {
            continue;
        }
        if seen.len() > MAX_GENERATORS {
            return Err(invalid(format!(
                "the sources are made by more than {MAX_GENERATORS} other generators, which is the limit"
            )));
        }
        let object = context.hub.get(&next).await?;
        let next = object.and_then(|object| ArtifactGenerator::from_object(object).ok());
        open.extend(next.as_ref().map(external).unwrap_or_default());
    }
    Ok(())
}
