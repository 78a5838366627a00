//! What an action leaves behind: snapshots, counters, conditions, an event.

use super::action::Action;
use super::conditions::{RELEASED, REMEDIATED, TEST_SUCCESS, mark, reasons, summarize};
use super::history::{self, prepend, snapshot};
use super::memory::ChartFacts;
use crate::flux::{ConditionStatus, HelmRelease, READY, ReleaseAction, Snapshot, reason};
use driftless_helm::record::{Release, Status};

/// An action that was run.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'r> {
    /// The action.
    pub action: &'r Action,
    /// The records that it wrote or deleted, each as it was written last, in the order of the first writes.
    pub written: &'r [Release],
    /// Why it failed.
    pub error: Option<&'r str>,
    /// The chart that it used.
    pub chart: &'r ChartFacts,
    /// What drifted and was set right.
    pub corrected: &'r [String],
}

/// What users are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseEvent {
    /// Whether it is a warning.
    pub warning: bool,
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message.
    pub message: String,
    /// The event's metadata.
    pub about: About,
}

/// The metadata of an event: what of a release is told to those who are notified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The chart's version.
    pub revision: String,
    /// The digest of the values: it tells one attempt from another.
    pub token: String,
    /// The version of what the chart installs.
    pub app_version: String,
    /// The digest of the OCI artifact that the chart came in.
    pub oci_digest: String,
}

impl About {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            revision: snapshot.chart_version.clone(),
            token: snapshot.config_digest.clone(),
            app_version: snapshot.app_version.clone(),
            oci_digest: snapshot.oci_digest.clone(),
        }
    }

    /// What was tried, of which no release was made.
    fn of_attempt(release: &HelmRelease, chart: &ChartFacts) -> Self {
        Self {
            revision: chart.version.clone(),
            token: release.status.last_attempted_config_digest.clone(),
            app_version: chart.app_version.clone(),
            oci_digest: release.status.last_attempted_revision_digest.clone(),
        }
    }

    /// The keys of helm-controller's events, with their values.
    pub fn metadata(&self) -> [(&'static str, &str); 4] {
        [
            ("revision", &self.revision),
            ("token", &self.token),
            ("app-version", &self.app_version),
            ("oci-digest", &self.oci_digest),
        ]
    }
}

/// The messages of helm-controller.
pub mod messages {
    use crate::flux::Snapshot;

    /// `Helm install succeeded …`
    pub fn install_succeeded(current: &Snapshot) -> String {
        succeeded("install", current)
    }

    /// `Helm upgrade succeeded …`
    pub fn upgrade_succeeded(current: &Snapshot) -> String {
        succeeded("upgrade", current)
    }

    pub(super) fn succeeded(action: &str, current: &Snapshot) -> String {
        let (name, chart) = (current.full_name(), current.chart());
        format!("Helm {action} succeeded for release {name} with chart {chart}")
    }
}

/// Prepares the status for an install or upgrade: what other actions said no longer counts.
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

