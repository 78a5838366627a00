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
use crate::driver::{self, Reconciler, Report};
use crate::failure::Failure;
use crate::flux::{ArtifactStatus, HELM_CONTROLLER, HelmRelease, ObjectRef, reason, rfc3339};
use crate::kernel::Context;
use crate::target::health::expressions;
use crate::target::{self, Target};
use attempt::{Attempt, AttemptEnd};
pub use chart::{ORIGIN_NAME as OWNER_NAME, ORIGIN_NAMESPACE as OWNER_NAMESPACE};
use conditions::{mark_reconciling, reasons};
use memory::Operation;
pub(crate) use released::released;
use storage::Storage;

/// Reconciles HelmReleases as helm-controller does.
pub(crate) struct HelmReleases;

impl Reconciler for HelmReleases {
    type Object = HelmRelease;
    type Memory = memory::Memory;

    const CONTROLLER: &'static str = HELM_CONTROLLER;
    const INVALID: &'static str = reason::FAILED;
    const ADDS_FINALIZER: bool = true;
    const NOTIFIES_FAILURES: bool = false;

    async fn reconcile(
        context: &Context<'_>,
        release: HelmRelease,
        memory: &mut Memory,
    ) -> Report<HelmRelease> {
        let before = release.clone();
        let mut work = Work::new(release);
        match run(context, &mut work, memory).await {
            Ok(end) => report::end(before, work, end),
            Err(failure) => report::fail(context, before, work, failure),
        }
    }

    async fn finalize(
        context: &Context<'_>,
        release: HelmRelease,
        memory: &mut Memory,
    ) -> Report<HelmRelease> {
        finalize::finalize(context, release, memory).await
    }
}

/// What is remembered of a release, while a step has it.
type Memory = driver::Memory<memory::Memory>;

/// What a step works on.
pub struct Work {
    /// The object, with its status as it will be written.
    release: HelmRelease,
    /// Objects that were changed: their own steps are next.
    woken: Vec<ObjectRef>,
}

impl Work {
    fn new(release: HelmRelease) -> Self {
        Self {
            release,
            woken: Vec::new(),
        }
    }
}

async fn run(
    context: &Context<'_>,
    work: &mut Work,
    memory: &mut Memory,
) -> Result<AttemptEnd, Failure> {
    let release = &mut work.release;
    if memory.running.is_none() {
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
    let storage = read_storage(&target, release, memory.running.is_some()).await?;
    if !goes_on(release, memory, &source.1, &storage) {
        memory.running = None;
    }
    let mut attempt = Attempt::new(context, release.clone(), target, storage, memory);
    attempt.source = Some(source);
    attempt.woken.append(&mut work.woken);
    let end = attempt.drive().await;
    *work = Work {
        release: attempt.release,
        woken: attempt.woken,
    };
    end
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
fn goes_on(
    release: &HelmRelease,
    memory: &Memory,
    artifact: &ArtifactStatus,
    storage: &Storage,
) -> bool {
    let Some(running) = &memory.running else {
        return false;
    };
    if running.operation == Operation::Uninstall {
        return storage.last().is_some();
    }
    running.generation == release.generation()
        && running.chart.artifact == artifact.digest
        && running.written.contains(&running.record)
        && storage.last().map(|last| last.version) == Some(running.record)
}
