//! What Flux's command line can make and driftless does not serve.

use driftless_core::flux::{
    Bucket, FluxKind, GitRepository, HelmChart, OCIRepository, ObjectRef, Source, SourceSpec,
};
use driftless_core::repository;
use driftless_manifest::Object;
use serde_json::Value;

/// Why an object would not be served, as its status on a hub would say; `None` where it would be.
pub fn refused(object: &Value) -> Option<String> {
    let object = Object::new(object.clone()).ok()?;
    let id = ObjectRef::of(&object)?;
    let why = match id.kind {
        FluxKind::Receiver | FluxKind::Provider | FluxKind::Alert => Some(
            "the kind is not supported by this version of driftless: nothing is done for such an object"
                .to_owned(),
        ),
        FluxKind::GitRepository => read(object, |source: &GitRepository| {
            let url = &source.spec.url;
            let place = repository::place(url).err().map(|error| error.message);
            place.or_else(|| source.unsupported(repository::is_github(url)))
        }),
        FluxKind::OCIRepository => read(object, OCIRepository::unsupported),
        FluxKind::Bucket => read(object, Bucket::unsupported),
        FluxKind::HelmChart => read(object, HelmChart::unsupported),
        _ => None,
    };
    why.map(|why| format!("{id}: {why}"))
}

/// What is not served of a source. One that cannot be read is left to the API server, which names the field.
fn read<S: SourceSpec>(
    object: Object,
    refused: impl Fn(&Source<S>) -> Option<String>,
) -> Option<String> {
    refused(&Source::from_object(object).ok()?)
}
