//! Objects that Flux's command line can create and driftless does not serve.

use driftless_flux::{
    Bucket, FluxKind, GitRepository, HelmChart, OCIRepository, ObjectRef, Source, SourceSpec,
};
use driftless_kernel::repository;
use driftless_manifest::Object;
use serde_json::Value;

/// Returns the reason why an object would not be served, the same as in its status on a hub; `None`
/// if it would be served.
pub fn unserved(object: &Value) -> Option<String> {
    let object = Object::new(object.clone()).ok()?;
    let id = ObjectRef::of(&object)?;
    let reason = match id.kind {
        FluxKind::GitRepository => read(object, |source: &GitRepository| {
            let place = repository::place(&source.spec.url);
            place.err().map(|error| error.message)
        }),
        FluxKind::OCIRepository => read(object, OCIRepository::unsupported),
        FluxKind::Bucket => read(object, Bucket::unsupported),
        FluxKind::HelmChart => read(object, HelmChart::unsupported),
        _ => None,
    };
    reason.map(|reason| format!("{id}: {reason}"))
}

/// Returns the reason why a source is not served. `None` for a source that cannot be parsed: the
/// API server reports the field.
fn read<S: SourceSpec>(
    object: Object,
    unsupported: impl Fn(&Source<S>) -> Option<String>,
) -> Option<String> {
    unsupported(&Source::from_object(object).ok()?)
}
