//! The variables that a Kustomization needs and that have no value: for commands that check a fleet
//! without its cluster.

use super::{artifact_failure, find_artifact, inputs, remote};
use driftless_flux::Kustomization;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_source::artifact;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the variables that the build of a Kustomization names and that have no value and no
/// default.
///
/// # Errors
/// The artifact or an object that `postBuild` names is missing, or the build fails.
pub async fn unset(
    context: &Context<'_>,
    owner: &Kustomization,
) -> Result<BTreeSet<String>, Failure> {
    let (source, files) = find_artifact(context, owner).await?;
    let inputs = inputs::read(context, owner).await?;
    let tree = artifact::load_of(context, &source, &files).await;
    let tree = tree.map_err(artifact_failure)?;
    remote::unset(context, tree, owner, Arc::new(inputs)).await
}
