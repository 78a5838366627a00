//! The commits of a checkout on this machine, which the user names by a revision.

use super::local::{fetch, unreadable};
use driftless_kernel::ports::{ErrorKind, FetchLimits, PortError, Result};
use driftless_manifest::FileTree;
use gix::{ObjectId, Repository};
use std::collections::{BTreeSet, BinaryHeap};
use std::path::{Path, PathBuf};

/// The branches of the remote `origin` that may be the default one, in the order of preference.
const UPSTREAM: [&str; 3] = [
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
];

/// A checkout of a Git repository.
pub struct Checkout {
    root: PathBuf,
    repository: Repository,
}

/// A commit of a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitId {
    /// The whole hash, in hexadecimal digits.
    pub sha: String,
    /// The revision by which it was found, for messages.
    pub name: String,
}

impl Checkout {
    /// Opens the checkout that contains a directory. The configuration of the repository runs no
    /// programs.
    ///
    /// # Errors
    /// The directory does not exist, or is not in a checkout.
    pub fn open(directory: &Path) -> Result<Self> {
        let shown = directory.display();
        let real = directory
            .canonicalize()
            .map_err(|error| PortError::new(ErrorKind::NotFound, format!("{shown}: {error}")))?;
        let root = real.ancestors().find(|above| above.join(".git").exists());
        let root = root.ok_or_else(|| {
            let message = format!("{shown} is not in a Git checkout");
            PortError::new(ErrorKind::NotFound, message)
        })?;
        let repository = gix::open_opts(root, gix::open::Options::isolated());
        Ok(Self {
            root: root.to_owned(),
            repository: repository.map_err(unreadable)?,
        })
    }

    /// Returns the root directory of the checkout.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the commit of a revision: a branch, a tag, a reference, `HEAD` or a whole hash, with
    /// `~N` or `^` behind it for the first parents.
    ///
    /// # Errors
    /// The revision does not exist.
    pub fn resolve(&self, name: &str) -> Result<CommitId> {
        let (base, steps) = parents(name);
        let missing = || {
            let message = format!(
                "the repository has no revision '{name}': give a branch, a tag, HEAD or a whole hash"
            );
            PortError::new(ErrorKind::NotFound, message)
        };
        let mut id = match ObjectId::from_hex(base.as_bytes()) {
            Ok(id) => id,
            Err(_) => {
                let found = self.repository.try_find_reference(base);
                let found = found.map_err(|_| missing())?;
                let mut found = found.ok_or_else(missing)?;
                found.peel_to_commit().map_err(unreadable)?.id
            }
        };
        for _ in 0..steps {
            let commit = self.repository.find_commit(id).map_err(|_| missing())?;
            id = commit.parent_ids().next().ok_or_else(missing)?.detach();
        }
        self.repository.find_commit(id).map_err(|_| missing())?;
        Ok(CommitId {
            sha: id.to_string(),
            name: name.to_owned(),
        })
    }

    /// Returns the commit that the changes of `HEAD` begin at: the newest one that it shares with
    /// the default branch of `origin`, or `HEAD` itself without that branch.
    ///
    /// # Errors
    /// `HEAD` does not exist, or the histories have no commit in common.
    pub fn base(&self) -> Result<CommitId> {
        let head = self.resolve("HEAD")?;
        for name in UPSTREAM {
            let found = self.repository.try_find_reference(name);
            let Some(mut found) = found.map_err(unreadable)? else {
                continue;
            };
            let upstream = found.peel_to_commit().map_err(unreadable)?.id;
            let short = name.trim_start_matches("refs/remotes/");
            let shared = self.shared(&head.sha, upstream)?.ok_or_else(|| {
                let message = format!(
                    "HEAD and {short} share no commit in this checkout: fetch the history (git fetch --unshallow), or give the base"
                );
                PortError::new(ErrorKind::NotFound, message)
            })?;
            return Ok(CommitId {
                sha: shared.to_string(),
                name: format!("where HEAD left {short}"),
            });
        }
        Ok(head)
    }

    /// Returns the newest commit of the history of `head` that the other history contains.
    fn shared(&self, head: &str, other: ObjectId) -> Result<Option<ObjectId>> {
        let mut known = BTreeSet::from([other]);
        let mut open = vec![other];
        while let Some(id) = open.pop() {
            let parents = self.parents(id);
            open.extend(parents.1.into_iter().filter(|parent| known.insert(*parent)));
        }
        let head = ObjectId::from_hex(head.as_bytes()).map_err(unreadable)?;
        let mut seen = BTreeSet::from([head]);
        let mut newest = BinaryHeap::from([(self.parents(head).0, head)]);
        while let Some((_, id)) = newest.pop() {
            if known.contains(&id) {
                return Ok(Some(id));
            }
            for parent in self.parents(id).1 {
                if seen.insert(parent) {
                    newest.push((self.parents(parent).0, parent));
                }
            }
        }
        Ok(None)
    }

    /// Returns the time and the parents of a commit; none for one that a shallow clone lacks.
    fn parents(&self, id: ObjectId) -> (i64, Vec<ObjectId>) {
        let Ok(commit) = self.repository.find_commit(id) else {
            return (0, Vec::new());
        };
        let time = commit.time().map_or(0, |time| time.seconds);
        let parents = commit.parent_ids().map(gix::Id::detach);
        (time, parents.collect())
    }

    /// Reads the files of a commit.
    ///
    /// # Errors
    /// The commit cannot be read, or is too large.
    pub fn files(&self, commit: &CommitId) -> Result<FileTree> {
        fetch(&self.repository, &commit.sha, &FetchLimits::default())
    }
}

/// Splits `NAME~2^` into the name and the number of first parents.
fn parents(name: &str) -> (&str, usize) {
    if let Some(rest) = name.strip_suffix('^') {
        let (base, steps) = parents(rest);
        return (base, steps + 1);
    }
    match name.rsplit_once('~') {
        Some((rest, count)) if count.is_empty() || count.parse::<u16>().is_ok() => {
            let (base, steps) = parents(rest);
            (base, steps + count.parse::<usize>().unwrap_or(1))
        }
        _ => (name, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_with_parents() {
        for (text, expected) in [
            ("main", ("main", 0)),
            ("HEAD^", ("HEAD", 1)),
            ("HEAD~", ("HEAD", 1)),
            ("v1~3^", ("v1", 4)),
            ("odd~name", ("odd~name", 0)),
        ] {
            assert_eq!(parents(text), expected, "{text}");
        }
    }

    #[test]
    fn a_directory_without_git_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = Checkout::open(directory.path()).err().unwrap();
        assert!(
            error.message.contains("is not in a Git checkout"),
            "{error}"
        );
    }
}
