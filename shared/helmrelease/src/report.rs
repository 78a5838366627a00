//! Writes the result of a step into the status of the object, like helm-controller.

use super::Work;
use super::action::Pause;
use super::attempt::AttemptEnd;
use super::conditions::{mark, mark_stalled, reasons};
use driftless_flux::{ConditionStatus, HelmRelease, READY, reason, rfc3339, shorten};
use driftless_kernel::context::{Context, FIRST_CHECK, LONGEST_RETRY, Outcome};
use driftless_kernel::driver::{self, Report};
use driftless_kernel::failure::{Class, Failure};
use std::time::Duration;

/// The reasons of failures before an action that get an event, as with helm-controller; actions
/// emit their own events.
const REASONS_WITH_EVENT: [&str; 6] = [
    reason::INVALID_CEL,
    reason::DEPENDENCY_NOT_READY,
    reason::ACCESS_DENIED,
    reason::ARTIFACT_FAILED,
    reasons::VALUES_ERROR,
    // Only ours: a feature that Flux has and driftless does not.
    reason::UNSUPPORTED,
];
/// The longest delay of a message.
const LONGEST_DELAY: Duration = Duration::from_secs(900);

/// Reports a step that ended without a failure of its own, although the release may have failed.
/// `before` is the object that was read.
pub fn end(before: HelmRelease, mut work: Work, end: AttemptEnd) -> Report<HelmRelease> {
    let mut outcome = Outcome::default();
    let observed = match end {
        AttemptEnd::Waiting(resources) => {
            outcome.requeue_after = Some(FIRST_CHECK);
            outcome.summary = format!("waiting for: {resources}");
            false
        }
        AttemptEnd::Uninstalled => {
            let status = &mut work.release.status;
            status.history.clear();
            status.clear_failures();
            status.storage_namespace.clear();
            outcome.requeue_after = Some(Duration::ZERO);
            outcome.summary = "uninstalled the old release: installing the new one next".to_owned();
            false
        }
        AttemptEnd::UninstallFailed(error) => {
            outcome.retry(LONGEST_RETRY);
            outcome.summary = format!("uninstall failed: {error}");
            false
        }
        AttemptEnd::Paused(pause) => paused(&work, pause, &mut outcome),
    };
    if observed {
        work.release.status.observed_generation = Some(work.release.generation());
    }
    outcome.notifies = work.release.status.conditions.is_true(READY);
    report(before, work, driver::StepEnd::Done(outcome))
}

/// Sets the outcome of a pause. Returns whether the generation counts as observed.
fn paused(work: &Work, pause: Pause, outcome: &mut Outcome) -> bool {
    let ready = work.release.status.conditions.get(READY);
    let message = ready.map_or("", |ready| ready.message.as_str());
    message.clone_into(&mut outcome.summary);
    match pause {
        Pause::Done => true,
        Pause::Again => {
            outcome.retry(LONGEST_RETRY);
            false
        }
        Pause::After(interval) => {
            outcome.requeue_after = Some(interval.min(LONGEST_DELAY));
            true
        }
        Pause::Stalled(message) => {
            outcome.summary = message;
            true
        }
    }
}

/// Reports a step that failed. `before` is the object that was read.
pub fn fail(
    context: &Context<'_>,
    before: HelmRelease,
    mut work: Work,
    failure: Failure,
) -> Report<HelmRelease> {
    let now = rfc3339(context.ports.clock.now());
    let release = &mut work.release;
    let message = shorten(&failure.message, 20_000);
    mark(
        release,
        READY,
        ConditionStatus::False,
        failure.reason,
        &message,
        &now,
    );
    if failure.class == Class::Terminal {
        release.status.observed_generation = Some(release.generation());
        mark_stalled(release, failure.reason, &message, &now);
    }
    let ready = before.status.conditions.get(READY);
    let is_news =
        ready.map(|ready| (&*ready.reason, &*ready.message)) != Some((failure.reason, &*message));
    if is_news && REASONS_WITH_EVENT.contains(&failure.reason) {
        // Waiting for another object is not a warning. As with helm-controller 1.6, these events
        // have no revision.
        let warning = failure.reason != reason::DEPENDENCY_NOT_READY;
        let events = &context.events;
        events.record_annotated(warning, failure.reason, &message, &[]);
    }
    report(
        before,
        work,
        driver::StepEnd::Failed(failure, LONGEST_RETRY),
    )
}

/// Creates a report that leaves the status unchanged.
pub fn unchanged(release: HelmRelease, end: driver::StepEnd) -> Report<HelmRelease> {
    Report {
        status: release.status.clone(),
        object: release,
        changed: Vec::new(),
        end,
    }
}

fn report(before: HelmRelease, work: Work, end: driver::StepEnd) -> Report<HelmRelease> {
    Report {
        object: before,
        status: work.release.status,
        changed: work.changed,
        end,
    }
}
