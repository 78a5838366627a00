//! The end of a HelmRelease: the release is uninstalled, its HelmChart goes, then its finalizer is taken off.

use super::attempt::{Attempt, End};
use super::memory::{self, Doing, Memory};
use super::report::Report;
use super::storage::Storage;
use super::{Work, chart, history};
use crate::failure::{Failure, TargetError};
use crate::flux::{HELM_CONTROLLER, HelmRelease};
use crate::kernel::{Context, Outcome};
use crate::ports::Cause;
use crate::state;
use crate::target::{self, Target};
use std::time::Duration;

/// How soon an uninstall that is not over is looked at again.
const AGAIN: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(60);

/// Runs the end.
///
/// # Errors
/// The cluster's; the finalizer stays, so that nothing is lost.
pub async fn finalize(context: &Context<'_>, release: HelmRelease) -> Result<Outcome, Failure> {
    let mut chart = None;
    // A suspended object is only let go, as in Flux.
    if !release.spec.suspend {
        if let Some(outcome) = uninstall(context, &release).await? {
            return Ok(outcome);
        }
        chart = chart::delete(context, &release).await?;
    }
    let key = memory::key(&context.hub.settings.name, &release.id);
    context.ports.blobs.delete(&key).await?;
    context
        .remove_finalizer(&release.object, HELM_CONTROLLER)
        .await?;
    let mut outcome = Outcome::gone("deleted");
    let look = |id| context.request(id, Cause::Changed);
    outcome.enqueue.extend(chart.map(look));
    Ok(outcome)
}

/// Connects as an account that is still there. As in Flux, the account of another cluster is not looked for.
async fn connect(context: &Context<'_>, release: &HelmRelease) -> Result<Target, TargetError> {
    if release.spec.kube_config.is_none()
        && let Some(gone) = target::missing_account(&context.hub, release).await?
    {
        return Err(gone);
    }
    target::connect(context, release).await
}

/// Uninstalls the release; the outcome of the step when that is not over.
async fn uninstall(
    context: &Context<'_>,
    release: &HelmRelease,
) -> Result<Option<Outcome>, Failure> {
    let status = &release.status;
    let Some(current) = history::latest(&status.history) else {
        return Ok(None);
    };
    if status.storage_namespace.is_empty() {
        return Ok(None);
    }
    let target = match connect(context, release).await {
        Ok(target) => target,
        Err(TargetError::Gone(failure)) => {
            // The way to the cluster is gone for good, as after the end of a tenant's cluster.
            tracing::warn!(object = %release.id, "uninstall skipped: {failure}");
            return Ok(None);
        }
        Err(TargetError::Failed(failure)) => return Ok(Some(Outcome::failed(failure, 0, RETRY))),
    };
    let blobs = context.ports.blobs.as_ref();
    let key = memory::key(&context.hub.settings.name, &release.id);
    let (mut memory, version) = state::load::<Memory>(blobs, &key).await?;
    let before = memory.clone();
    let is_uninstall = |doing: &Doing| *doing == Doing::Uninstall;
    let running = memory.running.as_ref();
    let goes_on = running.is_some_and(|running| is_uninstall(&running.doing));
    if !goes_on {
        memory.running = None;
    }
    let storage = Storage::read(&target, &status.storage_namespace, &current.name).await?;
    let mut attempt = Attempt::new(context, release.clone(), target, storage);
    attempt.memory = memory;
    attempt.stored = (before, version);
    if !goes_on && attempt.uninstall().await?.is_some() {
        return Ok(None);
    }
    let report = Report::new(release);
    match attempt.drive().await? {
        End::Uninstalled => Ok(None),
        End::Waiting(what) => {
            attempt.remember().await?;
            Ok(Some(Outcome {
                requeue_after: Some(AGAIN),
                ..Outcome::done(format!("uninstalling, waiting for: {what}"))
            }))
        }
        end => {
            attempt.memory.running = None;
            attempt.remember().await?;
            let work = Work::after(attempt);
            report.end(context, work, end).await.map(Some)
        }
    }
}
