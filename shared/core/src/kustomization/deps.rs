//! Checks `dependsOn` of a Kustomization.

use driftless_flux::{ArtifactStatus, Kustomization};
use driftless_kernel::context::Context;
use driftless_kernel::dependencies;
use driftless_kernel::failure::Failure;
use driftless_manifest::Object;

/// Checks the dependencies of a Kustomization.
///
/// # Errors
/// `DependencyNotReady` (waiting: the dependency requeues this object), an invalid expression, or
/// an error of the cluster or the bucket.
pub async fn check(
    context: &Context<'_>,
    owner: &Kustomization,
    artifact: &ArtifactStatus,
) -> Result<(), Failure> {
    let dependencies = owner.dependencies();
    dependencies::check(context, &owner.object, dependencies, &|dependency| {
        is_behind(owner, dependency, artifact)
    })
    .await
}

/// Checks whether a dependency with the same source has not yet applied the revision that this
/// Kustomization is about to apply.
fn is_behind(owner: &Kustomization, dependency: &Object, artifact: &ArtifactStatus) -> bool {
    let Ok(dependency) = Kustomization::from_object(dependency.clone()) else {
        return false;
    };
    match (owner.source(), dependency.source()) {
        (Ok(ours), Ok(theirs)) if ours == theirs => {
            dependency.status.last_applied_revision != artifact.revision
        }
        _ => false,
    }
}
