//! Who takes files from a source.

use crate::failure::Failure;
use crate::flux::{FluxKind, HelmChart, HelmRelease, Kustomization, ObjectRef};
use crate::kernel::Context;
use crate::ports::{Cause, Request};
use driftless_manifest::Object;
use std::time::Duration;

/// A request for each object of the hub that follows the source of this step; a LIST a kind that may.
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

/// The kinds that may name a source of this kind.
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

/// The source that an object follows; none when it names none, or cannot be read: its own step says why.
pub fn source_of(object: Object) -> Option<ObjectRef> {
    match FluxKind::of(&object.gvk())? {
        FluxKind::Kustomization => Kustomization::from_object(object).ok()?.source().ok(),
        FluxKind::HelmChart => HelmChart::from_object(object).ok()?.source().ok(),
        FluxKind::HelmRelease => HelmRelease::from_object(object).ok()?.chart_source().ok(),
        _ => None,
    }
}
