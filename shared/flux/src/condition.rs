//! The conditions of a status, and their reasons.

use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;

/// The reasons of conditions and events, with Flux's names.
pub mod reason {
    #![allow(missing_docs, reason = "each constant is the word it stands for")]
    pub const SUCCEEDED: &str = "ReconciliationSucceeded";
    pub const FAILED: &str = "ReconciliationFailed";
    pub const PROGRESSING: &str = "Progressing";
    pub const PROGRESSING_WITH_RETRY: &str = "ProgressingWithRetry";
    pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
    pub const ARTIFACT_FAILED: &str = "ArtifactFailed";
    pub const BUILD_FAILED: &str = "BuildFailed";
    pub const PRUNE_FAILED: &str = "PruneFailed";
    pub const HEALTH_CHECK_FAILED: &str = "HealthCheckFailed";
    pub const INVALID_CEL: &str = "InvalidCELExpression";
    pub const ACCESS_DENIED: &str = "AccessDenied";
    pub const GIT_SUCCEEDED: &str = "GitOperationSucceeded";
    pub const GIT_FAILED: &str = "GitOperationFailed";
    pub const AUTHENTICATION_FAILED: &str = "AuthenticationFailed";
    pub const VERIFICATION_ERROR: &str = "VerificationError";
    pub const INVALID_VERIFICATION_MODE: &str = "InvalidVerificationMode";
    pub const INVALID_GIT_OBJECT: &str = "InvalidGitObject";
    pub const INVALID_TAG_SIGNATURE: &str = "InvalidTagSignature";
    pub const INVALID_COMMIT_SIGNATURE: &str = "InvalidCommitSignature";
    pub const URL_INVALID: &str = "URLInvalid";
    pub const NEW_ARTIFACT: &str = "NewArtifact";
    pub const NOTIFICATION_FAILED: &str = "NotificationDispatchFailed";
    pub const INVALID_CONFIG: &str = "InvalidConfig";
    pub const UNSUPPORTED: &str = "NotSupported";
    pub const PRUNE_HELD: &str = "PruneHeld";
    pub const STEP_INTERRUPTED: &str = "StepInterrupted";
    pub const META_SUCCEEDED: &str = "Succeeded";
    pub const SOURCE_FAILED: &str = "Failed";
    pub const READ_FAILED: &str = "ReadOperationFailed";
    pub const STORAGE_FAILED: &str = "ArchiveOperationFailed";
    pub const INDEXATION_FAILED: &str = "IndexationFailed";
    pub const SOURCE_FETCH_FAILED: &str = "SourceFetchFailed";
    pub const OWNERSHIP_CONFLICT: &str = "OwnershipConflict";
    pub const SOURCE_UNAVAILABLE: &str = "SourceUnavailable";
    pub const UNSUPPORTED_SOURCE: &str = "UnsupportedSourceKind";
    pub const NO_SOURCE_ARTIFACT: &str = "NoSourceArtifact";
    pub const NOT_FOUND: &str = "NotFound";
    pub const NO_ARTIFACT: &str = "NoArtifact";
    pub const ILLEGAL_PATH: &str = "IllegalPath";
    pub const COPY_FAILURE: &str = "CopyFailure";
    pub const INVALID_CHART_REFERENCE: &str = "InvalidChartReference";
    pub const CHART_VERIFICATION: &str = "ChartVerificationError";
    pub const CHART_PULL: &str = "ChartPullError";
    pub const CHART_PULL_SUCCEEDED: &str = "ChartPullSucceeded";
    pub const CHART_PACKAGE: &str = "ChartPackageError";
    pub const CHART_PACKAGE_SUCCEEDED: &str = "ChartPackageSucceeded";
    pub const VALUES_FILES: &str = "ValuesFilesError";
    pub const METADATA_PATCH: &str = "MetadataPatchError";
    pub const DEPENDENCY_BUILD: &str = "DependencyBuildError";
    pub const BUCKET_FAILED: &str = "BucketOperationFailed";
    pub const INVALID_STS: &str = "InvalidSTSConfiguration";
    pub const VALIDATION_FAILED: &str = "ValidationFailed";
    pub const TOKEN_NOT_FOUND: &str = "TokenNotFound";
    pub const OCI_PULL_FAILED: &str = "OCIArtifactPullFailed";
    pub const OCI_LAYER_FAILED: &str = "OCIArtifactLayerOperationFailed";
}

/// The condition that summarizes the others.
pub const READY: &str = "Ready";
/// The condition that is true while a reconciliation runs or is tried again.
pub const RECONCILING: &str = "Reconciling";
/// The condition that is true if only a change of the object or of its references can help.
pub const STALLED: &str = "Stalled";
/// The condition about the health of the objects that a Kustomization applied.
pub const HEALTHY: &str = "Healthy";

/// The `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each variant is the word it stands for")]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    /// Returns the status as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition of `status.conditions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type: `Ready`, `Reconciling`, `Stalled`, `Healthy`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// The generation of the object that the condition is about.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// The time of the last change of `status`, RFC 3339.
    #[serde(default)]
    pub last_transition_time: String,
    /// The reason, a CamelCase word.
    #[serde(default)]
    pub reason: String,
    /// The message for users.
    #[serde(default)]
    pub message: String,
}

