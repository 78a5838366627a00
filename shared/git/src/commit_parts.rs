//! A fetched commit, without its files.

use crate::checkout::Gitlink;
use bytes::Bytes;
use driftless_manifest::TreePath;
use gix_hash::ObjectId;

/// The parts of a fetched commit other than its files.
pub(crate) struct CommitParts {
    pub commit: Bytes,
    pub tags: Vec<(ObjectId, Bytes)>,
    /// The path below which its files are checked out.
    pub at: TreePath,
    pub links: Vec<Gitlink>,
    /// The content of its `.gitmodules`.
    pub modules: Option<Bytes>,
}
