//! The port to the pull requests of a Git host: their state, their comments and their check runs.

use super::Result;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A message that requests the plan of a pull request. Duplicates and order do not matter: a
/// request whose head is no longer that of the pull request is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRequest {
    /// The address of the repository that the pull request is merged into.
    pub repository: String,
    /// The number of the pull request.
    pub number: u64,
    /// The branch that the pull request is merged into.
    pub base_ref: String,
    /// The commit at the base branch when the event was sent.
    pub base_sha: String,
    /// The commit at the head of the pull request.
    pub head_sha: String,
    /// True if the head is in another repository.
    pub is_fork: bool,
    /// The hubs that have a source with the name of a root that follows the base branch.
    pub hubs: Vec<String>,
}

/// The state of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// True if it can still be merged: neither closed nor merged.
    pub is_open: bool,
    /// The commit at the head.
    pub head_sha: String,
    /// The branch that it is merged into.
    pub base_ref: String,
    /// The commit at that branch.
    pub base_sha: String,
    /// True if the head is in another repository, or in one that no longer exists.
    pub is_fork: bool,
    /// True if everyone may read the repository that it is merged into.
    pub is_public: bool,
}

/// A comment of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The id of the comment in its repository.
    pub id: u64,
    /// The text of the comment.
    pub body: String,
}

/// The level of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnnotationLevel {
    /// An error that the change adds.
    Failure,
    /// A warning about the change.
    Warning,
}

/// A message of a check run at a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The path of the file in the repository.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The level of the message.
    pub level: AnnotationLevel,
    /// The message as plain text.
    pub message: String,
}

/// The conclusion of a check run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The plan has neither errors nor warnings.
    Success,
    /// The plan has warnings.
    Neutral,
    /// The change adds an error, or no plan was made.
    Failure,
}

/// The content of a check run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The conclusion; `None` while the plan is made.
    pub conclusion: Option<Conclusion>,
    /// The title, which is plain text.
    pub title: String,
    /// The summary as Markdown.
    pub summary: String,
    /// The annotations, in the order of their importance.
    pub annotations: Vec<Annotation>,
}

/// The pull requests of repositories, with the installation's own login.
#[async_trait]
pub trait PullRequests: Send + Sync {
    /// Reads a pull request; returns nothing if it does not exist.
    async fn pull_request(&self, repository: &str, number: u64) -> Result<Option<PullRequest>>;
    /// Returns the newest commit that two commits have in common.
    async fn merge_base(&self, repository: &str, base: &str, head: &str) -> Result<String>;
    /// Returns the comments of a pull request that the installation's own login wrote, oldest
    /// first.
    async fn own_comments(&self, repository: &str, number: u64) -> Result<Vec<Comment>>;
    /// Writes a comment and returns its id.
    async fn create_comment(&self, repository: &str, number: u64, body: &str) -> Result<u64>;
    /// Replaces the body of a comment. Returns `false` if the comment no longer exists.
    async fn edit_comment(&self, repository: &str, id: u64, body: &str) -> Result<bool>;
    /// Deletes a comment; an absent one is not an error.
    async fn delete_comment(&self, repository: &str, id: u64) -> Result<()>;
    /// Creates a check run on a commit and returns its id, or nothing if the login may not create
    /// check runs: only GitHub Apps may.
    async fn create_check(
        &self,
        repository: &str,
        commit: &str,
        check: &Check,
    ) -> Result<Option<u64>>;
    /// Replaces the content of a check run, and adds its annotations.
    async fn update_check(&self, repository: &str, id: u64, check: &Check) -> Result<()>;
}