impl Condition {
    /// Returns whether a condition `Ready` is false because the object waits for another one: for a
    /// dependency, or for the artifact of a source. A source or directory that does not exist is a
    /// failure.
    pub fn is_waiting(&self) -> bool {
        let no_artifact =
            self.reason == reason::ARTIFACT_FAILED && self.message.starts_with("Source artifact");
        let waits = [reason::DEPENDENCY_NOT_READY, reason::NO_SOURCE_ARTIFACT];
        self.status == ConditionStatus::False && (waits.contains(&&*self.reason) || no_artifact)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The limit of a condition's message in bytes, from the schema of `metav1.Condition`.
const MAX_MESSAGE_BYTES: usize = 32768;
const ELLIPSIS: &str = "...";

/// The conditions of one object, in Flux's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// Reads the conditions of a live object; empty if they are missing or not valid.
    pub fn of(object: &Object) -> Self {
        let conditions = object.pointer("/status/conditions");
        conditions
            .and_then(|conditions| Self::deserialize(conditions).ok())
            .unwrap_or_default()
    }

    /// Returns the condition `Ready`.
    pub fn ready(&self) -> Option<&Condition> {
        self.get(READY)
    }

    /// Returns the condition of a type.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Returns whether the condition of a type is `True`.
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Sets a condition. The transition time changes only with `status`, as in apimachinery's
    /// `SetStatusCondition`.
    pub fn set(
        &mut self,
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: &str,
        generation: i64,
        now: &str,
    ) {
        let since = self
            .get(kind)
            .filter(|old| old.status == status)
            .map(|old| old.last_transition_time.clone());
        let condition = Condition {
            kind: kind.to_owned(),
            status,
            observed_generation: generation,
            last_transition_time: since.unwrap_or_else(|| now.to_owned()),
            reason: reason.to_owned(),
            message: shorten(message, MAX_MESSAGE_BYTES),
        };
        self.remove(kind);
        self.0.push(condition);
        self.0.sort_by(|a, b| rank(a).cmp(&rank(b)));
    }

    /// Sets `Ready`, and removes `Reconciling` and `Stalled`.
    pub fn set_ready(&mut self, reason: &str, message: &str, generation: i64, now: &str) {
        self.remove(RECONCILING);
        self.remove(STALLED);
        let is_ready = ConditionStatus::True;
        self.set(READY, is_ready, reason, message, generation, now);
    }

    /// Sets `Reconciling`, and removes `Stalled`.
    pub fn set_reconciling(&mut self, reason: &str, message: &str, generation: i64, now: &str) {
        self.remove(STALLED);
        let is_reconciling = ConditionStatus::True;
        self.set(
            RECONCILING,
            is_reconciling,
            reason,
            message,
            generation,
            now,
        );
    }

    /// Sets `Stalled`, because only a change can help, and removes `Reconciling`.
    pub fn set_stalled(&mut self, reason: &str, message: &str, generation: i64, now: &str) {
        self.remove(RECONCILING);
        let is_stalled = ConditionStatus::True;
        self.set(STALLED, is_stalled, reason, message, generation, now);
    }

    /// Removes the condition of a type.
    pub fn remove(&mut self, kind: &str) {
        self.0.retain(|condition| condition.kind != kind);
    }

    /// Returns an iterator over the conditions.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }
}

/// Shortens a string to at most `most` bytes, at a character boundary, with an ellipsis.
pub fn shorten(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", &text[..end])
}

/// Returns the sort key of Flux's order: `Stalled` and `Reconciling`, then `Ready`, then the rest
/// with the newest generation first.
fn rank(condition: &Condition) -> (u8, Reverse<i64>, &str) {
    let weight = match condition.kind.as_str() {
        STALLED => 0,
        RECONCILING => 1,
        READY => 2,
        _ => 3,
    };
    let newest = match weight {
        3 => condition.observed_generation,
        _ => 0,
    };
    (weight, Reverse(newest), &condition.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_at_characters() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("ääää", 6), "ä...");
    }

    #[test]
    fn long_messages_are_cut_to_the_limit_of_the_api() {
        let mut conditions = Conditions::default();
        for message in ["a".repeat(MAX_MESSAGE_BYTES), "é".repeat(MAX_MESSAGE_BYTES)] {
            conditions.set("Ready", ConditionStatus::False, "Failed", &message, 1, "t");
            let stored = &conditions.get("Ready").unwrap().message;
            assert!(
                stored.len() <= MAX_MESSAGE_BYTES && stored.len() > MAX_MESSAGE_BYTES - 5,
                "{}",
                stored.len()
            );
            assert_eq!(stored == &message, message.len() == MAX_MESSAGE_BYTES);
        }
    }

    #[test]
    fn conditions_of_the_newest_generation_come_first() {
        let mut conditions = Conditions::default();
        conditions.set(
            "ArtifactInStorage",
            ConditionStatus::True,
            "Succeeded",
            "",
            1,
            "t",
        );
        conditions.set("FetchFailed", ConditionStatus::True, "Failed", "", 2, "t");
        conditions.set("Ready", ConditionStatus::False, "Failed", "", 2, "t");
        let kinds: Vec<&str> = conditions.iter().map(|one| &*one.kind).collect();
        assert_eq!(kinds, ["Ready", "FetchFailed", "ArtifactInStorage"]);
    }

    #[test]
    fn transition_time_moves_with_the_status_only() {
        let mut conditions = Conditions::default();
        conditions.set("Ready", ConditionStatus::False, "BuildFailed", "a", 1, "t1");
        conditions.set("Ready", ConditionStatus::False, "BuildFailed", "b", 2, "t2");
        assert_eq!(conditions.get("Ready").unwrap().last_transition_time, "t1");
        conditions.set(
            "Ready",
            ConditionStatus::True,
            "ReconciliationSucceeded",
            "c",
            2,
            "t3",
        );
        assert_eq!(conditions.get("Ready").unwrap().last_transition_time, "t3");
        conditions.set(
            "Reconciling",
            ConditionStatus::True,
            "Progressing",
            "",
            2,
            "t3",
        );
        assert_eq!(
            conditions.iter().map(|c| &*c.kind).collect::<Vec<_>>(),
            ["Reconciling", "Ready"]
        );
    }
}
