//! The kind `HTTPArchive` of source.toolkit.fluxcd.io, which Flux does not have.

use super::schema::DURATION;
use super::{FluxKind, FluxSpec, Source, SourceSpec, SourceStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An HTTPArchive object.
pub type HTTPArchive = Source<HTTPArchiveSpec>;

/// The `spec` of an HTTPArchive.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HTTPArchiveSpec {
    /// The URL of the archive, a `tar.gz`.
    #[schemars(regex(pattern = r"^(http|https)://.*$"))]
    pub url: String,
    /// The SHA-256 of the archive in hex, which is also its revision.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// The interval between two checks that the artifact still exists.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// Patterns of files to leave out, in the format of `.gitignore`.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Suspends the reconciliation of this object.
    #[serde(default)]
    pub suspend: bool,
}

impl FluxSpec for HTTPArchiveSpec {
    const KIND: FluxKind = FluxKind::HTTPArchive;
    type Status = SourceStatus;
}

impl SourceSpec for HTTPArchiveSpec {
    fn interval(&self) -> &str {
        &self.interval
    }
}
