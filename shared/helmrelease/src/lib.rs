//! The step of a HelmRelease: chart, values, state, action, status.
//!
//! A step reads the release records, determines the state (`state::determine`), decides on an
//! action (`action::decide`), runs it (`plan` has the phases), and records the result
//! (`outcome::record`); it repeats this until the decision is a pause. The modules that decide
//! work on plain data, so that each rule of Flux's helm-controller 1.6 is a line of a table in a
//! test; `attempt` and the modules that it uses act on the cluster. A long wait ends the step: the
//! cursor in `memory` has the phase where the next one continues.

mod action;
mod apply;
mod attempt;
mod changes;
mod chart;
mod client_side;
pub mod conditions;
mod definitions;
mod drift_correction;
pub mod drift_detection;
mod drifted;
mod error;
mod finalize;
pub mod history;
mod hooks;
pub mod memory;
mod messages;
mod objects;
mod objects_to_uninstall;
mod outcome;
mod phase;
mod plan;
mod post_render;
mod readiness;
mod records;
mod render;
mod report;
mod run;
pub mod state;
mod storage;
mod values;

pub use error::ReleaseError;

#[cfg(test)]
mod tests;

use attempt::{Attempt, AttemptEnd};
pub use chart::{ORIGIN_NAME as OWNER_NAME, ORIGIN_NAMESPACE as OWNER_NAMESPACE};
use conditions::{mark_reconciling, reasons};
use driftless_flux::{ArtifactStatus, HELM_CONTROLLER, HelmRelease, ObjectRef, reason, rfc3339};
use driftless_fuel::Tank;
use driftless_kernel::context::Context;
use driftless_kernel::dependencies;
use driftless_kernel::driver::{self, Reconciler, Report};
use driftless_kernel::failure::Failure;
use driftless_kernel::target::health::expressions;
use driftless_kernel::target::{self, Target};
pub use objects_to_uninstall::objects_to_uninstall;
use plan::Operation;
use storage::Storage;

/// Reconciles HelmReleases as helm-controller does.
pub struct HelmReleases;

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

/// The memory of a release during a step.
type Memory = driver::Memory<memory::Memory>;

/// The state that a step changes.
pub struct Work {
    /// The object, with the status to write.
    release: HelmRelease,
    /// The objects that were changed: they are reconciled next.
    changed: Vec<ObjectRef>,
}

impl Work {
    fn new(release: HelmRelease) -> Self {
        Self {
            release,
            changed: Vec::new(),
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
        let now = rfc3339(context.ports.clock.now());
        let message = "Fulfilling prerequisites";
        mark_reconciling(release, reason::PROGRESSING, message, &now);
    }
    check(release, &context.fuel)?;
    if let Some(chart) = chart::reconcile(context, release).await? {
        work.changed.push(chart);
    }
    let dependencies = release.dependencies();
    dependencies::check(context, &release.object, dependencies, &|_| false).await?;
    let source = chart::find_artifact(context, release).await?;
    let target = target::connect(context, release).await.map_err(|error| {
        let mut failure = Failure::from(error);
        if failure.reason == reason::FAILED {
            failure.reason = reasons::REST_CLIENT_ERROR;
        }
        failure
    })?;
    let storage = read_storage(&target, release, memory.running.is_some()).await?;
    if !can_continue(release, memory, &source.1, &storage) {
        memory.running = None;
    }
    let mut attempt = Attempt::new(context, release.clone(), target, storage, memory);
    attempt.source = Some(source);
    attempt.changed.append(&mut work.changed);
    let end = attempt.drive().await;
    *work = Work {
        release: attempt.release,
        changed: attempt.changed,
    };
    end
}

/// Checks the durations and expressions of the spec before anything is done.
fn check(release: &HelmRelease, fuel: &Tank) -> Result<(), Failure> {
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
        duration.map_err(|message| Failure::terminal(reason::FAILED, message))?;
    }
    expressions(&release.spec.health_check_exprs, fuel)?;
    Ok(())
}

/// Reads the records of the desired release, or of the current one while an operation on it runs.
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

/// Returns whether the operation in the memory is still the right one to continue.
fn can_continue(
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
