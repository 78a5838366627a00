//! The kind `HelmRelease` of helm.toolkit.fluxcd.io: v2, v2beta2 and v2beta1 in one model.

mod actions;
mod defaults;
mod release_action;
mod snapshot;
mod spec;
mod status;

pub use actions::*;
pub use defaults::{DEFAULT_HISTORY, Remediation, short_release_name};
pub use release_action::ReleaseAction;
pub use snapshot::{SNAPSHOT_VERSION, Snapshot, TestHookStatus};
pub use spec::*;
pub use status::HelmReleaseStatus;

use super::{FluxKind, FluxSpec, Typed};
use crate::error::FieldError;

/// The annotation that requests a release without a change; its value must equal that of
/// [`super::REQUESTED_AT`].
pub const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
/// The annotation that resets the failure counters; its value must equal that of
/// [`super::REQUESTED_AT`].
pub const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";

/// A HelmRelease of any served version.
pub type HelmRelease = Typed<HelmReleaseSpec>;

impl FluxSpec for HelmReleaseSpec {
    const KIND: FluxKind = FluxKind::HelmRelease;
    type Status = HelmReleaseStatus;

    /// Puts `valuesFile` of a chart, which older versions have, before its `valuesFiles`.
    fn convert(&mut self, status: &mut HelmReleaseStatus) -> Result<(), FieldError> {
        if let Some(chart) = &mut self.chart {
            let file = chart.spec.values_file.take();
            let file = file.filter(|file| !file.is_empty());
            chart.spec.values_files.splice(0..0, file);
        }
        if self.chart.is_some() == self.chart_ref.is_some() {
            return Err(FieldError::Value(
                "spec: either chart or chartRef must be set".to_owned(),
            ));
        }
        status.history.sort_by_key(|snapshot| -snapshot.version);
        Ok(())
    }
}

impl HelmRelease {
    /// Returns whether values of the release may come from a Secret.
    pub fn may_have_secret_values(&self) -> bool {
        let mut references = self.spec.values_from.iter();
        references.any(|reference| reference.kind == "Secret")
    }
}

#[cfg(test)]
mod tests;
