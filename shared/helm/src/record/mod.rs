//! Helm's release record: the data of a release as Helm 3 and Helm 4 keep it in a Secret, and the
//! digests by which Flux's helm-controller recognizes a release.

mod chart;
mod create;
mod digest;
mod secret;
mod status;
mod time;

pub use chart::{RecordedChart, RecordedFile, RecordedMetadata};
pub use create::NewRelease;
pub use digest::{config_digest, digest_text, observation_digest, same_values};
pub use secret::{OWNER_LABELS, RecordError, RecordLimits, SECRET_TYPE, Stamp, secret_name};
pub use status::{HookPhase, Status};
pub use time::Time;

use crate::manifests::Hook;
use crate::values::Table;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// A release at one revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Release {
    /// The name of the release.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// The times and the status of the release.
    #[serde(deserialize_with = "or_default")]
    pub info: Info,
    /// The chart of the release.
    #[serde(deserialize_with = "or_default")]
    pub chart: RecordedChart,
    /// The user's values.
    #[serde(
        deserialize_with = "chart::float_table",
        skip_serializing_if = "Table::is_empty"
    )]
    pub config: Table,
    /// The rendered documents, without hooks.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub manifest: String,
    /// The hooks of the release.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<RecordedHook>,
    /// The revision, counted from 1.
    #[serde(deserialize_with = "or_default")]
    pub version: i64,
    /// The namespace in which it is installed.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// The user's labels: those of the Secret without Helm's own.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    /// `ssa`, `csa`, or empty for `csa` (Helm 4).
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub apply_method: String,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

/// The times and the status of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// The time at which its first revision was created.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub first_deployed: Option<Time>,
    /// The time at which this revision was created.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_deployed: Option<Time>,
    /// The time at which it was uninstalled.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub deleted: Option<Time>,
    /// A description of the last step.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub description: String,
    /// The status of the release.
    #[serde(deserialize_with = "or_default")]
    pub status: Status,
    /// The revision that this one rolled back to (Helm 4.3); 0 if it is not a rollback.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub rollback_revision: i64,
    /// The rendered NOTES.txt.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub notes: String,
    /// Fields of other versions, and `resources`, which Helm never writes to a record.
    #[serde(flatten)]
    pub rest: Table,
}

/// A hook with its events and its last run, as Helm stores it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedHook {
    /// The `metadata.name` of the hook.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// The `kind` of the hook.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
    /// The full name of the template.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub path: String,
    /// The rendered document.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub manifest: String,
    /// The events: `pre-install`, `test`, …
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The last run of the hook.
    #[serde(deserialize_with = "or_default")]
    pub last_run: HookRun,
    /// The weight; hooks with smaller ones run first.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// The policies: `before-hook-creation`, `hook-succeeded`, `hook-failed`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    /// The log policies: `hook-succeeded`, `hook-failed`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub output_log_policies: Vec<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

/// The last run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRun {
    /// The time at which it was applied.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub started_at: Option<Time>,
    /// The time at which it ended.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub completed_at: Option<Time>,
    /// The result of the run.
    #[serde(deserialize_with = "or_default")]
    pub phase: HookPhase,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

/// Deserializes null as the default value, like Go.
fn or_default<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Release {
    /// Checks whether the release was applied with server-side apply; a record of Helm 3 was not.
    pub fn is_server_side(&self) -> bool {
        self.apply_method == SERVER_SIDE
    }

    /// Sets the status and the description.
    pub fn set_status(&mut self, status: Status, description: impl Into<String>) {
        self.info.status = status;
        self.info.description = description.into();
    }
}

/// The [`Release::apply_method`] of a release that was applied with server-side apply.
pub const SERVER_SIDE: &str = "ssa";
/// The [`Release::apply_method`] of a release that was patched.
pub const CLIENT_SIDE: &str = "csa";

impl RecordedHook {
    /// Checks whether it runs at an event: `pre-install`, `test`, …
    pub fn runs_at(&self, event: &str) -> bool {
        self.events.iter().any(|e| e == event)
    }
}

impl From<&Hook> for RecordedHook {
    fn from(hook: &Hook) -> Self {
        RecordedHook {
            name: hook.manifest.name.clone(),
            kind: hook.manifest.kind.clone(),
            path: hook.manifest.source.clone(),
            manifest: hook.manifest.content.clone(),
            events: hook.events.clone(),
            weight: hook.weight,
            delete_policies: hook.delete_policies.clone(),
            output_log_policies: hook.log_policies.clone(),
            ..RecordedHook::default()
        }
    }
}
