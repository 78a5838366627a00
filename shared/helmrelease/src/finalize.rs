//! Finalizes a HelmRelease: uninstalls the release, deletes its HelmChart, then lets the finalizer
//! be removed.

use super::attempt::{self, Attempt};
use super::plan::Operation;
use super::storage::Storage;
use super::{Memory, Work, chart, drift_detection, history, report};
use driftless_flux::{HelmRelease, reason};
use driftless_kernel::context::{Context, LONGEST_RETRY, Outcome};
use driftless_kernel::driver::{Report, StepEnd};
use driftless_kernel::failure::{Failure, TargetError};
use driftless_kernel::ports::ErrorKind;
use driftless_kernel::target::{self, Target};

/// Uninstalls the release and deletes its HelmChart. A failure is tried again and the finalizer
/// stays, so that nothing is left behind.
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
        // The step that created the HelmChart may have crashed before the status was written.
        release.status.helm_chart = chart::status_name(&id);
    }
    match clean_up(context, &mut work, memory).await {
        Ok(None) => {
            let mut report = report::unchanged(before, StepEnd::Released);
            report.changed = work.changed;
            report
        }
        Ok(Some(Unfinished::Attempt(end))) => report::end(before, work, end),
        Ok(Some(Unfinished::Step(end))) => report::unchanged(before, end),
        Err(failure) => report::unchanged(before, StepEnd::Failed(failure, LONGEST_RETRY)),
    }
}

/// The state of a finalization that is not finished.
enum Unfinished {
    /// The uninstall failed; the failure goes into the status.
    Attempt(attempt::AttemptEnd),
    /// The step ends without a change of the status.
    Step(StepEnd),
}

async fn clean_up(
    context: &Context<'_>,
    work: &mut Work,
    memory: &mut Memory,
) -> Result<Option<Unfinished>, Failure> {
    // As in Flux, nothing is uninstalled for a suspended object.
    if work.release.spec.suspend {
        return Ok(None);
    }
    if let Some(unfinished) = uninstall(context, work, memory).await? {
        return Ok(Some(unfinished));
    }
    let chart = chart::delete(context, &work.release).await?;
    work.changed.extend(chart);
    Ok(None)
}

/// Connects to the cluster, unless the service account is gone. As in Flux, the account of a remote
/// cluster is not checked.
async fn connect(context: &Context<'_>, release: &HelmRelease) -> Result<Target, TargetError> {
    if release.spec.kube_config.is_none()
        && let Some(error) = target::missing_account(&context.hub, release).await?
    {
        return Err(error);
    }
    target::connect(context, release).await
}

/// Uninstalls the release. Returns the state if that is not finished.
async fn uninstall(
    context: &Context<'_>,
    work: &mut Work,
    memory: &mut Memory,
) -> Result<Option<Unfinished>, Failure> {
    let has_history = history::latest(&work.release.status.history).is_some();
    let target = match connect(context, &work.release).await {
        Ok(target) => target,
        // The status has no release, and the cluster cannot be checked.
        Err(_) if !has_history => return Ok(None),
        Err(TargetError::Gone(failure)) => {
            // The cluster is gone for good, for example because the cluster of a tenant was
            // deleted.
            tracing::warn!(object = %work.release.id, "uninstall skipped: {failure}");
            return Ok(None);
        }
        Err(TargetError::Failed(failure)) => {
            return Ok(Some(Unfinished::Step(StepEnd::Failed(
                failure,
                LONGEST_RETRY,
            ))));
        }
    };
    if !has_history && !find_unrecorded_release(&target, &mut work.release).await? {
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
    let is_uninstalling = running.is_some_and(|running| running.operation == Operation::Uninstall);
    if !is_uninstalling {
        memory.running = None;
    }
    let storage = Storage::read(&target, &status.storage_namespace, &current.name).await?;
    let mut attempt = Attempt::new(context, release.clone(), target, storage, memory);
    if !is_uninstalling && attempt.uninstall().await?.is_some() {
        return Ok(None);
    }
    match attempt.drive().await? {
        attempt::AttemptEnd::Uninstalled => Ok(None),
        attempt::AttemptEnd::Waiting(resources) => {
            let mut outcome = Outcome::done(format!("uninstalling, waiting for: {resources}"));
            outcome.wait(LONGEST_RETRY);
            Ok(Some(Unfinished::Step(StepEnd::Done(outcome))))
        }
        end => {
            attempt.memory.running = None;
            *work = Work {
                release: attempt.release,
                changed: attempt.changed,
            };
            Ok(Some(Unfinished::Attempt(end)))
        }
    }
}

/// Finds the release of an install that crashed before the status was written, and notes it in the
/// status. Returns whether there is one: a release belongs to this HelmRelease if its objects have
/// this HelmRelease's name in their labels.
async fn find_unrecorded_release(
    target: &Target,
    release: &mut HelmRelease,
) -> Result<bool, Failure> {
    let namespace = release.storage_namespace().to_owned();
    let storage = Storage::read(target, &namespace, &release.release_name()).await;
    let storage = match storage {
        Ok(storage) => storage,
        // An identity that may not read records has written none.
        Err(error) if error.kind == ErrorKind::Denied => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let Some(last) = storage.last() else {
        return Ok(false);
    };
    let unreadable = |message| Failure::retry(reason::FAILED, message);
    let objects = drift_detection::desired(last, &|_| Some(false)).map_err(unreadable)?;
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
