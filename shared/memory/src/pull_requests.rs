//! Pull requests in memory.

use super::lock;
use async_trait::async_trait;
use driftless_kernel::ports::{
    Check, Comment, ErrorKind, PortError, PullRequest, PullRequests, Result,
};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Pull requests of any repository, by number, and what was written.
#[derive(Default)]
pub struct MemoryPullRequests {
    state: Mutex<Written>,
}

/// The pull requests, and what was written to them.
#[derive(Clone, Default)]
pub struct Written {
    /// The pull requests by number.
    pub pulls: BTreeMap<u64, PullRequest>,
    /// The comments of the installation, with the numbers of their pull requests.
    pub comments: Vec<(u64, Comment)>,
    /// The check runs with their commits; annotations are added.
    pub checks: Vec<(String, Check)>,
    /// True if the login may not create check runs.
    pub has_no_checks: bool,
    /// True if the host does not answer comparisons.
    pub is_broken: bool,
    /// The number of comments so far.
    count: u64,
}

impl MemoryPullRequests {
    /// Changes the state.
    pub fn change(&self, change: impl FnOnce(&mut Written)) {
        change(&mut lock(&self.state));
    }

    /// Returns the state.
    pub fn state(&self) -> Written {
        lock(&self.state).clone()
    }
}

fn missing(what: &str) -> PortError {
    PortError::new(ErrorKind::NotFound, format!("{what} does not exist"))
}

#[async_trait]
impl PullRequests for MemoryPullRequests {
    async fn pull_request(&self, _: &str, number: u64) -> Result<Option<PullRequest>> {
        Ok(lock(&self.state).pulls.get(&number).cloned())
    }

    async fn merge_base(&self, _: &str, base: &str, head: &str) -> Result<String> {
        let state = lock(&self.state);
        if state.is_broken {
            return Err(PortError::new(ErrorKind::Unavailable, "no answer"));
        }
        let mut pulls = state.pulls.values();
        let pull = pulls.find(|pull| pull.base_ref == base && pull.head_sha == head);
        Ok(pull.ok_or_else(|| missing("the commit"))?.base_sha.clone())
    }

    async fn own_comments(&self, _: &str, number: u64) -> Result<Vec<Comment>> {
        let state = lock(&self.state);
        let own = state.comments.iter().filter(|(of, _)| *of == number);
        Ok(own.map(|(_, comment)| comment.clone()).collect())
    }

    async fn create_comment(&self, _: &str, number: u64, body: &str) -> Result<u64> {
        let mut state = lock(&self.state);
        if !state.pulls.contains_key(&number) {
            return Err(missing("the pull request"));
        }
        state.count += 1;
        let id = state.count;
        let body = body.to_owned();
        state.comments.push((number, Comment { id, body }));
        Ok(id)
    }

    async fn edit_comment(&self, _: &str, id: u64, body: &str) -> Result<bool> {
        let mut state = lock(&self.state);
        let mut all = state.comments.iter_mut();
        let found = all.find(|(_, comment)| comment.id == id);
        Ok(found
            .map(|(_, comment)| comment.body = body.to_owned())
            .is_some())
    }

    async fn delete_comment(&self, _: &str, id: u64) -> Result<()> {
        lock(&self.state)
            .comments
            .retain(|(_, comment)| comment.id != id);
        Ok(())
    }

    async fn create_check(&self, _: &str, commit: &str, check: &Check) -> Result<Option<u64>> {
        let mut state = lock(&self.state);
        if state.has_no_checks {
            return Ok(None);
        }
        state.checks.push((commit.to_owned(), check.clone()));
        Ok(Some(state.checks.len() as u64))
    }

    async fn update_check(&self, _: &str, id: u64, check: &Check) -> Result<()> {
        let mut state = lock(&self.state);
        let at = usize::try_from(id).unwrap_or_default().wrapping_sub(1);
        let (_, known) = state
            .checks
            .get_mut(at)
            .ok_or_else(|| missing("the check run"))?;
        let mut annotations = std::mem::take(&mut known.annotations);
        annotations.extend(check.annotations.iter().cloned());
        *known = Check {
            annotations,
            ..check.clone()
        };
        Ok(())
    }
}
