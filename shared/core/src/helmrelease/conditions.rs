//! Conditions of a HelmRelease: Released, Remediated and TestSuccess, and Ready as their summary.

use super::state::{common_metadata_digest, post_renderers_digest};
use crate::flux::{ConditionStatus, HelmRelease, READY, RECONCILING, STALLED, reason};

/// Whether the last install, upgrade or uninstall went well.
pub const RELEASED: &str = "Released";
/// Whether the last failure was made good.
pub const REMEDIATED: &str = "Remediated";
/// Whether the tests succeeded.
pub const TEST_SUCCESS: &str = "TestSuccess";
/// Whether others changed the release's objects.
pub const DRIFTED: &str = "Drifted";

/// Reasons of HelmReleases, as Flux names them.
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

/// Sets a condition for the object's generation. Messages beyond 32 KiB are cut, as the API server would refuse them.
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

/// Says that work goes on.
pub fn mark_reconciling(release: &mut HelmRelease, reason: &str, message: &str, now: &str) {
    release.status.conditions.remove(STALLED);
    mark(
        release,
        RECONCILING,
        ConditionStatus::True,
        reason,
        message,
        now,
    );
}

/// Says that only a change can help.
pub fn mark_stalled(release: &mut HelmRelease, reason: &str, message: &str, now: &str) {
    release.status.conditions.remove(RECONCILING);
    mark(
        release,
        STALLED,
        ConditionStatus::True,
        reason,
        message,
        now,
    );
}

/// Says that an action runs: `Reconciling`, and `Ready` when the action makes a release.
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

/// Replaces `Remediated=True` by `Released=True`, with its transition time.
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

/// Makes `Ready` of the others: the one of the highest generation counts, of those `Remediated` before `TestSuccess` before
/// `Released`. A remediated release is not ready. Notes the digests of post-renderers and common metadata.
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
