//! `ExternalArtifact` of source.toolkit.fluxcd.io: what its definition declares. Nothing reads these objects yet.

use schemars::JsonSchema;

/// `spec` of an ExternalArtifact.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalArtifactSpec {
    /// The object that the artifact was made from.
    pub source_ref: Option<ExternalSourceRef>,
}

/// An object of any kind.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSourceRef {
    /// The API version.
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; the object's own when absent.
    pub namespace: Option<String>,
}
