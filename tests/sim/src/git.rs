//! GitHub: branches in memory, force pushes, rate limits, and repositories that are not available
//! for a while.

use crate::bugs::Bug;
use crate::gate::{Gate, Kind, Trouble};
use async_trait::async_trait;
use driftless_flux::GitReference;
use driftless_kernel::ports::{Commit, ErrorKind, FetchLimits, Git, GitAuth, PortError, Result};
use driftless_manifest::FileTree;
use driftless_source::index;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The files of a commit.
pub type Files = BTreeMap<String, String>;

/// A host of repositories.
pub struct Host {
    gate: Arc<Gate>,
    repositories: Mutex<BTreeMap<String, Repository>>,
    bug: Option<Bug>,
}

/// A repository with one branch, `main`.
#[derive(Clone, Default)]
pub struct Repository {
    /// Every commit that was ever pushed.
    commits: BTreeMap<String, Files>,
    /// The commits that the branch pointed at, in order.
    heads: Vec<String>,
    /// True if the branch is deleted.
    pub branchless: bool,
    /// True if the repository answers 404.
    pub gone: bool,
    /// The bytes that a function receives for a commit in addition to its files.
    pub weight: usize,
}

impl Host {
    /// Returns a host without repositories.
    pub fn new(gate: Arc<Gate>, bug: Option<Bug>) -> Self {
        Self {
            gate,
            repositories: Mutex::default(),
            bug,
        }
    }

    /// Calls `work` with a repository, such as `github.com/acme/fleet`, which is created if it does
    /// not exist.
    pub fn with<T>(&self, name: &str, work: impl FnOnce(&mut Repository) -> T) -> T {
        let mut all = self.repositories.lock().expect("the repositories");
        work(all.entry(name.to_owned()).or_default())
    }

    fn read<T>(&self, url: &str, work: impl FnOnce(&Repository) -> Option<T>) -> Result<T> {
        let all = self.repositories.lock().expect("the repositories");
        let found = index::repository(url).and_then(|name| all.get(&name));
        found
            .filter(|one| !one.gone)
            .and_then(work)
            .ok_or_else(|| PortError::new(ErrorKind::NotFound, "not found"))
    }
}

impl Repository {
    /// Moves the branch to a commit.
    pub fn push(&mut self, sha: &str, files: Files) {
        self.commits.insert(sha.to_owned(), files);
        self.heads.push(sha.to_owned());
    }
}

fn refusal(trouble: Trouble) -> PortError {
    match trouble {
        Trouble::Before(dice) if dice.is_multiple_of(3) => {
            let mut error = PortError::new(ErrorKind::RateLimited, "secondary rate limit");
            error.retry_after = Some(Duration::from_secs(1 + dice / 3 % 60));
            error
        }
        Trouble::Before(dice) if dice % 3 == 1 => {
            PortError::new(ErrorKind::Unreadable, "GitHub answered with HTML")
        }
        _ => PortError::new(ErrorKind::Unavailable, "GitHub does not answer"),
    }
}

#[async_trait]
impl Git for Host {
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        _: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit> {
        let is_main = reference.branch == "main";
        let effect = || {
            let sha = self.read(url, |one| {
                let old = self.bug == Some(Bug::OldCommits)
                    && known.is_some_and(|known| Some(&known.sha) == one.heads.last());
                let at = one.heads.len().checked_sub(1 + usize::from(old));
                let head = at.and_then(|at| one.heads.get(at)).or(one.heads.last());
                head.filter(|_| is_main && !one.branchless).cloned()
            })?;
            Ok(Commit {
                etag: Some(format!("\"{sha}\"")),
                sha,
                name: "main".to_owned(),
                tag: None,
            })
        };
        let name = format!("resolve {url}");
        self.gate
            .call(Kind::Git, &name, None, effect, |trouble| {
                Err(refusal(trouble))
            })
            .await
    }

    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        _: &GitAuth,
        _: FetchLimits,
    ) -> Result<FileTree> {
        let is_old = self.bug == Some(Bug::OlderFiles) && self.gate.number().is_multiple_of(3);
        let files = || {
            let files: Files = self.read(url, |one| {
                let at = one.heads.iter().position(|sha| *sha == commit.sha);
                let before = at.filter(|_| is_old).and_then(|at| at.checked_sub(1));
                let sha = before.map_or(&commit.sha, |at| &one.heads[at]);
                one.commits.get(sha).cloned()
            })?;
            let weight = self.read(url, |one| Some(one.weight))?;
            let texts: usize = files
                .iter()
                .map(|(path, text)| path.len() + text.len())
                .sum();
            let bytes = weight + texts;
            self.gate.receive(Kind::Git, bytes, bytes);
            Ok(files)
        };
        let refuse = |trouble| {
            if self.bug == Some(Bug::TruncatedFiles) {
                let mut files = files()?;
                files.pop_last();
                return Ok(files);
            }
            Err(refusal(trouble))
        };
        if self.bug == Some(Bug::TruncatedFiles) && self.gate.number().is_multiple_of(3) {
            let broken = refuse(Trouble::TimedOut)?;
            return tree(&broken);
        }
        let name = format!("fetch {url} {}", commit.sha);
        let files = self
            .gate
            .call(Kind::Git, &name, None, files, refuse)
            .await?;
        tree(&files)
    }
}

fn tree(files: &Files) -> Result<FileTree> {
    let files = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    FileTree::from_files(files)
        .map_err(|error| PortError::new(ErrorKind::Unreadable, error.to_string()))
}
