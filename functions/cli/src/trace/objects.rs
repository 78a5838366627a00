//! Names, resources and errors of traced objects.

use crate::error::Error;
use crate::hub;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Resource;
use driftless_manifest::{Gvk, Object};

/// Returns `Kind/namespace/name`, the name of an object in errors.
pub fn name_of(object: &Object) -> String {
    match object.namespace() {
        "" => format!("{}/{}", object.kind(), object.name()),
        namespace => format!("{}/{namespace}/{}", object.kind(), object.name()),
    }
}

/// Returns the error of an object that no Flux object has applied.
pub fn unmanaged(object: &Object) -> Error {
    let next = "the labels kustomize.toolkit.fluxcd.io/name and helm.toolkit.fluxcd.io/name name the Flux object; trace the \
                owner of the object, or see driftless tree kustomization NAME";
    Error::new(format!("{}: object not managed by Flux", name_of(object))).next(next)
}

/// Returns the resource of a kind.
///
/// # Errors
/// The hub does not serve the kind.
pub async fn resource(hub: &Hub, gvk: &Gvk) -> Result<Resource, Error> {
    hub::resource(hub.cluster.as_ref(), gvk).await
}
