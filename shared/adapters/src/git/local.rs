//! Git repositories in directories of this machine, which the operator names.

use super::{GitHost, RefSpec, highest};
use async_trait::async_trait;
use driftless_flux::GitReference;
use driftless_fuel::{Fuel, FuelKind};
use driftless_kernel::ports::{
    Commit, ErrorKind, FetchLimits, GitAuth, PortError, Result, SignedObjects,
};
use driftless_kernel::repository::Location;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use gix::object::tree::EntryKind as Mode;
use gix::{ObjectId, Repository};
use std::path::{Path, PathBuf};

/// The limit of the depth of a tree's directories.
const DEPTH: usize = 256;
/// The greatest number of annotated tags in a chain of tags.
const TAGS: usize = 10;

/// Git repositories in directories of this machine, worktrees or bare ones, but only those that the
/// operator names. Tenants' objects can also name directories, and must not learn what else exists
/// on this machine.
///
/// Only commits are read, not the files of the worktree. A repository's own configuration runs no
/// programs.
#[derive(Clone, Debug)]
pub struct LocalGit {
    repositories: Vec<PathBuf>,
}

#[async_trait]
impl GitHost for LocalGit {
    fn reads(&self, place: &Location) -> bool {
        matches!(place, Location::Directory(_))
    }

    async fn resolve(
        &self,
        _: &str,
        place: &Location,
        reference: &GitReference,
        _: &GitAuth,
        _: Option<&Commit>,
    ) -> Result<Commit> {
        let reference = reference.clone();
        self.run(directory(place)?, move |repository| {
            resolve(repository, &reference)
        })
        .await
    }

    async fn fetch(
        &self,
        _: &str,
        place: &Location,
        commit: &Commit,
        _: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        let sha = commit.sha.clone();
        self.run(directory(place)?, move |repository| {
            fetch(repository, &sha, &limits)
        })
        .await
    }

    async fn signed(
        &self,
        _: &str,
        place: &Location,
        commit: &Commit,
        _: &GitAuth,
    ) -> Result<SignedObjects> {
        let commit = commit.clone();
        self.run(directory(place)?, move |repository| {
            signed(repository, &commit)
        })
        .await
    }
}

fn directory(place: &Location) -> Result<&str> {
    match place {
        Location::Directory(directory) => Ok(directory),
        Location::Hosted(_) | Location::Server => Err(PortError::new(
            ErrorKind::Unsupported,
            "the repository is not a directory of this machine",
        )),
    }
}

impl LocalGit {
    /// Creates the adapter for these repositories, each named by its directory.
    ///
    /// # Errors
    /// Fails if a directory does not exist.
    pub fn new(repositories: Vec<PathBuf>) -> Result<Self> {
        let real = |directory: PathBuf| {
            directory.canonicalize().map_err(|error| {
                PortError::new(
                    ErrorKind::Invalid,
                    format!("repository in {}: {error}", directory.display()),
                )
            })
        };
        Ok(Self {
            repositories: repositories.into_iter().map(real).collect::<Result<_>>()?,
        })
    }

    async fn run<T: Send + 'static>(
        &self,
        directory: &str,
        work: impl FnOnce(&Repository) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (allowed, directory) = (self.repositories.clone(), directory.to_owned());
        let task = tokio::task::spawn_blocking(move || work(&open(&allowed, &directory)?));
        task.await.unwrap_or_else(|error| {
            Err(PortError::new(
                ErrorKind::Unavailable,
                format!("read the repository: {error}"),
            ))
        })
    }
}

/// Opens an allowed repository, also by its `.git`. The error for any other path does not reveal
/// whether it exists.
fn open(allowed: &[PathBuf], directory: &str) -> Result<Repository> {
    let real = Path::new(directory).canonicalize().ok();
    let named = |real: &PathBuf| {
        let is_named = |one: &PathBuf| real == one || *real == one.join(".git");
        allowed.iter().any(is_named)
    };
    let Some(real) = real.filter(named) else {
        let message = format!("the operator does not allow the repository at {directory}");
        return Err(PortError::new(ErrorKind::Denied, message));
    };
    gix::open_opts(real, gix::open::Options::isolated()).map_err(|_| {
        PortError::new(
            ErrorKind::NotFound,
            format!("no Git repository at {directory}"),
        )
    })
}

fn resolve(repository: &Repository, reference: &GitReference) -> Result<Commit> {
    let (full, name) = match RefSpec::of(reference)? {
        RefSpec::Commit { sha, branch } => {
            commit(repository, sha)?;
            return Ok(Commit {
                sha: sha.to_owned(),
                name: branch.to_owned(),
                etag: None,
                tag: None,
            });
        }
        RefSpec::Name(name) => (name.to_owned(), name.to_owned()),
        RefSpec::Tag(tag) => (format!("refs/tags/{tag}"), tag.to_owned()),
        RefSpec::Branch(branch) => (format!("refs/heads/{branch}"), branch.to_owned()),
        RefSpec::Semver(range) => {
            let tags = tags(repository)?;
            let tag = highest(range, tags.iter().map(String::as_str))?;
            (format!("refs/tags/{tag}"), tag.to_owned())
        }
    };
    let found = repository
        .try_find_reference(full.as_str())
        .map_err(unreadable)?;
    let mut found = found.ok_or_else(|| {
        PortError::new(
            ErrorKind::NotFound,
            format!("the repository has no reference {full}"),
        )
    })?;
    let object = found.id();
    let tag = object.header().map_err(unreadable)?.kind() == gix::object::Kind::Tag;
    let tag = tag.then(|| object.to_string());
    let sha = found.peel_to_commit().map_err(unreadable)?.id.to_string();
    Ok(Commit {
        sha,
        name,
        etag: None,
        tag,
    })
}

