//! The flag `--feature-gates`, in the syntax of Flux's controllers.

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

/// Reads `NAME=true` or `NAME=false`.
///
/// # Errors
/// The form is different, or Flux does not have the gate.
pub fn parse(text: &str) -> Result<Gate, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected NAME=true or NAME=false")?;
    let enabled = match value {
        "true" => true,
        "false" => false,
        _ => {
            return Err(format!(
                "{name} is set to '{value}': expected true or false"
            ));
        }
    };
    let known = GATES.into_iter().find(|known| *known == name);
    let name = known.ok_or_else(|| {
        format!(
            "Flux has no feature gate '{name}': expected one of {}",
            GATES.join(", ")
        )
    })?;
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
