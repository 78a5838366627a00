//! What all kinds of sources have in common: an object that is looked at, an artifact, a status.

use super::{Conditions, FluxKind, ObjectRef, parse_duration, spec_and_status};
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// `spec.accessFrom`: who else may use a source; without effect, as in Flux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessFrom {
    /// The namespaces.
    pub namespace_selectors: Vec<NamespaceSelector>,
}

/// Namespaces that have all of some labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceSelector {
    /// The labels.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// `spec` of one kind of source.
pub trait SourceSpec: DeserializeOwned {
    /// The kind.
    const KIND: FluxKind;

    /// How often to look, as it is written.
    fn interval(&self) -> &str;

    /// Whether everything is left as it is.
    fn suspend(&self) -> bool;
}

/// A source object of `source.toolkit.fluxcd.io`, from any served version.
#[derive(Clone, Debug)]
pub struct Source<S> {
    /// Which one.
    pub id: ObjectRef,
    /// The live object it was read from.
    pub object: Object,
    /// What the user wants.
    pub spec: S,
    /// What was written last.
    pub status: SourceStatus,
}

/// `status` of a source. Fields that a kind does not have stay empty, and are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceStatus {
    /// The generation that was looked at last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The newest artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactStatus>,
    /// The artifact's address, of kinds that have it here too.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The ignore patterns that the artifact was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,
    /// The directories that the artifact was made with (GitRepository).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_sparse_checkout: Vec<String>,
    /// The layer that the artifact was made of (OCIRepository).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_layer_selector: Option<super::LayerSelector>,
    /// The source's revision that the chart was made of (HelmChart).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_source_artifact_revision: String,
    /// The chart's name (HelmChart).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_chart_name: String,
    /// The values files that the chart was made with (HelmChart).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_values_files: Vec<String>,
}

/// `status.artifact` of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactStatus {
    /// The blob's key.
    pub path: String,
    /// The blob's address.
    pub url: String,
    /// `main@sha1:…`, a chart's version, `sha256:…` of an index.
    pub revision: String,
    /// `sha256:…` of the blob.
    pub digest: String,
    /// When it was stored, RFC 3339.
    pub last_update_time: String,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What the source says about it, such as the origin's revision.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl<S: SourceSpec + Send + Sync> super::FluxObject for Source<S> {
    type Status = SourceStatus;

    fn from_object(object: Object) -> Result<Self, String> {
        Self::from_object(object)
    }

    fn object(&self) -> &Object {
        &self.object
    }

    fn status(&self) -> &SourceStatus {
        &self.status
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend()
    }
}

impl<S: SourceSpec> Source<S> {
    /// Reads a live object of any served version.
    ///
    /// # Errors
    /// A sentence that names the field that is wrong.
    pub fn from_object(object: Object) -> Result<Self, String> {
        let (spec, status) = spec_and_status(&object)?;
        let id = ObjectRef::new(S::KIND, object.namespace(), object.name());
        Ok(Self {
            id,
            object,
            spec,
            status,
        })
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> i64 {
        crate::flux::generation(&self.object)
    }

    /// The interval.
    ///
    /// # Errors
    /// No duration.
    pub fn interval(&self) -> Result<Duration, String> {
        parse_duration(self.spec.interval()).map_err(|error| format!("spec.interval: {error}"))
    }
}
