//! The step of a HelmRelease: chart, values, state, action, status.
//!
//! A step reads the release records, asks [`state::determine`], lets [`action::decide`] say what to do, runs that ([`plan`] has the
//! phases), and gives what came of it to [`outcome::record`]; then it asks again until the answer is a pause. What decides works
//! on plain data, so that each rule of Flux's helm-controller 1.6 is a line of a table; what acts is `attempt` and the modules
//! beside it. A wait ends the step: [`memory`] says where the next one goes on.

pub mod action;
mod apply;
mod attempt;
mod chart;
mod client_side;
pub mod conditions;
mod correct;
pub mod drift;
mod finalize;
pub mod history;
mod hooks;
pub mod memory;
mod objects;
pub mod outcome;
pub mod plan;
mod post_render;
mod records;
mod released;
mod render;
mod report;
mod run;
pub mod state;
mod storage;
pub mod values;
mod wait;

#[cfg(test)]
mod tests;

use crate::dependencies;
use crate::failure::Failure;
use crate::flux::{ArtifactStatus, HELM_CONTROLLER, HelmRelease, ObjectRef, reason, rfc3339};
use crate::kernel::{Context, Outcome};
use crate::ports::Version;
use crate::state as stored;
use crate::target::health::expressions;
use crate::target::{self, Target};
use attempt::{Attempt, End};
pub use chart::ORIGIN_NAME as OWNER_NAME;
use conditions::{mark_reconciling, reasons};
use driftless_manifest::Object;
use memory::{Doing, Memory};
pub(crate) use released::released;
use report::Report;
use std::time::Duration;
use storage::Storage;

/// Runs the step.
///
/// # Errors
/// Only when the status itself could not be written.
pub async fn step(context: &Context<'_>, object: Object) -> Result<Outcome, Failure> {
    let release = match HelmRelease::from_object(object.clone()) {
        Ok(release) => release,
        Err(what) => {
            let failure = Failure::terminal(reason::FAILED, what);
            context.stall(&object, &failure, HELM_CONTROLLER).await?;
            return Ok(Outcome::failed(failure, 0, Duration::ZERO));
        }
    };
    if !object.meta("deletionTimestamp").is_empty() {
        return finalize::finalize(context, release).await;
    }
    if release.spec.suspend {
        return Ok(Outcome::done("suspended"));
    }
    if context.add_finalizer(&object, HELM_CONTROLLER).await? {
        let Some(object) = context.hub.get(&context.id).await? else {
            return Ok(Outcome::done("gone"));
        };
        let Ok(release) = HelmRelease::from_object(object) else {
            return Ok(Outcome::done("changed meanwhile"));
        };
        return reconcile(context, release).await;
    }
    reconcile(context, release).await
}

async fn reconcile(context: &Context<'_>, release: HelmRelease) -> Result<Outcome, Failure> {
    let blobs = context.ports.blobs.as_ref();
    let key = memory::key(&context.hub.settings.name, &release.id);
    let (memory, version) = stored::load::<Memory>(blobs, &key).await?;
    let report = Report::new(&release);
    let mut work = Work {
        release,
        stored: (memory.clone(), version),
        memory,
        woken: Vec::new(),
    };
    let result = run(context, &mut work).await;
    work.memory.failures = match &result {
        Ok(_) => 0,
        Err(_) => work.memory.failures.saturating_add(1),
    };
    let (before, version) = &work.stored;
    stored::save(blobs, &key, before, &work.memory, version.clone()).await?;
    match result {
        Ok(end) => report.end(context, work, end).await,
        Err(failure) => report.fail(context, work, failure).await,
    }
}

/// What a step works on.
pub struct Work {
    /// The object, with its status as it will be written.
    release: HelmRelease,
    /// What is remembered.
    memory: Memory,
    /// What of it is stored, and in which version.
    stored: (Memory, Option<Version>),
    /// Objects that were changed: their own steps are next.
    woken: Vec<ObjectRef>,
}

async fn run(context: &Context<'_>, work: &mut Work) -> Result<End, Failure> {
    let release = &mut work.release;
    if work.memory.running.is_none() {
        let (why, what) = (reason::PROGRESSING, "Fulfilling prerequisites");
        mark_reconciling(release, why, what, &rfc3339(context.ports.clock.now()));
    }
    check(release)?;
    if let Some(chart) = chart::reconcile(context, release).await? {
        work.woken.push(chart);
    }
    let dependencies = release.dependencies();
    dependencies::check(context, &release.object, dependencies, &|_| false).await?;
    let source = chart::find_artifact(context, release).await?;
    let target = target::connect(context, release).await.map_err(|none| {
        let mut failure = Failure::from(none);
        if failure.reason == reason::FAILED {
            failure.reason = reasons::REST_CLIENT_ERROR;
        }
        failure
    })?;
    let storage = read_storage(&target, release, work.memory.running.is_some()).await?;
    if !goes_on(work, &source.1, &storage) {
        work.memory.running = None;
    }
    attempt(context, work, target, storage, source).await
}

/// Refuses what cannot be done, before anything is.
fn check(release: &HelmRelease) -> Result<(), Failure> {
    let durations = [
        release.interval(),
        release.timeout(),
        release.install_timeout(),
        release.upgrade_timeout(),
        release.test_timeout(),
        release.rollback_timeout(),
        release.uninstall_timeout(),
    ];
    for duration in durations {
        duration.map_err(|what| Failure::terminal(reason::FAILED, what))?;
    }
    expressions(&release.spec.health_check_exprs)?;
    Ok(())
}

/// The records of the release that is wanted, or of the one that is there while something is done to it.
async fn read_storage(
    target: &Target,
    release: &HelmRelease,
    is_running: bool,
) -> Result<Storage, Failure> {
    let current = history::latest(&release.status.history);
    let (namespace, name) = match current {
        Some(current) if is_running && !release.status.storage_namespace.is_empty() => (
            release.status.storage_namespace.as_str(),
            current.name.clone(),
        ),
        _ => (release.storage_namespace(), release.release_name()),
    };
    Ok(Storage::read(target, namespace, &name).await?)
}

/// Whether the action that is remembered is still the one to do.
fn goes_on(work: &Work, artifact: &ArtifactStatus, storage: &Storage) -> bool {
    let Some(running) = &work.memory.running else {
        return false;
    };
    if running.doing == Doing::Uninstall {
        return storage.last().is_some();
    }
    running.generation == work.release.generation()
        && running.chart.artifact == artifact.digest
        && running.written.contains(&running.record)
        && storage.last().map(|last| last.version) == Some(running.record)
}

/// Makes an attempt and takes back what it learned.
async fn attempt(
    context: &Context<'_>,
    work: &mut Work,
    target: Target,
    storage: Storage,
    source: (ObjectRef, ArtifactStatus),
) -> Result<End, Failure> {
    let mut attempt = Attempt::new(context, work.release.clone(), target, storage);
    attempt.memory.clone_from(&work.memory);
    attempt.stored.clone_from(&work.stored);
    attempt.source = Some(source);
    attempt.woken.append(&mut work.woken);
    let end = attempt.drive().await;
    *work = Work::after(attempt);
    end
}

impl Work {
    /// What an attempt leaves.
    fn after(attempt: Attempt<'_>) -> Self {
        Self {
            release: attempt.release,
            memory: attempt.memory,
            stored: attempt.stored,
            woken: attempt.woken,
        }
    }
}