/// Reads a commit, and the chain of tags from `of.tag` on.
fn signed(repository: &Repository, of: &Commit) -> Result<SignedObjects> {
    let commit = commit(repository, &of.sha)?.detach().data;
    let (mut tags, mut next) = (Vec::new(), of.tag.clone());
    while let Some(id) = next.take() {
        if tags.len() >= TAGS {
            return Err(refused(format!("the chain of tags is longer than {TAGS}")));
        }
        let id = ObjectId::from_hex(id.as_bytes()).map_err(unreadable)?;
        let tag = repository.find_tag(id).map_err(unreadable)?;
        let target = tag.decode().map_err(unreadable)?;
        if target.target_kind == gix::object::Kind::Tag {
            next = Some(target.target().to_string());
        }
        tags.push(tag.detach().data.into());
    }
    Ok(SignedObjects {
        commit: commit.into(),
        tags,
    })
}

fn tags(repository: &Repository) -> Result<Vec<String>> {
    let references = repository.references().map_err(unreadable)?;
    let mut names = Vec::new();
    for tag in references.tags().map_err(unreadable)? {
        let tag = tag.map_err(unreadable)?;
        names.push(tag.name().shorten().to_string());
    }
    Ok(names)
}

fn commit<'a>(repository: &'a Repository, sha: &str) -> Result<gix::Commit<'a>> {
    let missing = || {
        PortError::new(
            ErrorKind::NotFound,
            format!("the repository has no commit {sha}"),
        )
    };
    let id = ObjectId::from_hex(sha.as_bytes()).map_err(|_| missing())?;
    repository.find_commit(id).map_err(|_| missing())
}

/// Reads the files of a commit.
pub(super) fn fetch(repository: &Repository, sha: &str, limits: &FetchLimits) -> Result<FileTree> {
    let root = commit(repository, sha)?
        .tree_id()
        .map_err(unreadable)?
        .detach();
    let mut walk = Walk {
        repository,
        fuel: limits.part(),
        tree: FileTree::new(),
    };
    walk.directory(root, &TreePath::root(), 0)?;
    Ok(walk.tree)
}

struct Walk<'a> {
    repository: &'a Repository,
    fuel: Fuel,
    tree: FileTree,
}

impl Walk<'_> {
    fn directory(&mut self, id: ObjectId, at: &TreePath, depth: usize) -> Result<()> {
        if depth > DEPTH {
            return Err(refused(format!("more than {DEPTH} nested directories")));
        }
        let directory = self.repository.find_tree(id).map_err(unreadable)?;
        for entry in directory.iter() {
            let entry = entry.map_err(unreadable)?;
            let name = std::str::from_utf8(entry.filename().as_ref())
                .map_err(|_| refused("a name is not UTF-8".into()))?;
            if matches!(name, "." | ".." | "") || name.contains('/') {
                return Err(refused(format!("'{name}' is not a valid file name")));
            }
            let path = at.join(name).map_err(|error| refused(error.to_string()))?;
            let id = entry.oid().to_owned();
            match entry.mode().kind() {
                Mode::Tree => self.directory(id, &path, depth + 1)?,
                Mode::Blob => self.file(id, path, EntryKind::File)?,
                Mode::BlobExecutable => self.file(id, path, EntryKind::Executable)?,
                Mode::Link => self.file(id, path, EntryKind::Link)?,
                // A submodule's files are in another repository.
                Mode::Commit => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, id: ObjectId, path: TreePath, kind: EntryKind) -> Result<()> {
        let size = self.repository.find_header(id).map_err(unreadable)?.size();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let spent = self.fuel.bytes(size);
        spent
            .and_then(|()| self.fuel.nodes(1))
            .map_err(|out| match out.which {
                FuelKind::Nodes => refused(format!("more than {} files", out.limit)),
                _ => refused(out.to_string()),
            })?;
        let content = self
            .repository
            .find_blob(id)
            .map_err(unreadable)?
            .take_data();
        self.tree
            .insert(path, kind, content)
            .map_err(|error| refused(error.to_string()))
    }
}

fn refused(reason: String) -> PortError {
    PortError::new(
        ErrorKind::Invalid,
        format!("the repository is refused: {reason}"),
    )
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> PortError {
    PortError::new(
        ErrorKind::Unreadable,
        format!("the Git repository cannot be read: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_named_repository_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["fleet", "fleet/private", "other"] {
            std::fs::create_dir_all(path(name)).unwrap();
            gix::init(path(name)).unwrap();
        }
        std::fs::write(path("file"), "").unwrap();
        std::os::unix::fs::symlink(path("other"), path("fleet/link")).unwrap();
        let git = LocalGit::new(vec![path("fleet")]).unwrap();
        let ask = async |name: &str| {
            let directory = path(name).display().to_string();
            let (place, reference) = (
                Location::Directory(directory.clone()),
                GitReference::default(),
            );
            let found = git
                .resolve("", &place, &reference, &GitAuth::Anonymous, None)
                .await;
            let error = found.expect_err("nothing is committed");
            (error.kind, error.message.replace(&directory, "DIRECTORY"))
        };
        for named in ["fleet", "fleet/.git", "fleet/private/.."] {
            let (kind, message) = ask(named).await;
            assert_eq!(kind, ErrorKind::NotFound, "{named}: {message}");
            assert!(message.contains("refs/heads/master"), "{named}: {message}");
        }
        // The answer is the same for paths below it, next to it and nowhere.
        let denied = ask("fleet/absent").await;
        assert_eq!(denied.0, ErrorKind::Denied);
        for other in ["fleet/private", "fleet/link", "other", "file", "."] {
            assert_eq!(ask(other).await, denied, "{other}");
        }
    }
}
