//! The end of a HelmRelease: the release is uninstalled, its HelmChart goes, then its finalizer is taken off.

use super::attempt::{Attempt, End};
use super::chart::{ORIGIN_NAME, ORIGIN_NAMESPACE};
use super::memory::{self, Doing, Memory};
use super::report::Report;
use super::storage::Storage;
use super::{Work, chart, drift, history};
use crate::failure::Failure;
use crate::flux::{HELM_CONTROLLER, HelmRelease, reason};
use crate::ports::{Cause, ErrorKind};
use crate::state;
use crate::step::{Context, Outcome};
use crate::target::{self, NoTarget, Target};
use driftless_manifest::Object;
use std::time::Duration;

/// How soon an uninstall that is not over is looked at again.
const AGAIN: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(60);

/// Runs the end.
///
/// # Errors
/// The cluster's; the finalizer stays, so that nothing is lost.
pub async fn finalize(context: &Context<'_>, mut release: HelmRelease) -> Result<Outcome, Failure> {
    let mut chart = None;
    if release.status.helm_chart.is_empty()
        && let Some(id) = release.chart_object()
    {
        // Who made it may have been cut off before the status said so.
        release.status.helm_chart = format!("{}/{}", id.namespace, id.name);
    }
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
async fn connect(context: &Context<'_>, release: &HelmRelease) -> Result<Target, NoTarget> {
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
    let is_told = history::latest(&release.status.history).is_some();
    let target = match connect(context, release).await {
        Ok(target) => target,
        // Nothing says that there is a release, and nobody can look.
        Err(_) if !is_told => return Ok(None),
        Err(NoTarget::Gone(failure)) => {
            // The way to the cluster is gone for good, as after the end of a tenant's cluster.
            tracing::warn!(object = %release.id, "uninstall skipped: {failure}");
            return Ok(None);
        }
        Err(NoTarget::Failed(failure)) => return Ok(Some(Outcome::failed(failure, 0, RETRY))),
    };
    let mut release = release.clone();
    if !is_told && !find_untold(&target, &mut release).await? {
        return Ok(None);
    }
    let status = &release.status;
    let Some(current) = history::latest(&status.history) else {
        return Ok(None);
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
    let report = Report::new(&release);
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
    let is_ours = |object: &Object| {
        object.label(ORIGIN_NAME) == Some(&release.id.name)
            && object.label(ORIGIN_NAMESPACE) == Some(&release.id.namespace)
    };
    if !objects.iter().any(is_ours) {
        return Ok(false);
    }
    release.status.history = vec![history::snapshot(last, None, "").map_err(unreadable)?];
    release.status.storage_namespace = namespace;
    Ok(true)
}
