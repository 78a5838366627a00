//! The state of a release: what is in the storage, against what the HelmRelease wants.

use super::history;
use crate::flux::{CommonMetadata, HelmRelease, PostRenderer};
use driftless_go::json;
use driftless_helm::record::{Release, Status, digest_text, same_values};
use driftless_helm::values::{Table, merge};
use serde::Serialize;
use std::borrow::Cow;

/// Where a release stands. The texts are reasons for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Absent(&'static str),
    /// There is one that this object did not make.
    Unmanaged(&'static str),
    /// An action is under way, or its process died.
    Locked,
    /// It is of another chart, other values or other post-renderers.
    OutOfSync(&'static str),
    /// Others changed its objects.
    Drifted,
    /// Its tests were not run yet.
    Untested,
    /// It, or a test of it, failed.
    Failed(&'static str),
    /// All is as wanted.
    InSync,
}

/// What the release should be made of.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'d> {
    /// The chart's name.
    pub chart_name: &'d str,
    /// The chart's version.
    pub chart_version: &'d str,
    /// The values.
    pub values: &'d Table,
}

/// Finds the state, but for drift: with `spec.driftDetection` an [`State::InSync`] release is [`State::Drifted`] when its
/// objects differ from the record.
///
/// # Errors
/// A status in the storage that cannot be acted on.
pub fn determine(
    release: &HelmRelease,
    last: Option<&Release>,
    desired: &Desired<'_>,
) -> Result<State, String> {
    let Some(last) = last else {
        return Ok(State::Absent("no release in storage for object"));
    };
    let status = &last.info.status;
    if status.is_pending() {
        return Ok(State::Locked);
    }
    let Some(current) = history::latest(&release.status.history) else {
        return Ok(match status {
            Status::Uninstalled => State::Absent("found uninstalled release in storage"),
            _ => State::Unmanaged("found existing release in storage"),
        });
    };
    if let Err(reason) = history::verify(current, last) {
        return Ok(State::Unmanaged(reason));
    }
    match status {
        Status::Failed => return Ok(State::Failed("")),
        Status::Uninstalled => return Ok(State::Absent("found uninstalled release in storage")),
        Status::Deployed => {}
        other => {
            return Err(format!(
                "unable to determine state for release with status '{other}'"
            ));
        }
    }
    let chart = &last.chart.metadata.known;
    if chart.name != desired.chart_name || chart.version != desired.chart_version {
        return Ok(State::OutOfSync("release chart changed"));
    }
    let values = match release.upgrade().preserve_values {
        // What was kept of the values of before is in the record. Flux compares the new ones alone, and upgrades at every look.
        true => Cow::Owned(merge(last.config.clone(), desired.values.clone())),
        false => Cow::Borrowed(desired.values),
    };
    if !same_values(&current.config_digest, &values) {
        return Ok(State::OutOfSync("release config values changed"));
    }
    if let Some(reason) = changed_rendering(release) {
        return Ok(State::OutOfSync(reason));
    }
    if release.test().enable {
        if !current.has_been_tested() {
            return Ok(State::Untested);
        }
        let counts = release
            .active_remediation()
            .is_some_and(|remediation| !remediation.ignore_test_failures);
        if counts && current.has_failed_test() {
            return Ok(State::Failed("release has test in failed phase"));
        }
    }
    Ok(State::InSync)
}

/// Whether post-renderers or common metadata changed since the last release. Only a new generation can do that.
fn changed_rendering(release: &HelmRelease) -> Option<&'static str> {
    let status = &release.status;
    if status.observed_generation == Some(release.generation()) {
        return None;
    }
    let renderers = release.spec.post_renderers.as_deref();
    if post_renderers_digest(renderers) != status.observed_post_renderers_digest {
        return Some("postrenderers digest has changed");
    }
    let metadata = release.spec.common_metadata.as_ref();
    (common_metadata_digest(metadata) != status.observed_common_metadata_digest)
        .then_some("common metadata digest has changed")
}

/// `status.observedPostRenderersDigest`: empty for none.
pub fn post_renderers_digest(renderers: Option<&[PostRenderer]>) -> String {
    renderers.map(encoded).unwrap_or_default()
}

/// `status.observedCommonMetadataDigest`: empty for none.
pub fn common_metadata_digest(metadata: Option<&CommonMetadata>) -> String {
    metadata.map(encoded).unwrap_or_default()
}

/// The digest of what Go's `json.Encoder` writes. What cannot be written has none, as there.
fn encoded<T: Serialize + ?Sized>(value: &T) -> String {
    json::to_string(value)
        .map(|text| digest_text(format!("{text}\n").as_bytes()))
        .unwrap_or_default()
}

/// Why the failures so far no longer count: what was tried last is not what would be tried now.
pub fn failures_are_stale(release: &HelmRelease, desired: &Desired<'_>) -> Option<&'static str> {
    let status = &release.status;
    if status.last_attempted_generation != release.generation() {
        return Some("generation differs from last attempt");
    }
    if status.last_attempted_revision != desired.chart_version {
        return Some("chart version differs from last attempt");
    }
    let digest = match status.last_attempted_config_digest.as_str() {
        "" if status.last_attempted_values_checksum.is_empty() => return None,
        "" => format!("sha1:{}", status.last_attempted_values_checksum),
        digest => digest.to_owned(),
    };
    (!same_values(&digest, desired.values)).then_some("values differ from last attempt")
}

/// What of a release cannot change by an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The namespace of the records.
    StorageNamespace,
    /// The namespace of the release.
    ReleaseNamespace,
    /// The name of the release.
    ReleaseName,
    /// The name of the chart.
    ChartName,
}

/// Whether the release that was made is not the one that is wanted, so that it must be uninstalled first. A new chart name counts
/// unless `upgrade.chartNameChangeStrategy` is `InPlaceUpdate`.
pub fn changed_target(release: &HelmRelease, chart_name: &str) -> Option<Target> {
    let current = history::latest(&release.status.history)?;
    let stored = &release.status.storage_namespace;
    if stored.is_empty() {
        return None;
    }
    if release.storage_namespace() != stored {
        return Some(Target::StorageNamespace);
    }
    if release.release_namespace() != current.namespace {
        return Some(Target::ReleaseNamespace);
    }
    if release.release_name() != current.name {
        return Some(Target::ReleaseName);
    }
    let reinstalls = release.chart_name_change() == crate::flux::ChartNameChange::Reinstall;
    (reinstalls && chart_name != current.chart_name).then_some(Target::ChartName)
}
