//! The commit of a push, as the delivery of a Git host describes it.

use driftless_flux::shorten;
use serde::{Deserialize, Serialize};

/// The most bytes of an author and of the id of a delivery.
const MAX_TEXT: usize = 200;

/// A pushed commit, from a verified delivery. Only a signature of the commit verifies its author.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PushedCommit {
    /// The full hash of the commit.
    pub sha: String,
    /// The author, `NAME <EMAIL>`; empty if the delivery does not name one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub author: String,
    /// The id of the delivery; empty if the host gives none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub delivery: String,
}

impl PushedCommit {
    /// Returns a commit, with texts of a bounded length and without control characters.
    pub fn new(sha: &str, author: &str, delivery: &str) -> Self {
        let clean = |text: &str| {
            let text: String = text.chars().filter(|one| !one.is_control()).collect();
            shorten(text.trim(), MAX_TEXT)
        };
        Self {
            sha: clean(sha),
            author: clean(author),
            delivery: clean(delivery),
        }
    }

    /// Returns whether this is the commit of a revision such as `main@sha1:...`.
    pub fn is_of(&self, revision: &str) -> bool {
        !self.sha.is_empty() && revision.rsplit(':').next() == Some(&self.sha)
    }
}
