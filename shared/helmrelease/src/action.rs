//! Decides the next action for a state, and when an attempt ends.

use super::conditions::{
    DRIFTED, RELEASED, REMEDIATED, mark, mark_reconciling, mark_stalled, reasons,
    replace_remediated, summarize,
};
use super::history;
use super::messages;
use super::state::State;
use crate::error::ReleaseError;
use driftless_flux::{
    ConditionStatus, DriftMode, FORCE_AT, FieldError, HelmRelease, READY, RECONCILING,
    REQUESTED_AT, RESET_AT, ReleaseAction, Remediation, RemediationStrategy, Snapshot,
    duration_text, reason,
};
use driftless_helm::record::Release;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An action on a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Install the release. The history starts anew.
    Install,
    /// Upgrade the release.
    Upgrade,
    /// Roll the release back to this revision.
    Rollback(Box<Snapshot>),
    /// Uninstall the release because it failed.
    UninstallRemediation,
    /// Run the tests of the release.
    Test,
    /// Mark the pending record as failed.
    Unlock,
    /// Correct the objects that drifted.
    CorrectDrift,
}

/// A kind of action. An attempt runs each kind at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ActionKind {
    /// An install or upgrade: makes a release.
    Release,
    /// A rollback or uninstall that remediates a failure.
    Remediate,
    /// A run of the release's tests.
    Test,
    /// The unlock of a pending record.
    Unlock,
    /// A correction of drift.
    CorrectDrift,
}

impl Action {
    /// Returns the kind of the action.
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Install | Self::Upgrade => ActionKind::Release,
            Self::Rollback(_) | Self::UninstallRemediation => ActionKind::Remediate,
            Self::Test => ActionKind::Test,
            Self::Unlock => ActionKind::Unlock,
            Self::CorrectDrift => ActionKind::CorrectDrift,
        }
    }

    /// Returns the name of the action in Flux's messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback(_) => "rollback",
            Self::UninstallRemediation => "uninstall",
            Self::Test => "test",
            Self::Unlock => "unlock",
            Self::CorrectDrift => "correct cluster drift",
        }
    }

    /// Returns the timeout of one operation of the action.
    ///
    /// # Errors
    /// A duration in the spec is not valid.
    pub fn timeout(&self, release: &HelmRelease) -> Result<Duration, FieldError> {
        match self {
            Self::Install => release.install_timeout(),
            Self::Upgrade => release.upgrade_timeout(),
            Self::Rollback(_) => release.rollback_timeout(),
            Self::UninstallRemediation => release.uninstall_timeout(),
            Self::Test => release.test_timeout(),
            Self::Unlock | Self::CorrectDrift => release.timeout(),
        }
    }

    /// Returns the message of `Reconciling` while the action runs.
    ///
    /// # Errors
    /// A duration in the spec is not valid.
    pub fn running_message(&self, release: &HelmRelease) -> Result<String, FieldError> {
        let timeout = duration_text(self.timeout(release)?);
        Ok(format!(
            "Running '{}' action with timeout of {timeout}",
            self.name()
        ))
    }
}

/// The decision about the next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run this action.
    Run(Action),
    /// End the attempt.
    Pause(Pause),
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing is left to do until the interval has passed.
    Done,
    /// More is left to do: reconcile again soon.
    Again,
    /// Try again after this time (`RetryOnFailure`).
    After(Duration),
    /// Only a change can help: `Stalled` is set.
    Stalled(String),
}

/// Looks up a record in the storage by its revision; `None` if the record is gone.
pub type Records<'r> = dyn Fn(i64) -> Result<Option<Release>, ReleaseError> + 'r;

/// Decides what to do for a state, and changes the status accordingly: drops old snapshots, marks a
/// remediation that turned out to be the desired release as released, and summarizes the other
/// conditions as `Ready` when nothing is left to do.
///
/// `done` has the kinds of the actions that this attempt has run so far.
///
/// # Errors
/// A record cannot be read now (try again), or a duration in the spec is not valid.
pub fn decide(
    release: &mut HelmRelease,
    state: &State,
    done: &[ActionKind],
    records: &Records<'_>,
    now: &str,
) -> Result<Decision, ReleaseError> {
    let forced = take_request(release, FORCE_AT);
    let next = match next(release, state, forced, records, now)? {
        Next::Run(action) => action,
        Next::Nothing => {
            release.status.conditions.remove(RECONCILING);
            summarize(release, now);
            return Ok(Decision::Pause(Pause::Done));
        }
        Next::RetriesExceeded(problem) => {
            stall_without_retries(release, now);
            let message = format!("exceeded maximum retries: {problem}");
            return Ok(Decision::Pause(Pause::Stalled(message)));
        }
        Next::MissingTarget => {
            let message = "missing target release for rollback: cannot remediate failed release";
            let stalled = format!("Failed to perform remediation: {message}");
            mark_stalled(release, reasons::MISSING_ROLLBACK_TARGET, &stalled, now);
            return Ok(Decision::Pause(Pause::Stalled(message.to_owned())));
        }
    };
    if !done.contains(&next.kind()) {
        return Ok(Decision::Run(next));
    }
    if let Some(pause) = retry_pause(release, now)? {
        return Ok(Decision::Pause(pause));
    }
    let remediation = release.active_remediation();
    if remediation.is_none_or(|remediation| !remediation.is_exhausted()) {
        return Ok(Decision::Pause(mark_retry(release, now)));
    }
    release.status.conditions.remove(RECONCILING);
    Ok(Decision::Pause(Pause::Done))
}

