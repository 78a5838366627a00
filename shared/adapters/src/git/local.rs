use super::{Wanted, highest};
use driftless_core::ports::{Commit, ErrorKind, FetchLimits, GitReference, PortError, Result};
use driftless_manifest::{EntryKind, FileTree, TreePath};
use gix::object::tree::EntryKind as Mode;
use gix::{ObjectId, Repository};
use std::path::{Path, PathBuf};

/// Folders that a tree may be deep.
const DEPTH: usize = 256;

/// Git repositories in folders of this machine, worktrees or bare, below folders that the operator allows.
///
/// Only commits count, not what stands in the worktree. A repository's own configuration runs nothing.
#[derive(Clone, Debug)]
pub struct LocalGit {
    roots: Vec<PathBuf>,
}

impl LocalGit {
    /// Allows the repositories at or below `roots`.
    ///
    /// # Errors
    /// A root that is not there.
    pub fn new(roots: Vec<PathBuf>) -> Result<Self> {
        let real = |root: PathBuf| {
            root.canonicalize().map_err(|error| {
                PortError::new(
                    ErrorKind::Invalid,
                    format!("repositories in {}: {error}", root.display()),
                )
            })
        };
        Ok(Self {
            roots: roots.into_iter().map(real).collect::<Result<_>>()?,
        })
    }

    /// The commit that a reference leads to.
    ///
    /// # Errors
    /// No repository there, not allowed, no such reference.
    pub async fn resolve(&self, folder: &str, reference: &GitReference) -> Result<Commit> {
        let reference = reference.clone();
        self.run(folder, move |repository| resolve(repository, &reference))
            .await
    }

    /// The files of a commit.
    ///
    /// # Errors
    /// No repository there, not allowed, no such commit, more than `limits`.
    pub async fn fetch(
        &self,
        folder: &str,
        commit: &Commit,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        let sha = commit.sha.clone();
        self.run(folder, move |repository| fetch(repository, &sha, limits))
            .await
    }

    async fn run<T: Send + 'static>(
        &self,
        folder: &str,
        work: impl FnOnce(&Repository) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (roots, folder) = (self.roots.clone(), folder.to_owned());
        let task = tokio::task::spawn_blocking(move || work(&open(&roots, &folder)?));
        task.await.unwrap_or_else(|error| {
            Err(PortError::new(
                ErrorKind::Unavailable,
                format!("read the repository: {error}"),
            ))
        })
    }
}

fn open(roots: &[PathBuf], folder: &str) -> Result<Repository> {
    let missing = || {
        PortError::new(
            ErrorKind::NotFound,
            format!("no Git repository at {folder}"),
        )
    };
    let real = Path::new(folder).canonicalize().map_err(|_| missing())?;
    if !roots.iter().any(|root| real.starts_with(root)) {
        let what =
            format!("the repository at {folder} is not in a folder that the operator allows");
        return Err(PortError::new(ErrorKind::Denied, what));
    }
    gix::open_opts(real, gix::open::Options::isolated()).map_err(|_| missing())
}

fn resolve(repository: &Repository, reference: &GitReference) -> Result<Commit> {
    let (full, name) = match Wanted::of(reference)? {
        Wanted::Commit { sha, branch } => {
            commit(repository, sha)?;
            return Ok(Commit {
                sha: sha.to_owned(),
                name: branch.to_owned(),
                etag: None,
            });
        }
        Wanted::Name(name) => (name.to_owned(), name.to_owned()),
        Wanted::Tag(tag) => (format!("refs/tags/{tag}"), tag.to_owned()),
        Wanted::Branch(branch) => (format!("refs/heads/{branch}"), branch.to_owned()),
        Wanted::Semver(range) => {
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
    let sha = found.peel_to_commit().map_err(unreadable)?.id.to_string();
    Ok(Commit {
        sha,
        name,
        etag: None,
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

fn fetch(repository: &Repository, sha: &str, limits: FetchLimits) -> Result<FileTree> {
    let root = commit(repository, sha)?
        .tree_id()
        .map_err(unreadable)?
        .detach();
    let mut walk = Walk {
        repository,
        limits,
        tree: FileTree::new(),
        bytes: 0,
    };
    walk.folder(root, &TreePath::root(), 0)?;
    Ok(walk.tree)
}

struct Walk<'a> {
    repository: &'a Repository,
    limits: FetchLimits,
    tree: FileTree,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(&mut self, id: ObjectId, at: &TreePath, depth: usize) -> Result<()> {
        if depth > DEPTH {
            return Err(refused(format!("its folders are more than {DEPTH} deep")));
        }
        let folder = self.repository.find_tree(id).map_err(unreadable)?;
        for entry in folder.iter() {
            let entry = entry.map_err(unreadable)?;
            let name = std::str::from_utf8(entry.filename().as_ref())
                .map_err(|_| refused("a name is not UTF-8".into()))?;
            if matches!(name, "." | ".." | "") || name.contains('/') {
                return Err(refused(format!("'{name}' is no name of a file")));
            }
            let path = at.join(name).map_err(|error| refused(error.to_string()))?;
            let id = entry.oid().to_owned();
            match entry.mode().kind() {
                Mode::Tree => self.folder(id, &path, depth + 1)?,
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
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.limits.bytes || self.tree.index().len() >= self.limits.files {
            return Err(refused(format!(
                "it has more than {} bytes or {} files",
                self.limits.bytes, self.limits.files
            )));
        }
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

fn refused(why: String) -> PortError {
    PortError::new(
        ErrorKind::Invalid,
        format!("the repository is refused: {why}"),
    )
}

fn unreadable(error: impl std::fmt::Display) -> PortError {
    PortError::new(
        ErrorKind::Unreadable,
        format!("the Git repository cannot be read: {error}"),
    )
}
