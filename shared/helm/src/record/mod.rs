//! Helm's release record: what a release is made of, as Helm 3 and Helm 4 keep it in a Secret, and the digests by which
//! Flux's helm-controller knows a release again.

mod chart;
mod digest;
mod make;
mod secret;
mod status;
mod time;

pub use chart::{RecordedChart, RecordedFile, RecordedMetadata};
pub use digest::{config_digest, digest_text, observation_digest, same_values};
pub use make::NewRelease;
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
    /// The release's name.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// What happened to it.
    #[serde(deserialize_with = "or_default")]
    pub info: Info,
    /// The chart.
    #[serde(deserialize_with = "or_default")]
    pub chart: RecordedChart,
    /// The user's values.
    #[serde(
        deserialize_with = "chart::float_table",
        skip_serializing_if = "Table::is_empty"
    )]
    pub config: Table,
    /// The rendered documents but hooks.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub manifest: String,
    /// The hooks.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<RecordedHook>,
    /// The revision, from 1.
    #[serde(deserialize_with = "or_default")]
    pub version: i64,
    /// The namespace that it is installed in.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// The user's labels: those of the Secret but Helm's own.
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

/// What happened to a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// When its first revision was made.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub first_deployed: Option<Time>,
    /// When this revision was made.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_deployed: Option<Time>,
    /// When it was uninstalled.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub deleted: Option<Time>,
    /// A sentence about the last step.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub description: String,
    /// Where it stands.
    #[serde(deserialize_with = "or_default")]
    pub status: Status,
    /// The revision that this one rolled back to (Helm 4.3); 0 if it is no rollback.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub rollback_revision: i64,
    /// The rendered NOTES.txt.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub notes: String,
    /// Fields of other versions, and `resources`, which Helm writes in no record.
    #[serde(flatten)]
    pub rest: Table,
}

/// A hook in a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedHook {
    /// `metadata.name`.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// `kind`.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
    /// The template's full name.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub path: String,
    /// The document.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub manifest: String,
    /// `pre-install`, `test`, …
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Its last run.
    #[serde(deserialize_with = "or_default")]
    pub last_run: HookRun,
    /// Lighter ones run first.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// `before-hook-creation`, `hook-succeeded`, `hook-failed`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    /// `hook-succeeded`, `hook-failed`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub output_log_policies: Vec<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

/// A hook's last run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRun {
    /// When it was applied.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub started_at: Option<Time>,
    /// When it was done.
    #[serde(
        deserialize_with = "time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub completed_at: Option<Time>,
    /// How it ended.
    #[serde(deserialize_with = "or_default")]
    pub phase: HookPhase,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

/// Null is the zero value, as in Go.
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
    /// Whether the release was applied on the server; a record of Helm 3 was not.
    pub fn is_server_side(&self) -> bool {
        self.apply_method == SERVER_SIDE
    }

    /// Sets status and description.
    pub fn set_status(&mut self, status: Status, description: impl Into<String>) {
        self.info.status = status;
        self.info.description = description.into();
    }
}

/// [`Release::apply_method`] of a release that was applied on the server.
pub const SERVER_SIDE: &str = "ssa";
/// [`Release::apply_method`] of a release that was patched.
pub const CLIENT_SIDE: &str = "csa";

impl RecordedHook {
    /// Whether it runs at an event: `pre-install`, `test`, …
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
