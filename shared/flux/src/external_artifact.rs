//! The kind `ExternalArtifact` of source.toolkit.fluxcd.io, for its CustomResourceDefinition. Other
//! controllers write its status, which names an artifact.

use schemars::JsonSchema;

/// The `spec` of an ExternalArtifact.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalArtifactSpec {
    /// The object that the artifact was made from.
    pub source_ref: Option<ExternalSourceRef>,
}

/// A reference to an object of any kind.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSourceRef {
    /// The API version of the object.
    pub api_version: Option<String>,
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object; that of the ExternalArtifact when absent.
    pub namespace: Option<String>,
}
