//! `status.history`: snapshots of release records, newest first.

use crate::flux::{
    HelmRelease, ReleaseAction, SNAPSHOT_VERSION, Snapshot, TestFilter, TestHookStatus,
};
use driftless_helm::record::{RecordedHook, Release, Time, config_digest, observation_digest};
use std::collections::BTreeMap;

/// What is kept when nothing tells how much: Flux's default of `spec.maxHistory`.
const MOST: usize = 5;

/// What a record looks like in the history.
///
/// # Errors
/// A record that cannot be written as JSON.
pub fn snapshot(
    record: &Release,
    action: Option<ReleaseAction>,
    oci_digest: &str,
) -> Result<Snapshot, String> {
    let metadata = &record.chart.metadata.known;
    Ok(Snapshot {
        api_version: SNAPSHOT_VERSION.to_owned(),
        digest: observation_digest(record, oci_digest)
            .map_err(|error| format!("release {}: {error}", record.name))?,
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

/// A time as Kubernetes writes it.
fn whole_seconds(time: Option<Time>) -> Option<String> {
    let seconds = time?.timestamp().as_second();
    Some(jiff::Timestamp::from_second(seconds).ok()?.to_string())
}

/// Whether a record is the one of the snapshot; why not.
///
/// # Errors
/// Flux's sentence about what is wrong. A snapshot whose digest was made in an older way is taken as it is.
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

/// Puts a snapshot before the others.
pub fn prepend(history: &mut Vec<Snapshot>, snapshot: Snapshot) {
    history.insert(0, snapshot);
    history.sort_by_key(|snapshot| -snapshot.version);
}

/// The newest one.
pub fn latest(history: &[Snapshot]) -> Option<&Snapshot> {
    history.iter().max_by_key(|snapshot| snapshot.version)
}

/// What a rollback would go to: the newest one before the latest that was good, and passed its tests where they count.
pub fn previous(history: &[Snapshot], ignore_tests: bool) -> Option<&Snapshot> {
    let before = history.iter().skip(1);
    before
        .into_iter()
        .find(|snapshot| is_target(snapshot, ignore_tests))
}

fn is_target(snapshot: &Snapshot, ignore_tests: bool) -> bool {
    snapshot.is_good() && (ignore_tests || !snapshot.has_failed_test())
}

/// Drops everything older than what a rollback would go to; without that, all but the newest five.
pub fn truncate(history: &mut Vec<Snapshot>, ignore_tests: bool) {
    let target = history
        .iter()
        .skip(1)
        .position(|s| is_target(s, ignore_tests));
    match target {
        Some(at) => history.truncate(at + 2),
        None => history.truncate(MOST),
    }
}

/// Drops all but the newest five: with `RetryOnFailure` there is no way back.
pub fn truncate_to_newest(history: &mut Vec<Snapshot>) {
    history.truncate(MOST);
}

/// The tests of a record that are selected, as they went.
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

/// Whether a test is run: not one that is left out, and only those that are named if any is.
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

/// Takes over a release that Flux before 2.2 made: its status knows the revision only. Without this the release would be upgraded
/// once although nothing changed.
///
/// # Errors
/// A record that cannot be written as JSON.
pub fn adopt_legacy(release: &mut HelmRelease, last: Option<&Release>) -> Result<(), String> {
    let status = &release.status;
    if !status.history.is_empty() || status.last_release_revision < 1 {
        return Ok(());
    }
    let is_it = |record: &&Release| {
        record.version == release.status.last_release_revision
            && record.name == release.release_name()
            && record.namespace == release.release_namespace()
    };
    if let Some(record) = last.filter(is_it) {
        let snapshot = snapshot(record, None, "")?;
        release.status.storage_namespace = release.storage_namespace().to_owned();
        release.status.history = vec![snapshot];
    }
    Ok(())
}
