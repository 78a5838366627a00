//! The objects that follow a source.

use crate::include;
use driftless_flux::{
    ArtifactGenerator, FluxKind, GitRepository, HelmChart, HelmRelease, Kustomization, ObjectRef,
};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Cause, Request};
use driftless_manifest::Object;
use std::time::Duration;

/// Returns a request for each object of the hub that follows the source of this step, with one LIST
/// for each possible kind.
///
/// # Errors
/// The cluster's.
pub async fn of(context: &Context<'_>) -> Result<Vec<(Request, Duration)>, Failure> {
    of_sources(context, std::slice::from_ref(&context.id)).await
}

/// Returns a request for each object of the hub that follows one of these sources, which are of one
/// kind, with one LIST for each possible kind.
///
/// # Errors
/// The cluster's.
pub async fn of_sources(
    context: &Context<'_>,
    sources: &[ObjectRef],
) -> Result<Vec<(Request, Duration)>, Failure> {
    let mut next = Vec::new();
    let Some(first) = sources.first() else {
        return Ok(next);
    };
    for kind in first.kind.followers() {
        for object in context.hub.list(*kind).await? {
            if let Some(id) = ObjectRef::of(&object)
                && sources_of(object).iter().any(|one| sources.contains(one))
            {
                next.push(context.request(id, Cause::Source));
            }
        }
    }
    Ok(next)
}

/// Returns the sources that an object follows: its own, those of an ArtifactGenerator, or those
/// that a GitRepository includes.
pub fn sources_of(object: Object) -> Vec<ObjectRef> {
    if FluxKind::of(&object.gvk()) == Some(FluxKind::ArtifactGenerator) {
        let generator = ArtifactGenerator::from_object(object).ok();
        let sources = generator.as_ref().and_then(|one| one.sources().ok());
        let sources = sources.unwrap_or_default().into_iter();
        return sources.map(|(_, id)| id).collect();
    }
    if FluxKind::of(&object.gvk()) == Some(FluxKind::GitRepository) {
        let source = GitRepository::from_object(object).ok();
        return source
            .as_ref()
            .map(include::repositories)
            .unwrap_or_default();
    }
    source_of(object).into_iter().collect()
}

/// Returns the source that an object follows; nothing if it names no source or is not valid, which
/// its own step reports.
pub fn source_of(object: Object) -> Option<ObjectRef> {
    match FluxKind::of(&object.gvk())? {
        FluxKind::Kustomization => Kustomization::from_object(object).ok()?.source().ok(),
        FluxKind::HelmChart => HelmChart::from_object(object).ok()?.source().ok(),
        FluxKind::HelmRelease => HelmRelease::from_object(object).ok()?.chart_source().ok(),
        _ => None,
    }
}
