//! The end of a HelmRelease: the release is uninstalled, its HelmChart goes, then its finalizer is taken off.

use super::attempt::{self, Attempt};
use super::memory::Operation;
use super::storage::Storage;
use super::{Memory, Work, chart, drift, history, report};
use crate::driver::{Report, StepEnd};
use crate::failure::{Failure, TargetError};
use crate::flux::{HelmRelease, reason};
use crate::kernel::{Context, Outcome};
use crate::ports::ErrorKind;
use crate::target::{self, Target};
use std::time::Duration;

/// How soon an uninstall that is not over is looked at again.
const AGAIN: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(60);

/// Cleans up. What fails is tried again with the finalizer on, so that nothing is lost.
pub async fn finalize(
    context: &Context<'_>,
    release: HelmRelease,
    memory: &mut Memory,
) -> Report<HelmRelease> {
    let before = release.clone();
    let mut work = Work::new(release);
    let release = &mut work.release;
    if release.status.helm_chart.is_empty()
        && let Some(id) = release.chart_object()
    {
        // Who made it may have been cut off before the status said so.
        release.status.helm_chart = chart::noted(&id);
    }
    match clean_up(context, &mut work, memory).await {
        Ok(None) => {
            let mut report = report::unchanged(before, StepEnd::Released);
            report.changed = work.woken;
            report
        }
        Ok(Some(Unfinished::Attempt(end))) => report::end(before, work, end),
        Ok(Some(Unfinished::Step(end))) => report::unchanged(before, end),
        Err(failure) => report::unchanged(before, StepEnd::Failed(failure, RETRY)),
    }
}

/// An end of a HelmRelease that is not over.
enum Unfinished {
    /// The uninstall failed, and the status says so.
    Attempt(attempt::AttemptEnd),
    /// The status is left as it is.
    Step(StepEnd),
}

async fn clean_up(
    context: &Context<'_>,
    work: &mut Work,
    memory: &mut Memory,
) -> Result<Option<Unfinished>, Failure> {
    // A suspended object is only let go, as in Flux.
    if work.release.spec.suspend {
        return Ok(None);
    }
    if let Some(unfinished) = uninstall(context, work, memory).await? {
        return Ok(Some(unfinished));
    }
    let chart = chart::delete(context, &work.release).await?;
    work.woken.extend(chart);
    Ok(None)
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

/// Uninstalls the release; says how far it is when that is not over.
async fn uninstall(
    context: &Context<'_>,
    work: &mut Work,
    memory: &mut Memory,
) -> Result<Option<Unfinished>, Failure> {
    let is_told = history::latest(&work.release.status.history).is_some();
    let target = match connect(context, &work.release).await {
        Ok(target) => target,
        // Nothing says that there is a release, and nobody can look.
        Err(_) if !is_told => return Ok(None),
        Err(TargetError::Gone(failure)) => {
            // The way to the cluster is gone for good, as after the end of a tenant's cluster.
            tracing::warn!(object = %work.release.id, "uninstall skipped: {failure}");
            return Ok(None);
        }
        Err(TargetError::Failed(failure)) => {
            return Ok(Some(Unfinished::Step(StepEnd::Failed(failure, RETRY))));
        }
    };
    if !is_told && !find_untold(&target, &mut work.release).await? {
        return Ok(None);
    }
    let release = &work.release;
    let status = &release.status;
    let Some(current) = history::latest(&status.history) else {
        return Ok(None);
    };
    if status.storage_namespace.is_empty() {
        return Ok(None);
    }
    let running = memory.running.as_ref();
    let goes_on = running.is_some_and(|running| running.operation == Operation::Uninstall);
    if !goes_on {
        memory.running = None;
    }
    let storage = Storage::read(&target, &status.storage_namespace, &current.name).await?;
    let mut attempt = Attempt::new(context, release.clone(), target, storage, memory);
    if !goes_on && attempt.uninstall().await?.is_some() {
        return Ok(None);
    }
    match attempt.drive().await? {
        attempt::AttemptEnd::Uninstalled => Ok(None),
        attempt::AttemptEnd::Waiting(what) => {
            let outcome = Outcome {
                requeue_after: Some(AGAIN),
                ..Outcome::done(format!("uninstalling, waiting for: {what}"))
            };
            Ok(Some(Unfinished::Step(StepEnd::Done(outcome))))
        }
        end => {
            attempt.memory.running = None;
            *work = Work {
                release: attempt.release,
                woken: attempt.woken,
            };
            Ok(Some(Unfinished::Attempt(end)))
        }
    }
}

/// Notes in the status the release that an install has left whose writer was cut off before the status was written; whether
/// there is one. It was made for this object when its objects carry this object's name.
async fn find_untold(target: &Target, release: &mut HelmRelease) -> Result<bool, Failure> {
    let namespace = release.storage_namespace().to_owned();
    let storage = Storage::read(target, &namespace, &release.release_name()).await;
    let storage = match storage {
        Ok(storage) => storage,
        // Whoever may not read records has written none.
        Err(error) if error.kind == ErrorKind::Denied => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let Some(last) = storage.last() else {
        return Ok(false);
    };
    let unreadable = |what| Failure::retry(reason::FAILED, what);
    let objects = drift::desired(last, &|_| Some(false)).map_err(unreadable)?;
    if !objects
        .iter()
        .any(|object| chart::is_made_for(object, release))
    {
        return Ok(false);
    }
    release.status.history = vec![history::snapshot(last, None, "").map_err(unreadable)?];
    release.status.storage_namespace = namespace;
    Ok(true)
}