enum Next {
    Run(Action),
    Nothing,
    RetriesExceeded(&'static str),
    MissingTarget,
}

fn next(
    release: &mut HelmRelease,
    state: &State,
    forced: bool,
    records: &Records<'_>,
    now: &str,
) -> Result<Next, ReleaseError> {
    Ok(match state {
        State::InSync => in_sync(release, forced, now)?,
        State::Locked => Next::Run(Action::Unlock),
        State::Absent(_) if release.install_remediation().is_exhausted() && !forced => {
            Next::RetriesExceeded("cannot install release")
        }
        State::Absent(_) => Next::Run(Action::Install),
        State::Unmanaged(_) => {
            release.status.history.clear();
            Next::Run(Action::Upgrade)
        }
        State::OutOfSync(_) if release.upgrade_remediation().is_exhausted() && !forced => {
            Next::RetriesExceeded("cannot upgrade release")
        }
        State::OutOfSync(_) => Next::Run(Action::Upgrade),
        State::Drifted if release.drift_mode() == DriftMode::Enabled => {
            Next::Run(Action::CorrectDrift)
        }
        State::Drifted => Next::Nothing,
        State::Untested => {
            mark_remediated_as_released(release);
            Next::Run(Action::Test)
        }
        State::Failed(_) => failed(release, forced, records)?,
    })
}

/// Replaces `Remediated` by `Released`: the release that a rollback left is the desired one now.
fn mark_remediated_as_released(release: &mut HelmRelease) {
    if !release.status.conditions.is_true(REMEDIATED) {
        return;
    }
    if let Some(current) = history::latest(&release.status.history).cloned() {
        let message = messages::upgrade_succeeded(&current);
        replace_remediated(release, reasons::UPGRADE_SUCCEEDED, &message);
    }
}

fn in_sync(release: &mut HelmRelease, forced: bool, now: &str) -> Result<Next, ReleaseError> {
    if release.active_retry()?.is_some() {
        history::truncate_to_newest(&mut release.status.history);
    } else {
        let ignore_tests = release.ignores_test_failures();
        history::truncate(&mut release.status.history, ignore_tests);
    }
    if forced {
        return Ok(Next::Run(Action::Upgrade));
    }
    mark_remediated_as_released(release);
    mark_released_again(release, now);
    if release.drift_mode() != DriftMode::Disabled {
        let message = "No drift detected against the cluster state";
        mark(
            release,
            DRIFTED,
            ConditionStatus::False,
            reasons::NO_DRIFT_DETECTED,
            message,
            now,
        );
    }
    Ok(Next::Nothing)
}

/// Sets `Released` to true again when an install or upgrade that was marked as failed is good
/// nevertheless, or when the conditions were lost.
fn mark_released_again(release: &mut HelmRelease, now: &str) {
    let conditions = &release.status.conditions;
    if conditions.is_true(READY) && conditions.is_true(RELEASED) {
        return;
    }
    let Some(current) = history::latest(&release.status.history).cloned() else {
        return;
    };
    let installed = match conditions.get(RELEASED).map(|c| c.reason.as_str()) {
        Some(reasons::INSTALL_FAILED) => true,
        Some(reasons::UPGRADE_FAILED) => false,
        None => current.action == Some(ReleaseAction::Install),
        Some(_) => return,
    };
    let (reason, message) = match installed {
        true => (
            reasons::INSTALL_SUCCEEDED,
            messages::install_succeeded(&current),
        ),
        false => (
            reasons::UPGRADE_SUCCEEDED,
            messages::upgrade_succeeded(&current),
        ),
    };
    mark(
        release,
        RELEASED,
        ConditionStatus::True,
        reason,
        &message,
        now,
    );
}

fn failed(
    release: &mut HelmRelease,
    forced: bool,
    records: &Records<'_>,
) -> Result<Next, ReleaseError> {
    if release.active_retry()?.is_some() {
        history::truncate_to_newest(&mut release.status.history);
        return Ok(Next::Run(Action::Upgrade));
    }
    let Some(remediation) = release.active_remediation() else {
        return Ok(Next::Run(Action::Upgrade));
    };
    // Without counted failures, the release that failed is not the one that is desired now.
    if remediation.failures <= 0 || forced {
        return Ok(Next::Run(Action::Upgrade));
    }
    if remediation.is_exhausted() && !remediation.remediate_last_failure {
        return Ok(Next::RetriesExceeded("cannot remediate failed release"));
    }
    let ignore_tests = remediation.ignore_test_failures;
    history::truncate(&mut release.status.history, ignore_tests);
    match remediation.strategy {
        RemediationStrategy::Uninstall => Ok(Next::Run(Action::UninstallRemediation)),
        RemediationStrategy::Rollback => {
            let Some(target) = history::previous(&release.status.history, ignore_tests) else {
                return Ok(Next::MissingTarget);
            };
            let record = records(target.version)
                .map_err(|error| ReleaseError::RollbackTarget(error.to_string()))?;
            // A target that is gone or was changed cannot be rolled back to: the upgrade is tried
            // again.
            let is_intact = record.is_some_and(|record| history::verify(target, &record).is_ok());
            Ok(Next::Run(match is_intact {
                true => Action::Rollback(Box::new(target.clone())),
                false => Action::Upgrade,
            }))
        }
    }
}

/// Decides what follows an action that has run. `error` is the error of an action that left nothing
/// in the storage. `None` means that the state must be determined again at once.
///
/// # Errors
/// A duration in the spec is not valid.
pub fn decide_after(
    release: &mut HelmRelease,
    action: &Action,
    error: Option<&str>,
    now: &str,
) -> Result<Option<Pause>, ReleaseError> {
    if let Some(error) = error {
        if let Some(pause) = retry_pause(release, now)? {
            return Ok(Some(pause));
        }
        if release.status.conditions.is_true(READY) {
            mark(
                release,
                READY,
                ConditionStatus::False,
                reasons::RECONCILE_ERROR,
                error,
                now,
            );
        }
        return Ok(Some(Pause::Again));
    }
    if action.kind() != ActionKind::Remediate {
        return Ok(None);
    }
    if let Some(pause) = retry_pause(release, now)? {
        return Ok(Some(pause));
    }
    let continues = |r: Remediation| !r.is_exhausted() || r.is_uninstall_after_upgrade();
    if release.active_remediation().is_none_or(continues) {
        return Ok(Some(mark_retry(release, now)));
    }
    let message = stall_without_retries(release, now);
    Ok(Some(Pause::Stalled(message)))
}

/// Returns the pause until the next attempt if the strategy is `RetryOnFailure`, and marks the
/// release as retried later.
///
/// # Errors
/// The duration in the spec is not valid.
pub fn retry_pause(release: &mut HelmRelease, now: &str) -> Result<Option<Pause>, ReleaseError> {
    let Some(interval) = release.active_retry()? else {
        return Ok(None);
    };
    let message = format!("retrying after {}", duration_text(interval));
    mark_reconciling(release, reason::PROGRESSING_WITH_RETRY, &message, now);
    Ok(Some(Pause::After(interval)))
}

fn mark_retry(release: &mut HelmRelease, now: &str) -> Pause {
    let ready = release.status.conditions.get(READY);
    let message = ready.map(|ready| ready.message.clone()).unwrap_or_default();
    mark_reconciling(release, reason::PROGRESSING_WITH_RETRY, &message, now);
    Pause::Again
}

fn stall_without_retries(release: &mut HelmRelease, now: &str) -> String {
    let action = release.status.last_attempted_release_action;
    let message = format!(
        "Failed to {} after {} attempt(s)",
        action.map_or("", ReleaseAction::as_str),
        release.active_remediation().map_or(0, |r| r.failures)
    );
    mark_stalled(release, reasons::RETRIES_EXCEEDED, &message, now);
    message
}

/// Returns whether an annotation requests something that was not done yet: its value must equal
/// that of `requestedAt`. Notes the value as handled in any case.
pub fn take_request(release: &mut HelmRelease, annotation: &str) -> bool {
    let Some(value) = release.object.annotation(annotation).map(str::to_owned) else {
        return false;
    };
    let is_request = release.object.annotation(REQUESTED_AT) == Some(&value)
        && release.status.last_handled_reconcile_at != value;
    let handled = match annotation {
        RESET_AT => &mut release.status.last_handled_reset_at,
        _ => &mut release.status.last_handled_force_at,
    };
    let before = std::mem::replace(handled, value.clone());
    is_request && before != value
}
