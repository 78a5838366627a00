//! The objects that follow a source.

use crate::failure::Failure;
use crate::flux::{FluxKind, HelmChart, HelmRelease, Kustomization, ObjectRef};
use crate::kernel::Context;
use crate::ports::{Cause, Request};
use driftless_manifest::Object;
use std::time::Duration;

/// Returns a request for each object of the hub that follows the source of this step, with one LIST
/// for each possible kind.
///
/// # Errors
/// The cluster's.
pub async fn of(context: &Context<'_>) -> Result<Vec<(Request, Duration)>, Failure> {
    let mut next = Vec::new();
    for kind in followers(context.id.kind) {
        for object in context.hub.list(*kind).await? {
            if let Some(id) = ObjectRef::of(&object)
                && source_of(object).as_ref() == Some(&context.id)
            {
                next.push(context.request(id, Cause::Source));
            }
        }
    }
    Ok(next)
}

/// Returns the kinds that may name a source of this kind.
fn followers(kind: FluxKind) -> &'static [FluxKind] {
    use FluxKind::{HelmChart, HelmRelease, Kustomization};
    match kind {
        FluxKind::GitRepository | FluxKind::Bucket => &[Kustomization, HelmChart],
        FluxKind::OCIRepository | FluxKind::ExternalArtifact => &[Kustomization, HelmRelease],
        FluxKind::HelmRepository => &[HelmChart],
        FluxKind::HelmChart => &[HelmRelease],
        _ => &[],
    }
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
