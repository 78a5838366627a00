//! The `spec.verify` of artifacts: the required signatures.

use super::kustomization::LocalRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `spec.verify` of an OCIRepository or a HelmChart: the signatures that the artifact must
/// have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The format of the signature: `cosign` (when absent) or `notation`.
    #[serde(default)]
    #[schemars(!default, extend("enum" = ["cosign", "notation"], "x-default" = "cosign"))]
    pub provider: String,
    /// The Secret with the trusted keys or certificates.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The identities whose keyless signatures are accepted.
    #[serde(default, rename = "matchOIDCIdentity")]
    pub match_oidc_identity: Vec<OidcIdentity>,
    /// The Secret with the `trusted_root.json` of a private Sigstore, for keyless signatures
    /// (OCIRepository).
    #[serde(default)]
    pub trusted_root_secret_ref: Option<LocalRef>,
}

/// An identity whose keyless signatures are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct OidcIdentity {
    /// A regular expression of the issuer.
    pub issuer: String,
    /// A regular expression of the subject.
    pub subject: String,
}

impl Verification {
    /// Returns the name of the provider, `cosign` by default.
    pub fn provider(&self) -> &str {
        match self.provider.as_str() {
            "" => "cosign",
            provider => provider,
        }
    }

    /// Returns a message about a field that requests an unsupported feature; `None` if all fields
    /// are supported.
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
