//! `OCIRepository` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::{FluxKind, Source, SourceSpec, Verification};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An `OCIRepository`.
pub type OCIRepository = Source<OCIRepositorySpec>;

/// `spec` of an OCIRepository.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OCIRepositorySpec {
    /// `oci://HOST/REPOSITORY`.
    #[schemars(regex(pattern = r"^oci://.*$"))]
    pub url: String,
    /// Which artifact; the tag `latest` when absent.
    #[serde(default, rename = "ref")]
    pub reference: Option<OCIReference>,
    /// Which layer, and what to do with it.
    #[serde(default)]
    pub layer_selector: Option<LayerSelector>,
    /// `generic`, or a cloud whose login is used.
    #[serde(default)]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "gcp"], "x-default" = "generic"))]
    pub provider: Option<String>,
    /// The Secret with a `.dockerconfigjson`, or `username` and `password`.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// Which signatures are needed.
    #[serde(default)]
    pub verify: Option<Verification>,
    /// The service account whose image pull secrets, or cloud login, are used.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default)]
    pub cert_secret_ref: Option<LocalRef>,
    /// A proxy's address and credentials.
    #[serde(default)]
    pub proxy_secret_ref: Option<LocalRef>,
    /// How often to look.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// How long a request may take; a minute when absent.
    #[serde(default)]
    #[schemars(regex(pattern = TIMEOUT), extend("x-default" = "60s"))]
    pub timeout: Option<String>,
    /// Patterns of files to leave out, as `.gitignore` has them.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Talk to the registry without TLS.
    #[serde(default)]
    pub insecure: bool,
    /// Leave everything as it is.
    #[serde(default)]
    pub suspend: bool,
}

/// `spec.ref` of an OCIRepository: a digest wins over a range, a range over a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OCIReference {
    /// `sha256:…`
    pub digest: String,
    /// A range of versions over the tags.
    pub semver: String,
    /// Only tags that this regular expression finds.
    pub semver_filter: String,
    /// A tag.
    pub tag: String,
}

/// `spec.layerSelector` of an OCIRepository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LayerSelector {
    /// The layer's media type; the first layer when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// `extract`: its files are the artifact; `copy`: the layer itself is.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["extract", "copy"]))]
    pub operation: String,
}

impl SourceSpec for OCIRepositorySpec {
    const KIND: FluxKind = FluxKind::OCIRepository;

    fn interval(&self) -> &str {
        &self.interval
    }

    fn suspend(&self) -> bool {
        self.suspend
    }
}

impl OCIRepository {
    /// A field that asks for something this version cannot do, as a sentence.
    pub fn unsupported(&self) -> Option<String> {
        self.spec
            .verify
            .as_ref()
            .and_then(Verification::unsupported)
    }

    /// The cloud whose login is wanted where no Secret has one.
    pub fn cloud(&self) -> Option<&str> {
        super::cloud(self.spec.provider.as_deref())
    }

    /// The service account whose image pull secrets, or cloud login, are used; empty when none is named.
    pub fn service_account(&self) -> &str {
        self.spec
            .service_account_name
            .as_deref()
            .unwrap_or_default()
    }
}
