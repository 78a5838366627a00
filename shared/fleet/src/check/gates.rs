//! The flag `--feature-gates`, in the syntax of Flux's controllers.

use super::apiserver::{self, InvalidSetting};
use driftless_kernel::hub::Settings;

/// A feature gate and its value.
#[derive(Clone)]
pub struct Gate {
    name: &'static str,
    enabled: bool,
}

/// The feature gates of Flux's controllers. Gates that this module does not apply change how the
/// controllers work, but not what a check finds.
const GATES: [&str; 24] = [
    "AdditiveCELDependencyCheck",
    "AdoptLegacyReleases",
    "AllowDNSLookups",
    "CacheSecretsAndConfigMaps",
    "CancelHealthCheckOnNewRevision",
    "CorrectDrift",
    "DefaultToRetryOnFailure",
    "DetectDrift",
    "DirectSourceFetch",
    "DisableChartDigestTracking",
    "DisableConfigWatchers",
    "DisableFailFastBehavior",
    "DisableStatusPollerCache",
    "ExternalArtifact",
    "GitAllBranchReferences",
    "GitForcePushBranch",
    "GitShallowClone",
    "GitSparseCheckout",
    "GroupChangeLog",
    "OOMWatch",
    "ObjectLevelWorkloadIdentity",
    "StrictPostBuildSubstitutions",
    "UninstallOnChartNameChange",
    "UseHelm3Defaults",
];

/// The reason that a string does not set a feature gate of Flux.
#[derive(Debug, thiserror::Error)]
pub enum InvalidGate {
    /// The form is different.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// Flux does not have the gate.
    #[error("Flux has no feature gate '{0}': expected one of {known}", known = GATES.join(", "))]
    Unknown(String),
}

/// Reads `NAME=true` or `NAME=false`.
///
/// # Errors
/// The form is different, or Flux does not have the gate.
pub fn parse(text: &str) -> Result<Gate, InvalidGate> {
    let (name, enabled) = apiserver::parse(text)?;
    let known = GATES.into_iter().find(|known| *known == name);
    let name = known.ok_or(InvalidGate::Unknown(name))?;
    Ok(Gate { name, enabled })
}

/// The feature gates of the command line.
pub struct Gates<'a>(&'a [Gate]);

impl<'a> Gates<'a> {
    /// Wraps the gates of the command line.
    pub fn new(gates: &'a [Gate]) -> Self {
        Self(gates)
    }

    /// Applies the gates to the settings that steps read from a hub.
    pub fn apply(&self, settings: &mut Settings) {
        settings.lenient_substitutions = self.get("StrictPostBuildSubstitutions") == Some(false);
        settings.helm3_defaults = self.get("UseHelm3Defaults") == Some(true);
        settings.additive_dependency_check = self.get("AdditiveCELDependencyCheck") == Some(true);
    }

    /// Returns whether sources of the kind ExternalArtifact are allowed, or `None` if the gate is
    /// not set.
    pub fn external_artifacts(&self) -> Option<bool> {
        self.get("ExternalArtifact")
    }

    fn get(&self, name: &str) -> Option<bool> {
        let last = self.0.iter().rev().find(|gate| gate.name == name);
        last.map(|gate| gate.enabled)
    }
}
