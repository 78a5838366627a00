//! `OCIRepository` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::{FluxKind, FluxSpec, Source, SourceSpec, SourceStatus, Verification};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An OCIRepository object of Flux.
pub type OCIRepository = Source<OCIRepositorySpec>;

/// The `spec` of an OCIRepository.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OCIRepositorySpec {
    /// The URL of the repository: `oci://HOST/REPOSITORY`.
    #[schemars(regex(pattern = r"^oci://.*$"))]
    pub url: String,
    /// The artifact to pull; the tag `latest` when absent.
    #[serde(default, rename = "ref")]
    pub reference: Option<OCIReference>,
    /// The layer of the artifact, and the operation on it.
    #[serde(default)]
    pub layer_selector: Option<LayerSelector>,
    /// The provider of the login: `generic`, or a cloud whose identity is used.
    #[serde(default)]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "gcp"], "x-default" = "generic"))]
    pub provider: Option<String>,
    /// The Secret with a `.dockerconfigjson`, or `username` and `password`.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The signatures that the artifact must have.
    #[serde(default)]
    pub verify: Option<Verification>,
    /// The service account whose image pull secrets or cloud identity are used.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default)]
    pub cert_secret_ref: Option<LocalRef>,
    /// The Secret with the `address` and credentials of a proxy.
    #[serde(default)]
    pub proxy_secret_ref: Option<LocalRef>,
    /// The interval between two checks of the source, such as `5m`.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// The timeout of a request; a minute when absent.
    #[serde(default)]
    #[schemars(regex(pattern = TIMEOUT), extend("x-default" = "60s"))]
    pub timeout: Option<String>,
    /// Patterns of files to leave out, in the format of `.gitignore`.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Connects to the registry without TLS.
    #[serde(default)]
    pub insecure: bool,
    /// Suspends the reconciliation of this object.
    #[serde(default)]
    pub suspend: bool,
}

/// The `spec.ref` of an OCIRepository: a digest takes precedence over a range, a range over a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OCIReference {
    /// The digest of the artifact: `sha256:…`.
    pub digest: String,
    /// A semver range: pulls the tag with the highest version in it.
    pub semver: String,
    /// A regular expression that the tags of the range must match.
    pub semver_filter: String,
    /// The tag to pull.
    pub tag: String,
}

/// The `spec.layerSelector` of an OCIRepository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LayerSelector {
    /// The media type of the layer; the first layer when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// The operation: `extract` takes the files of the layer as the artifact, `copy` takes the
    /// layer unchanged.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["extract", "copy"]))]
    pub operation: String,
}

impl FluxSpec for OCIRepositorySpec {
    const KIND: FluxKind = FluxKind::OCIRepository;
    type Status = SourceStatus;
}

impl SourceSpec for OCIRepositorySpec {
    fn interval(&self) -> &str {
        &self.interval
    }
}

impl OCIRepository {
    /// Returns a message about a field that requests an unsupported feature; `None` if all fields
    /// are supported.
    pub fn unsupported(&self) -> Option<String> {
        self.spec
            .verify
            .as_ref()
            .and_then(Verification::unsupported)
    }

    /// Returns the cloud whose identity is used if no Secret has a login.
    pub fn cloud(&self) -> Option<&str> {
        super::cloud(self.spec.provider.as_deref())
    }

    /// Returns the service account whose image pull secrets or cloud identity are used; empty if
    /// the field is not set.
    pub fn service_account(&self) -> &str {
        self.spec
            .service_account_name
            .as_deref()
            .unwrap_or_default()
    }
}
