//! The kind `HelmRepository` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::source::AccessFrom;
use super::{FluxKind, FluxSpec, Source, SourceSpec, SourceStatus};
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A HelmRepository object of Flux.
pub type HelmRepository = Source<HelmRepositorySpec>;

/// The `spec` of a HelmRepository.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepositorySpec {
    /// The URL of the repository: `http://`, `https://`, or `oci://` with the type `oci`.
    #[schemars(regex(pattern = r"^(http|https|oci)://.*$"))]
    pub url: String,
    /// The type: `default` (with an `index.yaml`) or `oci` (a registry).
    #[serde(default, rename = "type")]
    #[schemars(extend("enum" = ["default", "oci"]))]
    pub kind: Option<String>,
    /// The interval between two checks of the index; a minute when absent. A registry has no index,
    /// so only its HelmCharts are checked.
    #[serde(default)]
    #[schemars(regex(pattern = DURATION))]
    pub interval: Option<String>,
    /// The timeout of a request; a minute when absent.
    #[serde(default)]
    #[schemars(regex(pattern = TIMEOUT))]
    pub timeout: Option<String>,
    /// The Secret with `username` and `password`, or for a registry a `.dockerconfigjson`.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default)]
    pub cert_secret_ref: Option<LocalRef>,
    /// Sends the credentials also to other hosts that the index names.
    #[serde(default)]
    pub pass_credentials: bool,
    /// Connects to a registry without TLS.
    #[serde(default)]
    pub insecure: bool,
    /// The provider of the login: `generic`, or a cloud whose identity is used.
    #[serde(default)]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "gcp"], "x-default" = "generic"))]
    pub provider: Option<String>,
    /// Suspends the reconciliation of this object.
    #[serde(default)]
    pub suspend: bool,
    /// A field of older versions; accepted, without effect as in Flux.
    #[serde(default)]
    pub access_from: Option<AccessFrom>,
}

impl FluxSpec for HelmRepositorySpec {
    const KIND: FluxKind = FluxKind::HelmRepository;
    type Status = SourceStatus;
}

impl SourceSpec for HelmRepositorySpec {
    fn interval(&self) -> &str {
        self.interval.as_deref().unwrap_or("1m")
    }
}

impl HelmRepository {
    /// Returns whether the repository is a registry.
    pub fn is_oci(&self) -> bool {
        self.spec.kind.as_deref() == Some("oci")
    }

    /// Returns whether a live object of any kind is a HelmRepository that is a registry, which has
    /// no index and therefore no status.
    pub fn is_static(object: &Object) -> bool {
        FluxKind::of(&object.gvk()) == Some(FluxKind::HelmRepository)
            && object.pointer("/spec/type").and_then(Value::as_str) == Some("oci")
    }

    /// Returns the cloud whose identity is used; as in Flux, only for a registry without a Secret.
    pub fn cloud(&self) -> Option<&str> {
        let uses_cloud = self.is_oci() && self.spec.secret_ref.is_none();
        super::cloud(self.spec.provider.as_deref()).filter(|_| uses_cloud)
    }
}
