//! Determines the state of a release: compares the storage with the HelmRelease.

use super::history;
use crate::error::ReleaseError;
use driftless_flux::{CommonMetadata, HelmRelease, PostRenderer};
use driftless_go::json;
use driftless_helm::record::{Release, Status, digest_text, same_values};
use driftless_helm::values::{Table, merge};
use serde::Serialize;
use std::borrow::Cow;

/// The state of a release. The strings are reasons for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The release does not exist.
    Absent(&'static str),
    /// A release exists that this HelmRelease did not make.
    Unmanaged(&'static str),
    /// An action is running, or its process crashed.
    Locked,
    /// The release has another chart, other values or other post-renderers than desired.
    OutOfSync(&'static str),
    /// The objects of the release were changed by others.
    Drifted,
    /// The tests of the release were not run yet.
    Untested,
    /// The release, or one of its tests, failed.
    Failed(&'static str),
    /// The release is as desired.
    InSync,
}

/// The desired chart and values of a release.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'d> {
    /// The name of the desired chart.
    pub chart_name: &'d str,
    /// The version of the desired chart.
    pub chart_version: &'d str,
    /// The desired values, without the chart's defaults.
    pub values: &'d Table,
}

/// Determines the state, except drift: with `spec.driftDetection`, a release that is
/// [`State::InSync`] here is [`State::Drifted`] if its objects differ from the record.
///
/// # Errors
/// The record has a status for which no action exists.
pub fn determine(
    release: &HelmRelease,
    last: Option<&Release>,
    desired: &Desired<'_>,
) -> Result<State, ReleaseError> {
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
            return Err(ReleaseError::Status(other.clone()));
        }
    }
    let chart = &last.chart.metadata.known;
    if chart.name != desired.chart_name || chart.version != desired.chart_version {
        return Ok(State::OutOfSync("release chart changed"));
    }
    let values = match release.upgrade().preserve_values {
        // The record already holds the preserved values. Flux compares only the new ones, and
        // upgrades at every reconciliation.
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

/// Returns the reason if post-renderers or common metadata changed since the last release. Only a
/// new generation can change them.
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

/// Returns `status.observedPostRenderersDigest`: empty without post-renderers.
pub fn post_renderers_digest(renderers: Option<&[PostRenderer]>) -> String {
    renderers.map(json_digest).unwrap_or_default()
}

/// Returns `status.observedCommonMetadataDigest`: empty without common metadata.
pub fn common_metadata_digest(metadata: Option<&CommonMetadata>) -> String {
    metadata.map(json_digest).unwrap_or_default()
}

/// Returns the digest of the output of Go's `json.Encoder`: empty if the value cannot be encoded,
/// as in Flux.
fn json_digest<T: Serialize + ?Sized>(value: &T) -> String {
    json::to_string(value)
        .map(|text| digest_text(format!("{text}\n").as_bytes()))
        .unwrap_or_default()
}

/// Returns the reason if the failures so far no longer count, because the last attempt was for
/// another generation, chart or values.
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

/// A property of a release that an upgrade cannot change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The namespace of the records.
    StorageNamespace,
    /// `spec.targetNamespace`, or the namespace of the HelmRelease.
    ReleaseNamespace,
    /// `spec.releaseName`, or the name that Flux composes.
    ReleaseName,
    /// `name` of Chart.yaml.
    ChartName,
}

/// Returns the property by which the current release differs from the desired one, so that it must
/// be uninstalled first. A new chart name counts unless `upgrade.chartNameChangeStrategy` is
/// `InPlaceUpdate`.
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
    let reinstalls = release.chart_name_change() == driftless_flux::ChartNameChange::Reinstall;
    (reinstalls && chart_name != current.chart_name).then_some(Target::ChartName)
}
