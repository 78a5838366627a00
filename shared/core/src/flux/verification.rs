//! `spec.verify` of artifacts: who must have signed them.

use super::kustomization::LocalRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `spec.verify` of an OCIRepository or a HelmChart: who must have signed the artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// `cosign` (when absent) or `notation`.
    #[serde(default)]
    #[schemars(!default, extend("enum" = ["cosign", "notation"], "x-default" = "cosign"))]
    pub provider: String,
    /// The Secret with the keys or certificates that are trusted.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// Keyless signatures: whose they may be.
    #[serde(default, rename = "matchOIDCIdentity")]
    pub match_oidc_identity: Vec<OidcIdentity>,
    /// Keyless signatures: the Secret with the `trusted_root.json` of an own Sigstore (OCIRepository).
    #[serde(default)]
    pub trusted_root_secret_ref: Option<LocalRef>,
}

/// Whose a keyless signature may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct OidcIdentity {
    /// A regular expression of issuers.
    pub issuer: String,
    /// A regular expression of subjects.
    pub subject: String,
}

impl Verification {
    /// The provider's name.
    pub fn provider(&self) -> &str {
        match self.provider.as_str() {
            "" => "cosign",
            provider => provider,
        }
    }

    /// What it asks for that this version cannot do, as a sentence.
    pub fn unsupported(&self) -> Option<String> {
        match (self.provider(), &self.secret_ref) {
            ("cosign", _) | ("notation", Some(_)) => None,
            ("notation", None) => Some(
                "spec.verify.provider 'notation' needs spec.verify.secretRef: a Secret with trustpolicy.json and certificates \
                 (*.crt, *.pem)"
                    .to_owned(),
            ),
            (other, _) => Some(format!(
                "spec.verify.provider '{other}' is not known: expected cosign or notation"
            )),
        }
    }
}
