//! `--feature-gates`, as Flux's controllers take it.

use driftless_core::hub::Settings;

/// One gate and what it was set to.
#[derive(Clone)]
pub struct Gate {
    name: &'static str,
    enabled: bool,
}

/// The feature gates of Flux's controllers. Those that say nothing of their effect change how the controllers work, and nothing
/// that a check could find.
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
/// Another form, or a gate that Flux does not have.
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

/// What the gates change.
pub struct Gates<'a>(&'a [Gate]);

impl<'a> Gates<'a> {
    /// Those that were given.
    pub fn new(gates: &'a [Gate]) -> Self {
        Self(gates)
    }

    /// Puts those into the settings of hubs that a step reads there.
    pub fn apply(&self, settings: &mut Settings) {
        settings.lenient_substitutions = self.get("StrictPostBuildSubstitutions") == Some(false);
        settings.helm3_defaults = self.get("UseHelm3Defaults") == Some(true);
        settings.additive_dependency_check = self.get("AdditiveCELDependencyCheck") == Some(true);
    }

    /// Whether sources of the kind ExternalArtifact were allowed or refused; `None` when nothing was said.
    pub fn external_artifacts(&self) -> Option<bool> {
        self.get("ExternalArtifact")
    }

    fn get(&self, name: &str) -> Option<bool> {
        let last = self.0.iter().rev().find(|gate| gate.name == name);
        last.map(|gate| gate.enabled)
    }
}
