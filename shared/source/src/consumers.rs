//! The objects that follow a source.

use crate::include;
use crate::touched::ChangedPaths;
use driftless_flux::{
    ArtifactGenerator, ArtifactStatus, FluxKind, GitRepository, HelmChart, HelmRelease,
    Kustomization, ObjectRef,
};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Cause, Request};
use driftless_manifest::Object;
use std::time::Duration;

/// The least Kustomizations of one request: fewer are read one by one, and not listed.
const MIN_CONSUMERS: usize = 4;
/// The most Kustomizations of one request.
const MAX_CONSUMERS: usize = 100;

/// Returns a request for each object of the hub that follows the source of this step, with one LIST
/// for each possible kind.
///
/// # Errors
/// The cluster's.
pub async fn of(context: &Context<'_>) -> Result<Vec<(Request, Duration)>, Failure> {
    of_sources(context, std::slice::from_ref(&context.id)).await
}

/// Returns the requests for the objects of the hub that follow the source of this step, which has
/// another artifact now: first those that the difference touches, then one request for up to a
/// hundred Kustomizations whose revision alone is likely to move.
///
/// # Errors
/// The cluster's.
pub(crate) async fn of_change(
    context: &Context<'_>,
    before: &ArtifactStatus,
    now: &ArtifactStatus,
) -> Result<Vec<(Request, Duration)>, Failure> {
    let Some(changed) = ChangedPaths::between(context, before, now).await else {
        return of(context).await;
    };
    // Those that depend on others come last, so that they need not wait.
    let (mut next, mut left, mut dependents) = (Vec::new(), Vec::new(), Vec::new());
    for (id, object) in following(context, std::slice::from_ref(&context.id)).await? {
        let kustomization = match id.kind {
            FluxKind::Kustomization => Kustomization::from_object(object).ok(),
            _ => None,
        };
        match kustomization.filter(|object| changed.leaves(context, object)) {
            Some(object) if object.spec.depends_on.is_empty() => left.push(id),
            Some(_) => dependents.push(id),
            None => next.push(context.request(id, Cause::Source)),
        }
    }
    left.append(&mut dependents);
    for consumers in left.chunks(MAX_CONSUMERS) {
        if consumers.len() < MIN_CONSUMERS {
            let each = consumers.iter().cloned();
            next.extend(each.map(|id| context.request(id, Cause::Source)));
            continue;
        }
        let (mut request, delay) = context.request(context.id.clone(), Cause::Source);
        request.consumers = consumers.to_vec();
        next.push((request, delay));
    }
    Ok(next)
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
    let found = following(context, sources).await?.into_iter();
    let requests = found.map(|(id, _)| context.request(id, Cause::Source));
    Ok(requests.collect())
}

/// Returns the objects of the hub that follow one of these sources.
async fn following(
    context: &Context<'_>,
    sources: &[ObjectRef],
) -> Result<Vec<(ObjectRef, Object)>, Failure> {
    let mut found = Vec::new();
    let Some(first) = sources.first() else {
        return Ok(found);
    };
    for kind in first.kind.followers() {
        for object in context.hub.list(*kind).await? {
            if let Some(id) = ObjectRef::of(&object)
                && sources_of(object.clone())
                    .iter()
                    .any(|one| sources.contains(one))
            {
                found.push((id, object));
            }
        }
    }
    Ok(found)
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
