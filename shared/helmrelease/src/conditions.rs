//! The conditions of a HelmRelease: Released, Remediated and TestSuccess, and Ready as their
//! summary.

use super::state::{common_metadata_digest, post_renderers_digest};
use driftless_flux::{ConditionStatus, HelmRelease, READY, STALLED, reason};

/// The condition about the last install, upgrade or uninstall: true if it succeeded.
pub const RELEASED: &str = "Released";
/// The condition about the remediation of the last failure: true if it succeeded.
pub const REMEDIATED: &str = "Remediated";
/// The condition about the release's tests: true if they succeeded.
pub const TEST_SUCCESS: &str = "TestSuccess";
/// The condition about drift: true if the release's objects were changed by others.
pub const DRIFTED: &str = "Drifted";

/// The reasons in the conditions and events of HelmReleases, with Flux's names.
pub mod reasons {
    #![allow(missing_docs, reason = "each constant is the word it stands for")]
    pub const INSTALL_SUCCEEDED: &str = "InstallSucceeded";
    pub const INSTALL_FAILED: &str = "InstallFailed";
    pub const UPGRADE_SUCCEEDED: &str = "UpgradeSucceeded";
    pub const UPGRADE_FAILED: &str = "UpgradeFailed";
    pub const TEST_SUCCEEDED: &str = "TestSucceeded";
    pub const TEST_FAILED: &str = "TestFailed";
    pub const AWAITING_TESTS: &str = "AwaitingTests";
    pub const ROLLBACK_SUCCEEDED: &str = "RollbackSucceeded";
    pub const ROLLBACK_FAILED: &str = "RollbackFailed";
    pub const UNINSTALL_SUCCEEDED: &str = "UninstallSucceeded";
    pub const UNINSTALL_FAILED: &str = "UninstallFailed";
    pub const PENDING_RELEASE: &str = "PendingRelease";
    pub const DRIFT_DETECTED: &str = "DriftDetected";
    pub const DRIFT_CORRECTED: &str = "DriftCorrected";
    pub const DRIFT_CORRECTION_FAILED: &str = "DriftCorrectionFailed";
    pub const NO_DRIFT_DETECTED: &str = "NoDriftDetected";
    pub const RETRIES_EXCEEDED: &str = "RetriesExceeded";
    pub const MISSING_ROLLBACK_TARGET: &str = "MissingRollbackTarget";
    pub const RECONCILE_ERROR: &str = "ReconcileError";
    pub const STATE_ERROR: &str = "StateError";
    pub const VALUES_ERROR: &str = "ValuesError";
    pub const REST_CLIENT_ERROR: &str = "RESTClientError";
    pub const CHART_MUTATE_ERROR: &str = "ChartMutateError";
    pub const SOURCE_NOT_READY: &str = "SourceNotReady";
}

/// Sets a condition for the object's generation. Messages over 32 KiB are cut, because the API
/// server would refuse them.
pub fn mark(
    release: &mut HelmRelease,
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    now: &str,
) {
    let generation = release.generation();
    let conditions = &mut release.status.conditions;
    conditions.set(kind, status, reason, message, generation, now);
}

/// Sets `Reconciling` and removes `Stalled`.
pub fn mark_reconciling(release: &mut HelmRelease, reason: &str, message: &str, now: &str) {
    let generation = release.generation();
    let conditions = &mut release.status.conditions;
    conditions.set_reconciling(reason, message, generation, now);
}

/// Sets `Stalled`, because only a change can help, and removes `Reconciling`.
pub fn mark_stalled(release: &mut HelmRelease, reason: &str, message: &str, now: &str) {
    let generation = release.generation();
    let conditions = &mut release.status.conditions;
    conditions.set_stalled(reason, message, generation, now);
}

/// Marks an action as running: sets `Reconciling`, and `Ready` to unknown if the action makes a
/// release.
pub fn mark_running(release: &mut HelmRelease, message: &str, makes_release: bool, now: &str) {
    mark_reconciling(release, reason::PROGRESSING, message, now);
    if makes_release {
        mark(
            release,
            READY,
            ConditionStatus::Unknown,
            reason::PROGRESSING,
            message,
            now,
        );
    }
}

/// Replaces `Remediated=True` by `Released=True`, and keeps the transition time.
pub fn replace_remediated(release: &mut HelmRelease, reason: &str, message: &str) {
    let conditions = &mut release.status.conditions;
    let Some(remediated) = conditions.get(REMEDIATED).cloned() else {
        return;
    };
    conditions.remove(REMEDIATED);
    conditions.remove(RELEASED);
    let since = remediated.last_transition_time;
    mark(
        release,
        RELEASED,
        ConditionStatus::True,
        reason,
        message,
        &since,
    );
}

/// Sets `Ready` from the other conditions: the one with the highest generation counts, and of equal
/// ones `Remediated` before `TestSuccess` before `Released`. A remediated release is not ready.
/// Notes the digests of post-renderers and common metadata.
pub fn summarize(release: &mut HelmRelease, now: &str) {
    let test = release.test();
    let (tests_enabled, tests_count) = (test.enable, test.enable && !test.ignore_failures);
    drop(test);
    if !tests_enabled {
        release.status.conditions.remove(TEST_SUCCESS);
    }
    let order: &[&str] = match tests_count {
        true => &[REMEDIATED, TEST_SUCCESS, RELEASED],
        false => &[REMEDIATED, RELEASED],
    };
    let first = order
        .iter()
        .rev()
        .filter_map(|kind| release.status.conditions.get(kind))
        .max_by_key(|condition| condition.observed_generation)
        .cloned();
    if let Some(first) = first {
        let status = match first.kind.as_str() {
            REMEDIATED => ConditionStatus::False,
            _ => first.status,
        };
        if status == ConditionStatus::True {
            release.status.conditions.remove(STALLED);
        }
        mark(release, READY, status, &first.reason, &first.message, now);
    }
    release.status.observed_post_renderers_digest =
        post_renderers_digest(release.spec.post_renderers.as_deref());
    release.status.observed_common_metadata_digest =
        common_metadata_digest(release.spec.common_metadata.as_ref());
}
