//! Lists the objects that an uninstall of a release would delete.

use super::phase::PhaseError;
use super::storage::Storage;
use super::{history, objects};
use driftless_flux::{HelmRelease, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::{Failure, TargetError};
use driftless_kernel::target;
use driftless_manifest::Object;

/// Returns the objects that an uninstall would delete, by the records of the release.
///
/// # Errors
/// The cluster's, or a manifest that cannot be parsed.
pub async fn objects_to_uninstall(
    context: &Context<'_>,
    release: &HelmRelease,
) -> Result<Vec<Object>, Failure> {
    let status = &release.status;
    let Some(current) = history::latest(&status.history) else {
        return Ok(Vec::new());
    };
    if status.storage_namespace.is_empty() {
        return Ok(Vec::new());
    }
    let target = match target::connect(context, release).await {
        Ok(target) => target,
        // Nothing is uninstalled from a cluster that is gone.
        Err(TargetError::Gone(_)) => return Ok(Vec::new()),
        Err(TargetError::Failed(failure)) => return Err(failure),
    };
    let storage = Storage::read(&target, &status.storage_namespace, &current.name).await?;
    match objects::possible_items(&target, &storage).await {
        Ok(items) => Ok(items.into_iter().map(|item| item.object).collect()),
        Err(PhaseError::Failed(message)) => Err(Failure::retry(reason::FAILED, message)),
        Err(PhaseError::Transient(failure)) => Err(failure),
    }
}
