//! Records the result of an action in the status: snapshots, failure counters and conditions, and
//! returns the event to emit.

use super::action::Action;
use super::conditions::{RELEASED, REMEDIATED, TEST_SUCCESS, mark, reasons, summarize};
use super::history::{self, prepend, snapshot};
use super::memory::ChartFacts;
use super::messages;
use crate::error::ReleaseError;
use driftless_flux::{ConditionStatus, HelmRelease, READY, ReleaseAction, Snapshot, reason};
use driftless_helm::record::{Release, Status};

/// The records and the failure of a Helm action, from which the status is written.
#[derive(Clone, Copy, Debug)]
pub struct ActionResult<'r> {
    /// The action that has run.
    pub action: &'r Action,
    /// The records that the action wrote or deleted, each in its last state, in the order of the
    /// first writes.
    pub written: &'r [Release],
    /// The error of the action, if it failed.
    pub error: Option<&'r str>,
    /// The chart that the action used.
    pub chart: &'r ChartFacts,
    /// The corrections of drift, a line for each object.
    pub corrected: &'r [String],
}

/// An event about a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseEvent {
    /// True if the event is a warning.
    pub warning: bool,
    /// The reason of the event.
    pub reason: &'static str,
    /// The message of the event.
    pub message: String,
    /// The metadata of the event.
    pub metadata: EventMetadata,
}

/// The metadata of an event, which notifications include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventMetadata {
    /// The chart's version.
    pub revision: String,
    /// The digest of the values, which identifies an attempt.
    pub token: String,
    /// The `appVersion` of the chart.
    pub app_version: String,
    /// The digest of the OCI artifact of the chart.
    pub oci_digest: String,
}

impl EventMetadata {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            revision: snapshot.chart_version.clone(),
            token: snapshot.config_digest.clone(),
            app_version: snapshot.app_version.clone(),
            oci_digest: snapshot.oci_digest.clone(),
        }
    }

    /// Creates the metadata of an attempt that made no release.
    fn of_attempt(release: &HelmRelease, chart: &ChartFacts) -> Self {
        Self {
            revision: chart.version.clone(),
            token: release.status.last_attempted_config_digest.clone(),
            app_version: chart.app_version.clone(),
            oci_digest: release.status.last_attempted_revision_digest.clone(),
        }
    }

    /// Returns the keys of helm-controller's events with their values.
    pub fn entries(&self) -> [(&'static str, &str); 4] {
        [
            ("revision", &self.revision),
            ("token", &self.token),
            ("app-version", &self.app_version),
            ("oci-digest", &self.oci_digest),
        ]
    }
}

/// Prepares the status for an install or upgrade: removes the conditions of previous tests and
/// remediations.
pub fn begin(release: &mut HelmRelease, action: &Action) {
    let attempted = match action {
        Action::Install => ReleaseAction::Install,
        Action::Upgrade => ReleaseAction::Upgrade,
        _ => return,
    };
    release.status.last_attempted_release_action = Some(attempted);
    if attempted == ReleaseAction::Install {
        release.status.history.clear();
    }
    release.status.conditions.remove(TEST_SUCCESS);
    release.status.conditions.remove(REMEDIATED);
}

