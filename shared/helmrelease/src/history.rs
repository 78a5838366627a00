//! `status.history`: snapshots of release records, the newest first.

use crate::error::ReleaseError;
use driftless_flux::{
    DEFAULT_HISTORY, HelmRelease, ReleaseAction, SNAPSHOT_VERSION, Snapshot, TestFilter,
    TestHookStatus,
};
use driftless_helm::record::{RecordedHook, Release, Time, config_digest, observation_digest};
use std::collections::BTreeMap;

/// Creates the history entry of a record.
///
/// # Errors
/// The record cannot be serialized as JSON.
pub fn snapshot(
    record: &Release,
    action: Option<ReleaseAction>,
    oci_digest: &str,
) -> Result<Snapshot, ReleaseError> {
    let metadata = &record.chart.metadata.known;
    Ok(Snapshot {
        api_version: SNAPSHOT_VERSION.to_owned(),
        digest: observation_digest(record, oci_digest).map_err(|error| ReleaseError::Record {
            name: record.name.clone(),
            reason: error.to_string(),
        })?,
        name: record.name.clone(),
        namespace: record.namespace.clone(),
        version: record.version,
        status: record.info.status.to_string(),
        action,
        chart_name: metadata.name.clone(),
        chart_version: metadata.version.clone(),
        app_version: metadata.app_version.clone(),
        config_digest: config_digest(&record.config),
        first_deployed: whole_seconds(record.info.first_deployed),
        last_deployed: whole_seconds(record.info.last_deployed),
        deleted: whole_seconds(record.info.deleted),
        test_hooks: None,
        oci_digest: oci_digest.to_owned(),
    })
}

/// Formats a time like Kubernetes, without fractions of a second.
fn whole_seconds(time: Option<Time>) -> Option<String> {
    let seconds = time?.timestamp().as_second();
    Some(jiff::Timestamp::from_second(seconds).ok()?.to_string())
}

/// Checks that a record matches a snapshot. The digest of a snapshot of an older API version is not
/// checked.
///
/// # Errors
/// Flux's reason why the record does not match.
pub fn verify(snapshot: &Snapshot, record: &Release) -> Result<(), &'static str> {
    if snapshot.api_version != SNAPSHOT_VERSION {
        return Ok(());
    }
    if !snapshot.digest.starts_with("sha256:") {
        return Err("release digest verification error");
    }
    match observation_digest(record, &snapshot.oci_digest) {
        Ok(digest) if digest == snapshot.digest => Ok(()),
        _ => Err("release not observed to be made for object"),
    }
}

/// Adds a snapshot, and keeps the newest first.
pub fn prepend(history: &mut Vec<Snapshot>, snapshot: Snapshot) {
    history.insert(0, snapshot);
    history.sort_by_key(|snapshot| -snapshot.version);
}

/// Returns the newest snapshot.
pub fn latest(history: &[Snapshot]) -> Option<&Snapshot> {
    history.iter().max_by_key(|snapshot| snapshot.version)
}

/// Returns the target of a rollback: the newest snapshot before the latest that was good, and that
/// passed its tests unless they are ignored.
pub fn previous(history: &[Snapshot], ignore_tests: bool) -> Option<&Snapshot> {
    let before = history.iter().skip(1);
    before
        .into_iter()
        .find(|snapshot| is_target(snapshot, ignore_tests))
}

fn is_target(snapshot: &Snapshot, ignore_tests: bool) -> bool {
    snapshot.is_good() && (ignore_tests || !snapshot.has_failed_test())
}

/// Drops the snapshots that are older than the target of a rollback; without a target, all but the
/// newest five.
pub fn truncate(history: &mut Vec<Snapshot>, ignore_tests: bool) {
    let target = history
        .iter()
        .skip(1)
        .position(|s| is_target(s, ignore_tests));
    match target {
        Some(at) => history.truncate(at + 2),
        None => history.truncate(DEFAULT_HISTORY),
    }
}

/// Drops all but the newest five snapshots: `RetryOnFailure` never rolls back.
pub fn truncate_to_newest(history: &mut Vec<Snapshot>) {
    history.truncate(DEFAULT_HISTORY);
}

/// Returns the selected tests of a record with their results, by name.
pub fn test_hooks(
    record: &Release,
    filters: &[TestFilter],
) -> BTreeMap<String, Option<TestHookStatus>> {
    let tests = record.hooks.iter().filter(|hook| hook.runs_at("test"));
    tests
        .filter(|hook| is_selected(&hook.name, filters))
        .map(|hook| (hook.name.clone(), Some(test_status(hook))))
        .collect()
}

/// Returns whether a test is run: it is not excluded, and it is included if any test is.
pub fn is_selected(test: &str, filters: &[TestFilter]) -> bool {
    let named = |exclude| {
        let of_kind = filters
            .iter()
            .filter(move |filter| filter.exclude == exclude);
        of_kind.map(|filter| filter.name.as_str())
    };
    !named(true).any(|name| name == test)
        && (named(false).next().is_none() || named(false).any(|name| name == test))
}

fn test_status(hook: &RecordedHook) -> TestHookStatus {
    TestHookStatus {
        last_started: whole_seconds(hook.last_run.started_at),
        last_completed: whole_seconds(hook.last_run.completed_at),
        phase: hook.last_run.phase.to_string(),
    }
}

/// Adopts a release of Flux before 2.2, whose status has only the revision. Without this the
/// release would be upgraded once although nothing changed.
///
/// # Errors
/// The record cannot be serialized as JSON.
pub fn adopt_legacy(release: &mut HelmRelease, last: Option<&Release>) -> Result<(), ReleaseError> {
    let status = &release.status;
    if !status.history.is_empty() || status.last_release_revision < 1 {
        return Ok(());
    }
    let is_same = |record: &&Release| {
        record.version == release.status.last_release_revision
            && record.name == release.release_name()
            && record.namespace == release.release_namespace()
    };
    if let Some(record) = last.filter(is_same) {
        let snapshot = snapshot(record, None, "")?;
        release.status.storage_namespace = release.storage_namespace().to_owned();
        release.status.history = vec![snapshot];
    }
    Ok(())
}
