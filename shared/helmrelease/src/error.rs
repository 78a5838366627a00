//! The errors of the decisions about a release.

use driftless_flux::FieldError;
use driftless_helm::record::Status;

/// The error of a decision about a release, or of the rendering of its chart. Displayed as the
/// message of the condition of the HelmRelease.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// A field of the HelmRelease is not valid.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The status of the last record has no action.
    #[error("unable to determine state for release with status '{0}'")]
    Status(Status),
    /// The record of the rollback's target cannot be read.
    #[error("cannot verify previous release to roll back to: {0}")]
    RollbackTarget(String),
    /// A record cannot be written in Helm's format.
    #[error("release {name}: {reason}")]
    Record {
        /// The name of the release.
        name: String,
        /// The reason that the record cannot be written.
        reason: String,
    },
    /// The manifest of a record has no objects that can be read.
    #[error("{0}")]
    Manifest(String),
    /// A live object belongs to another release, or to none.
    #[error("invalid ownership metadata; {0}")]
    Ownership(String),
    /// A post-renderer refuses the documents.
    #[error("{0}")]
    PostRender(String),
    /// The version of the chart does not fit the revision of its source.
    #[error("{0}")]
    Version(String),
}