/// Records the result of an action in the status, and summarizes `Ready`. Returns the event to
/// emit.
///
/// # Errors
/// A record cannot be serialized as JSON.
pub fn record(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, ReleaseError> {
    let event = match result.action {
        Action::Install => record_release(release, result, ReleaseAction::Install, now)?,
        Action::Upgrade => record_release(release, result, ReleaseAction::Upgrade, now)?,
        Action::Rollback(target) => record_rollback(release, result, target, now)?,
        Action::UninstallRemediation => record_remediation(release, result, now)?,
        Action::Test => record_test(release, result, now)?,
        Action::Unlock => record_unlock(release, result, now)?,
        Action::CorrectDrift => record_correction(release, result, now),
    };
    // Flux does not summarize after an uninstall, so that Ready keeps the previous failure until
    // the next reconciliation.
    if !matches!(
        result.action,
        Action::UninstallRemediation | Action::CorrectDrift
    ) {
        summarize(release, now);
    }
    Ok(event)
}

/// Returns whether a failed action left records, so that its failure counts and needs a
/// remediation.
pub fn left_records(result: &ActionResult<'_>) -> bool {
    !result.written.is_empty()
}

fn event(
    warning: bool,
    reason: &'static str,
    message: String,
    metadata: EventMetadata,
) -> ReleaseEvent {
    ReleaseEvent {
        warning,
        reason,
        message,
        metadata,
    }
}

/// Records the result of an install or upgrade.
fn record_release(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    action: ReleaseAction,
    now: &str,
) -> Result<Option<ReleaseEvent>, ReleaseError> {
    let newest = result.written.iter().max_by_key(|record| record.version);
    for record in result.written {
        if Some(record.version) == newest.map(|newest| newest.version) {
            let oci_digest = release.status.last_attempted_revision_digest.clone();
            let made = snapshot(record, Some(action), &oci_digest)?;
            prepend(&mut release.status.history, made);
        } else {
            // As in Flux, the snapshot of a superseded record loses its action and keeps its tests.
            replace(release, record, |_| None, true)?;
        }
    }
    let is_install = action == ReleaseAction::Install;
    if let Some(error) = result.error {
        release.status.failures += 1;
        if left_records(result) {
            match is_install {
                true => release.status.install_failures += 1,
                false => release.status.upgrade_failures += 1,
            }
        }
        let reason = if is_install {
            reasons::INSTALL_FAILED
        } else {
            reasons::UPGRADE_FAILED
        };
        let message = format!(
            "Helm {action} failed for release {}/{} with chart {}@{}: {}",
            release.release_namespace(),
            release.long_release_name(),
            result.chart.name,
            result.chart.version,
            error.trim()
        );
        mark(
            release,
            RELEASED,
            ConditionStatus::False,
            reason,
            &message,
            now,
        );
        let metadata = EventMetadata::of_attempt(release, result.chart);
        return Ok(Some(event(true, reason, message, metadata)));
    }
    let Some(current) = history::latest(&release.status.history).cloned() else {
        return Ok(None);
    };
    let reason = if is_install {
        reasons::INSTALL_SUCCEEDED
    } else {
        reasons::UPGRADE_SUCCEEDED
    };
    let message = messages::succeeded(action.as_str(), &current);
    mark(
        release,
        RELEASED,
        ConditionStatus::True,
        reason,
        &message,
        now,
    );
    if release.test().enable && !current.has_been_tested() {
        let message = format!(
            "Helm release {} with chart {} is awaiting tests",
            current.full_name(),
            current.chart()
        );
        mark(
            release,
            TEST_SUCCESS,
            ConditionStatus::Unknown,
            reasons::AWAITING_TESTS,
            &message,
            now,
        );
    }
    let only_retries = match is_install {
        true => release.install_retries_on_failure(),
        false => release.upgrade_retries_on_failure(),
    };
    if only_retries {
        release.status.clear_failures();
    }
    let metadata = EventMetadata::of(&current);
    Ok(Some(event(false, reason, message, metadata)))
}

/// Updates the snapshot of a record. Returns whether the history has one.
fn replace(
    release: &mut HelmRelease,
    record: &Release,
    action: impl Fn(&Snapshot) -> Option<ReleaseAction>,
    keep_tests: bool,
) -> Result<bool, ReleaseError> {
    let mut history = release.status.history.iter_mut();
    let found = history.find(|s| s.targets(&record.name, &record.namespace, record.version));
    let Some(old) = found else {
        return Ok(false);
    };
    let mut new = snapshot(record, action(old), &old.oci_digest)?;
    if keep_tests {
        new.test_hooks = old.test_hooks.take();
    }
    *old = new;
    Ok(true)
}

/// Records a correction of drift. The event has the errors; the next check finds the drift that is
/// left.
fn record_correction(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    now: &str,
) -> Option<ReleaseEvent> {
    let current = history::latest(&release.status.history)?.clone();
    let (name, metadata) = (current.full_name(), EventMetadata::of(&current));
    let lines = result.corrected.join("\n");
    let Some(error) = result.error else {
        let message = format!("Cluster state of release {name} has been corrected:\n{lines}");
        let is_news = !result.corrected.is_empty();
        return is_news.then(|| event(false, reasons::DRIFT_CORRECTED, message, metadata));
    };
    let (partially, done) = match result.corrected.is_empty() {
        true => ("", String::new()),
        false => (
            "partially ",
            format!("\n\nSuccessful corrections:\n{lines}"),
        ),
    };
    let message =
        format!("Failed to {partially}correct cluster state of release {name}:\n{error}{done}");
    let progress = "correcting cluster drift";
    mark(
        release,
        READY,
        ConditionStatus::Unknown,
        reason::PROGRESSING,
        progress,
        now,
    );
    Some(event(
        true,
        reasons::DRIFT_CORRECTION_FAILED,
        message,
        metadata,
    ))
}

fn record_rollback(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    target: &Snapshot,
    now: &str,
) -> Result<Option<ReleaseEvent>, ReleaseError> {
    for record in result.written {
        if !replace(release, record, |_| Some(ReleaseAction::Rollback), true)? {
            let made = snapshot(record, Some(ReleaseAction::Rollback), "")?;
            prepend(&mut release.status.history, made);
        }
    }
    let subject = format!(
        "Helm rollback to previous release {} with chart {}",
        target.full_name(),
        target.chart()
    );
    // The token is that of the failed attempt, which the rollback remediates.
    let metadata = EventMetadata {
        token: release.status.last_attempted_config_digest.clone(),
        ..EventMetadata::of(target)
    };
    let reasons = (reasons::ROLLBACK_SUCCEEDED, reasons::ROLLBACK_FAILED);
    Ok(Some(remediated(
        release, result, &subject, reasons, metadata, now,
    )))
}

/// Sets `Remediated` for the result of a rollback or an uninstall, and returns its event. Of the
/// reasons the first is that of a success.
fn remediated(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    subject: &str,
    (succeeded, failed): (&'static str, &'static str),
    metadata: EventMetadata,
    now: &str,
) -> ReleaseEvent {
    let (status, reason, message) = match result.error {
        Some(error) => {
            release.status.failures += 1;
            let message = format!("{subject} failed: {}", error.trim());
            (ConditionStatus::False, failed, message)
        }
        None => {
            let message = format!("{subject} succeeded");
            (ConditionStatus::True, succeeded, message)
        }
    };
    mark(release, REMEDIATED, status, reason, &message, now);
    event(result.error.is_some(), reason, message, metadata)
}

fn record_remediation(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, ReleaseError> {
    for record in result.written {
        let action = ReleaseAction::UninstallRemediation;
        replace(release, record, |_| Some(action), true)?;
    }
    let Some(current) = history::latest(&release.status.history).cloned() else {
        return Ok(None);
    };
    let subject = format!(
        "Helm uninstall remediation for release {} with chart {}",
        current.full_name(),
        current.chart()
    );
    let reasons = (reasons::UNINSTALL_SUCCEEDED, reasons::UNINSTALL_FAILED);
    let metadata = EventMetadata::of(&current);
    Ok(Some(remediated(
        release, result, &subject, reasons, metadata, now,
    )))
}

/// The result of an uninstall that is not a remediation: the HelmRelease is deleted, or its release
/// has another name, namespace or chart now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UninstallResult<'e> {
    /// The release was uninstalled.
    Done,
    /// No record exists: another client uninstalled the release.
    NotFound,
    /// The record that was kept has the status uninstalled.
    AlreadyDone,
    /// The uninstall failed with this error.
    Failed(&'e str),
}

/// Records the result of an uninstall that is not a remediation. Returns the event to emit.
///
/// # Errors
/// A record cannot be serialized as JSON.
pub fn record_uninstall(
    release: &mut HelmRelease,
    written: &[Release],
    result: UninstallResult<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, ReleaseError> {
    for record in written {
        replace(release, record, |_| Some(ReleaseAction::Uninstall), true)?;
    }
    let Some(current) = history::latest(&release.status.history).cloned() else {
        return Ok(None);
    };
    let (name, chart) = (current.full_name(), current.chart());
    let succeeded = reasons::UNINSTALL_SUCCEEDED;
    let (reason, message, has_event) = match result {
        UninstallResult::Done => (succeeded, messages::succeeded("uninstall", &current), true),
        UninstallResult::NotFound => {
            let message = format!("Release {name} was not found, assuming it is uninstalled");
            (succeeded, message, false)
        }
        UninstallResult::AlreadyDone => (
            succeeded,
            format!("Release {name} was already uninstalled"),
            false,
        ),
        UninstallResult::Failed(error) => {
            release.status.failures += 1;
            let error = error.trim();
            let message =
                format!("Helm uninstall failed for release {name} with chart {chart}: {error}");
            (reasons::UNINSTALL_FAILED, message, true)
        }
    };
    if result == UninstallResult::Done {
        release.status.inventory = None;
    }
    mark(
        release,
        RELEASED,
        ConditionStatus::False,
        reason,
        &message,
        now,
    );
    summarize(release, now);
    let warning = matches!(result, UninstallResult::Failed(_));
    let metadata = EventMetadata::of(&current);
    Ok(has_event.then(|| event(warning, reason, message, metadata)))
}

fn record_test(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, ReleaseError> {
    let filters = release.test().filters.clone().unwrap_or_default();
    for record in result.written {
        let Some(latest) = release.status.history.first_mut() else {
            continue;
        };
        if latest.targets(&record.name, &record.namespace, record.version) {
            let mut tested = snapshot(record, latest.action, &latest.oci_digest)?;
            tested.test_hooks = Some(history::test_hooks(record, &filters));
            *latest = tested;
        }
    }
    let Some(current) = history::latest(&release.status.history).cloned() else {
        return Ok(None);
    };
    let subject = |verb: &str| {
        let (name, chart) = (current.full_name(), current.chart());
        format!("Helm test {verb} for release {name} with chart {chart}")
    };
    if let Some(error) = result.error {
        release.status.failures += 1;
        if current.has_been_tested() {
            count_test_failure(release);
        }
        let message = format!("{}: {}", subject("failed"), error.trim());
        mark(
            release,
            TEST_SUCCESS,
            ConditionStatus::False,
            reasons::TEST_FAILED,
            &message,
            now,
        );
        return Ok(Some(event(
            true,
            reasons::TEST_FAILED,
            message,
            EventMetadata::of(&current),
        )));
    }
    let hooks = match current.test_hooks.as_ref().map_or(0, |hooks| hooks.len()) {
        0 => "no test hooks".to_owned(),
        1 => "1 test hook completed successfully".to_owned(),
        count => format!("{count} test hooks completed successfully"),
    };
    let message = format!("{}: {hooks}", subject("succeeded"));
    mark(
        release,
        TEST_SUCCESS,
        ConditionStatus::True,
        reasons::TEST_SUCCEEDED,
        &message,
        now,
    );
    Ok(Some(event(
        false,
        reasons::TEST_SUCCEEDED,
        message,
        EventMetadata::of(&current),
    )))
}

/// Counts a failed test as a failure of the action that it tested, unless test failures are
/// ignored.
fn count_test_failure(release: &mut HelmRelease) {
    let Some(remediation) = release.active_remediation() else {
        return;
    };
    if remediation.ignore_test_failures {
        return;
    }
    match remediation.is_upgrade {
        true => release.status.upgrade_failures += 1,
        false => release.status.install_failures += 1,
    }
}

fn record_unlock(
    release: &mut HelmRelease,
    result: &ActionResult<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, ReleaseError> {
    let Some(record) = result.written.last() else {
        return Ok(None);
    };
    let snapshots = &release.status.history;
    let noted = snapshots
        .iter()
        .find(|s| s.targets(&record.name, &record.namespace, record.version));
    let oci_digest = noted.map(|s| s.oci_digest.clone()).unwrap_or_default();
    let current = snapshot(record, None, &oci_digest)?;
    let status = pending_status(record);
    let (name, chart) = (current.full_name(), current.chart());
    if result.error.is_none() {
        replace(release, record, |old| old.action, false)?;
    }
    let message = match result.error {
        None => format!("Unlocked Helm release {name} with chart {chart} in {status} state"),
        Some(error) => {
            release.status.failures += 1;
            format!(
                "Unlock of Helm release {name} with chart {chart} in {status} state failed: {}",
                error.trim()
            )
        }
    };
    mark(
        release,
        RELEASED,
        ConditionStatus::False,
        reasons::PENDING_RELEASE,
        &message,
        now,
    );
    let warning = result.error.is_some();
    Ok(Some(event(
        warning,
        reasons::PENDING_RELEASE,
        message,
        EventMetadata::of(&current),
    )))
}

const UNLOCKED: (&str, &str) = ("Release unlocked from stale '", "' state");

/// Marks a pending record as failed, for [`Action::Unlock`].
pub fn unlock(record: &mut Release) {
    let status = record.info.status.to_string();
    record.set_status(
        Status::Failed,
        format!("{}{status}{}", UNLOCKED.0, UNLOCKED.1),
    );
}

/// Returns the status that a record had before it was unlocked.
fn pending_status(record: &Release) -> &str {
    let description = record.info.description.as_str();
    let inner = description.strip_prefix(UNLOCKED.0);
    let inner = inner.and_then(|rest| rest.strip_suffix(UNLOCKED.1));
    inner.unwrap_or(record.info.status.as_str())
}