/// Writes into the status what came of an action, and makes `Ready` of it. The error, if it is returned, is that of an action which
/// left nothing in the storage: it is tried again without being counted.
///
/// # Errors
/// A record that cannot be written as JSON.
pub fn record(
    release: &mut HelmRelease,
    ran: &Ran<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, String> {
    let told = match ran.action {
        Action::Install => record_release(release, ran, ReleaseAction::Install, now)?,
        Action::Upgrade => record_release(release, ran, ReleaseAction::Upgrade, now)?,
        Action::Rollback(target) => rolled_back(release, ran, target, now)?,
        Action::UninstallRemediation => uninstalled(release, ran, now)?,
        Action::Test => tested(release, ran, now)?,
        Action::Unlock => unlocked(release, ran, now)?,
        Action::CorrectDrift => corrected(release, ran, now),
    };
    // Flux does not do so after an uninstall, which leaves the failure of before in Ready until the next look.
    if !matches!(
        ran.action,
        Action::UninstallRemediation | Action::CorrectDrift
    ) {
        summarize(release, now);
    }
    Ok(told)
}

/// Whether an action that failed left something behind, so that its failure counts and needs to be made good.
pub fn left_something(ran: &Ran<'_>) -> bool {
    !ran.written.is_empty()
}

fn told(warning: bool, reason: &'static str, message: String, about: About) -> ReleaseEvent {
    ReleaseEvent {
        warning,
        reason,
        message,
        about,
    }
}

/// An install or upgrade.
fn record_release(
    release: &mut HelmRelease,
    ran: &Ran<'_>,
    action: ReleaseAction,
    now: &str,
) -> Result<Option<ReleaseEvent>, String> {
    let newest = ran.written.iter().max_by_key(|record| record.version);
    for record in ran.written {
        if Some(record.version) == newest.map(|newest| newest.version) {
            let oci_digest = release.status.last_attempted_revision_digest.clone();
            let made = snapshot(record, Some(action), &oci_digest)?;
            prepend(&mut release.status.history, made);
        } else {
            // What it superseded loses its action, as in Flux: only the tests are kept.
            replace(release, record, |_| None, true)?;
        }
    }
    let is_install = action == ReleaseAction::Install;
    if let Some(error) = ran.error {
        release.status.failures += 1;
        if left_something(ran) {
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
            ran.chart.name,
            ran.chart.version,
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
        let about = About::of_attempt(release, ran.chart);
        return Ok(Some(told(true, reason, message, about)));
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
    Ok(Some(told(false, reason, message, About::of(&current))))
}

/// Renews the snapshot of a record, if there is one. Returns whether there is.
fn replace(
    release: &mut HelmRelease,
    record: &Release,
    action: impl Fn(&Snapshot) -> Option<ReleaseAction>,
    keep_tests: bool,
) -> Result<bool, String> {
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

/// A correction of drift. What could not be corrected is told; the next look finds it again.
fn corrected(release: &mut HelmRelease, ran: &Ran<'_>, now: &str) -> Option<ReleaseEvent> {
    let current = history::latest(&release.status.history)?.clone();
    let (name, about) = (current.full_name(), About::of(&current));
    let lines = ran.corrected.join("\n");
    let Some(error) = ran.error else {
        let message = format!("Cluster state of release {name} has been corrected:\n{lines}");
        let is_told = !ran.corrected.is_empty();
        return is_told.then(|| told(false, reasons::DRIFT_CORRECTED, message, about));
    };
    let (partially, done) = match ran.corrected.is_empty() {
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
    Some(told(true, reasons::DRIFT_CORRECTION_FAILED, message, about))
}

fn rolled_back(
    release: &mut HelmRelease,
    ran: &Ran<'_>,
    target: &Snapshot,
    now: &str,
) -> Result<Option<ReleaseEvent>, String> {
    for record in ran.written {
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
    // The token is that of what was tried: the rollback is its answer.
    let about = About {
        token: release.status.last_attempted_config_digest.clone(),
        ..About::of(target)
    };
    let told = match ran.error {
        Some(error) => {
            release.status.failures += 1;
            let message = format!("{subject} failed: {}", error.trim());
            mark(
                release,
                REMEDIATED,
                ConditionStatus::False,
                reasons::ROLLBACK_FAILED,
                &message,
                now,
            );
            told(true, reasons::ROLLBACK_FAILED, message, about)
        }
        None => {
            let message = format!("{subject} succeeded");
            mark(
                release,
                REMEDIATED,
                ConditionStatus::True,
                reasons::ROLLBACK_SUCCEEDED,
                &message,
                now,
            );
            told(false, reasons::ROLLBACK_SUCCEEDED, message, about)
        }
    };
    Ok(Some(told))
}

fn uninstalled(
    release: &mut HelmRelease,
    ran: &Ran<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, String> {
    for record in ran.written {
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
    let told = match ran.error {
        Some(error) => {
            release.status.failures += 1;
            let message = format!("{subject} failed: {}", error.trim());
            mark(
                release,
                REMEDIATED,
                ConditionStatus::False,
                reasons::UNINSTALL_FAILED,
                &message,
                now,
            );
            told(
                true,
                reasons::UNINSTALL_FAILED,
                message,
                About::of(&current),
            )
        }
        None => {
            let message = format!("{subject} succeeded");
            mark(
                release,
                REMEDIATED,
                ConditionStatus::True,
                reasons::UNINSTALL_SUCCEEDED,
                &message,
                now,
            );
            told(
                false,
                reasons::UNINSTALL_SUCCEEDED,
                message,
                About::of(&current),
            )
        }
    };
    Ok(Some(told))
}

/// How an uninstall went that is no remediation: the HelmRelease is deleted, or what it releases is another one now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uninstalled<'e> {
    /// It was done.
    Done,
    /// There was no record: somebody else did it.
    NotFound,
    /// The record that is kept says that it was done before.
    Before,
    /// It failed.
    Failed(&'e str),
}

/// Writes into the status what came of an uninstall that is no remediation.
///
/// # Errors
/// A record that cannot be written as JSON.
pub fn record_uninstall(
    release: &mut HelmRelease,
    written: &[Release],
    went: Uninstalled<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, String> {
    for record in written {
        replace(release, record, |_| Some(ReleaseAction::Uninstall), true)?;
    }
    let Some(current) = history::latest(&release.status.history).cloned() else {
        return Ok(None);
    };
    let (name, chart) = (current.full_name(), current.chart());
    let succeeded = reasons::UNINSTALL_SUCCEEDED;
    let (reason, message, is_told) = match went {
        Uninstalled::Done => (succeeded, messages::succeeded("uninstall", &current), true),
        Uninstalled::NotFound => {
            let message = format!("Release {name} was not found, assuming it is uninstalled");
            (succeeded, message, false)
        }
        Uninstalled::Before => (
            succeeded,
            format!("Release {name} was already uninstalled"),
            false,
        ),
        Uninstalled::Failed(error) => {
            release.status.failures += 1;
            let error = error.trim();
            let message =
                format!("Helm uninstall failed for release {name} with chart {chart}: {error}");
            (reasons::UNINSTALL_FAILED, message, true)
        }
    };
    if went == Uninstalled::Done {
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
    let warning = matches!(went, Uninstalled::Failed(_));
    Ok(is_told.then(|| told(warning, reason, message, About::of(&current))))
}

fn tested(
    release: &mut HelmRelease,
    ran: &Ran<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, String> {
    let filters = release.test().filters.clone().unwrap_or_default();
    for record in ran.written {
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
    if let Some(error) = ran.error {
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
        return Ok(Some(told(
            true,
            reasons::TEST_FAILED,
            message,
            About::of(&current),
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
    Ok(Some(told(
        false,
        reasons::TEST_SUCCEEDED,
        message,
        About::of(&current),
    )))
}

/// A failed test counts as a failure of the action that it tested, unless failures are ignored.
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

fn unlocked(
    release: &mut HelmRelease,
    ran: &Ran<'_>,
    now: &str,
) -> Result<Option<ReleaseEvent>, String> {
    let Some(record) = ran.written.last() else {
        return Ok(None);
    };
    let snapshots = &release.status.history;
    let noted = snapshots
        .iter()
        .find(|s| s.targets(&record.name, &record.namespace, record.version));
    let oci_digest = noted.map(|s| s.oci_digest.clone()).unwrap_or_default();
    let current = snapshot(record, None, &oci_digest)?;
    let was = pending_status(record);
    let (name, chart) = (current.full_name(), current.chart());
    if ran.error.is_none() {
        replace(release, record, |old| old.action, false)?;
    }
    let message = match ran.error {
        None => format!("Unlocked Helm release {name} with chart {chart} in {was} state"),
        Some(error) => {
            release.status.failures += 1;
            format!(
                "Unlock of Helm release {name} with chart {chart} in {was} state failed: {}",
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
    let warning = ran.error.is_some();
    Ok(Some(told(
        warning,
        reasons::PENDING_RELEASE,
        message,
        About::of(&current),
    )))
}

const UNLOCKED: (&str, &str) = ("Release unlocked from stale '", "' state");

/// Marks a pending record as failed: what [`Action::Unlock`] writes.
pub fn unlock(record: &mut Release) {
    let was = record.info.status.to_string();
    record.set_status(Status::Failed, format!("{}{was}{}", UNLOCKED.0, UNLOCKED.1));
}

/// The status that a record had before it was unlocked.
fn pending_status(record: &Release) -> &str {
    let description = record.info.description.as_str();
    let inner = description.strip_prefix(UNLOCKED.0);
    let inner = inner.and_then(|rest| rest.strip_suffix(UNLOCKED.1));
    inner.unwrap_or(record.info.status.as_str())
}
