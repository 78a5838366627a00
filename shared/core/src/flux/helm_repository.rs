//! `HelmRepository` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::source::AccessFrom;
use super::{FluxKind, Source, SourceSpec};
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A `HelmRepository`.
pub type HelmRepository = Source<HelmRepositorySpec>;

/// `spec` of a HelmRepository.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepositorySpec {
    /// The repository's address: `http://`, `https://`, or `oci://` with the type `oci`.
    #[schemars(regex(pattern = r"^(http|https|oci)://.*$"))]
    pub url: String,
    /// `default` (an `index.yaml`) or `oci` (a registry).
    #[serde(default, rename = "type")]
    #[schemars(extend("enum" = ["default", "oci"]))]
    pub kind: Option<String>,
    /// How often to look at the index; a minute when absent. A registry has no index, and is looked at by its charts.
    #[serde(default)]
    #[schemars(regex(pattern = DURATION))]
    pub interval: Option<String>,
    /// How long a request may take; a minute when absent.
    #[serde(default)]
    #[schemars(regex(pattern = TIMEOUT))]
    pub timeout: Option<String>,
    /// The Secret with `username` and `password`, or for a registry a `.dockerconfigjson`.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default)]
    pub cert_secret_ref: Option<LocalRef>,
    /// Send the credentials to other hosts that the index names.
    #[serde(default)]
    pub pass_credentials: bool,
    /// Talk to a registry without TLS.
    #[serde(default)]
    pub insecure: bool,
    /// `generic`, or a cloud whose login is used.
    #[serde(default)]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "gcp"], "x-default" = "generic"))]
    pub provider: Option<String>,
    /// Leave everything as it is.
    #[serde(default)]
    pub suspend: bool,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(default)]
    pub access_from: Option<AccessFrom>,
}

impl SourceSpec for HelmRepositorySpec {
    const KIND: FluxKind = FluxKind::HelmRepository;

    fn interval(&self) -> &str {
        self.interval.as_deref().unwrap_or("1m")
    }

    fn suspend(&self) -> bool {
        self.suspend
    }
}

impl HelmRepository {
    /// Whether it is a registry.
    pub fn is_oci(&self) -> bool {
        self.spec.kind.as_deref() == Some("oci")
    }

    /// Whether a live object is a registry, which has no index to look at and so no status.
    pub fn is_static(object: &Object) -> bool {
        object.pointer("/spec/type").and_then(Value::as_str) == Some("oci")
    }

    /// The cloud whose login is wanted: of a registry without a Secret alone, as in Flux.
    pub fn cloud(&self) -> Option<&str> {
        let is_wanted = self.is_oci() && self.spec.secret_ref.is_none();
        super::cloud(self.spec.provider.as_deref()).filter(|_| is_wanted)
    }
}
