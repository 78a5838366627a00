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

use super::{FluxKind, ObjectRef, spec_and_status};
use crate::error::FieldError;
use driftless_manifest::Object;

/// The annotation that requests a release without a change; its value must equal that of
/// [`super::REQUESTED_AT`].
pub const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
/// The annotation that resets the failure counters; its value must equal that of
/// [`super::REQUESTED_AT`].
pub const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";

/// A HelmRelease of any served version.
#[derive(Clone, Debug)]
pub struct HelmRelease {
    /// The reference of the object.
    pub id: ObjectRef,
    /// The live object that was read.
    pub object: Object,
    /// The desired state.
    pub spec: HelmReleaseSpec,
    /// The status that was written last.
    pub status: HelmReleaseStatus,
}

impl super::FluxObject for HelmRelease {
    type Status = HelmReleaseStatus;

    fn from_object(object: Object) -> Result<Self, FieldError> {
        Self::from_object(object)
    }

    fn object(&self) -> &Object {
        &self.object
    }

    fn status(&self) -> &HelmReleaseStatus {
        &self.status
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }
}

impl HelmRelease {
    /// Parses a live object of any served version. Fields of older versions are converted:
    /// `valuesFile` of a chart is put before its `valuesFiles`.
    ///
    /// # Errors
    /// A field is not valid; the message names it.
    pub fn from_object(object: Object) -> Result<Self, FieldError> {
        let (mut spec, mut status): (HelmReleaseSpec, HelmReleaseStatus) =
            spec_and_status(&object)?;
        if let Some(chart) = &mut spec.chart {
            let file = chart
                .spec
                .values_file
                .take()
                .filter(|file| !file.is_empty());
            chart.spec.values_files.splice(0..0, file);
        }
        if spec.chart.is_some() == spec.chart_ref.is_some() {
            return Err(FieldError::Value(
                "spec: either chart or chartRef must be set".to_owned(),
            ));
        }
        status.history.sort_by_key(|snapshot| -snapshot.version);
        let id = ObjectRef::new(FluxKind::HelmRelease, object.namespace(), object.name());
        Ok(Self {
            id,
            object,
            spec,
            status,
        })
    }

    /// Returns whether values of the release may come from a Secret.
    pub fn may_have_secret_values(&self) -> bool {
        let mut references = self.spec.values_from.iter();
        references.any(|reference| reference.kind == "Secret")
    }

    /// Returns `metadata.generation` of the object.
    pub fn generation(&self) -> i64 {
        crate::generation(&self.object)
    }
}

#[cfg(test)]
mod tests;
