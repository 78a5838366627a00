//! The variables that a Kustomization needs and that have no value: for commands that check a fleet
//! without its cluster.

use super::{find_artifact, inputs, remote};
use driftless_flux::Kustomization;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
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
    let found = find_artifact(context, owner).await?;
    let inputs = inputs::read(context, owner).await?;
    let files = found.open(context).await?;
    remote::unset(context, files, owner, Arc::new(inputs)).await
}
