//! The source that another object of the hub names.

use driftless_flux::{ArtifactStatus, ObjectRef, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_manifest::Object;
use serde_json::Value;

/// Returns the artifact in the status of a source.
pub fn artifact_of(object: &Object) -> Option<ArtifactStatus> {
    let artifact: &Value = object.pointer("/status/artifact")?;
    serde_json::from_value(artifact.clone()).ok()
}

/// Reads the source that another object names.
///
/// # Errors
/// The cluster's.
pub async fn find(context: &Context<'_>, source: &ObjectRef) -> Result<Option<Object>, Failure> {
    context
        .hub
        .get(source)
        .await
        .map_err(|error| Failure::port(reason::ARTIFACT_FAILED, &error))
}
