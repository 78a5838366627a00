//! Plain directories that replace Git repositories, for `check` and `demo`.

use async_trait::async_trait;
use driftless_flux::GitReference;
use driftless_kernel::ports::{
    Commit, ErrorKind, FetchLimits, Git, GitAuth, PortError, Result, SignedObjects,
};
use driftless_manifest::{EntryKind, FileTree, TreePath, git_tree_id};
use driftless_source::index;
use ignore::{DirEntry, WalkBuilder};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The number of attempts to read a directory that changes while it is read.
const TRIES: usize = 20;

/// Plain directories that replace repositories: the current files of a directory are the commit,
/// and the id of their Git tree is the revision. Git itself is not needed.
///
/// A directory is read when it has not changed for a while, so that a half-written file is not in
/// any commit. Files that a `.gitignore` in the directory names, and temporary files of editors,
/// are left out.
#[derive(Clone)]
pub struct DirectoryGit {
    directories: Vec<Arc<Directory>>,
    quiet: Duration,
    change: Option<fn(&mut FileTree)>,
    bases: Option<Arc<dyn Git>>,
}

/// A directory and the repository that it replaces.
struct Directory {
    /// The repository, as [`index::repository`] names it.
    repository: String,
    /// The branch or tag; all of them if absent.
    reference: Option<String>,
    path: PathBuf,
    change: Option<fn(&mut FileTree)>,
    /// The files in place of those on the disk, such as those of a commit.
    fixed: Option<Arc<FileTree>>,
    snapshot: Mutex<Option<Snapshot>>,
}

/// The state, the revision and the files of a directory when it was last read.
struct Snapshot {
    state: DirectoryState,
    sha: String,
    tree: Arc<FileTree>,
}

/// The files of a directory with their times and sizes, without their contents.
#[derive(Clone, PartialEq, Eq)]
struct DirectoryState(BTreeMap<PathBuf, (SystemTime, u64)>);

impl DirectoryGit {
    /// Creates a Git adapter without directories. A directory is read when it has not changed for
    /// `quiet`.
    pub fn new(quiet: Duration) -> Self {
        Self {
            directories: Vec::new(),
            quiet,
            change: None,
            bases: None,
        }
    }

    /// Sets the adapter for remote bases whose repository no directory replaces.
    #[must_use]
    pub fn with_bases(mut self, bases: Arc<dyn Git>) -> Self {
        self.bases = Some(bases);
        self
    }

    /// Sets a function that changes the files of all directories that are added later. Revisions
    /// remain those of the unchanged files.
    pub fn through(mut self, change: fn(&mut FileTree)) -> Self {
        self.change = Some(change);
        self
    }

    /// Adds a directory that replaces the repository at `url`, for one branch or tag or for all of
    /// them.
    ///
    /// # Errors
    /// Fails if the URL is not one of a repository, or if the directory does not exist.
    pub fn with(mut self, url: &str, reference: Option<&str>, path: &Path) -> Result<Self> {
        let repository = repository(url).ok_or_else(|| not_a_repository(url))?;
        let path = path.canonicalize().map_err(|error| {
            PortError::new(ErrorKind::Invalid, format!("{}: {error}", path.display()))
        })?;
        if !path.is_dir() {
            let message = format!("{} is not a directory", path.display());
            return Err(PortError::new(ErrorKind::Invalid, message));
        }
        self.directories.push(Arc::new(Directory {
            repository,
            reference: reference.map(str::to_owned),
            path,
            change: self.change,
            fixed: None,
            snapshot: Mutex::default(),
        }));
        Ok(self)
    }

    /// Adds files in memory that replace the repository at `url`, such as those of a commit. The
    /// directory is the one that they are a state of: messages name its paths, and it is not read.
    ///
    /// # Errors
    /// Fails if the URL is not one of a repository.
    pub fn with_files(
        mut self,
        url: &str,
        reference: Option<&str>,
        path: &Path,
        files: Arc<FileTree>,
    ) -> Result<Self> {
        let repository = repository(url).ok_or_else(|| not_a_repository(url))?;
        let sha = git_tree_id(files.index());
        let tree = match self.change {
            Some(change) => {
                let mut tree = FileTree::clone(&files);
                change(&mut tree);
                Arc::new(tree)
            }
            None => files.clone(),
        };
        let snapshot = Snapshot {
            state: DirectoryState(BTreeMap::new()),
            sha,
            tree,
        };
        self.directories.push(Arc::new(Directory {
            repository,
            reference: reference.map(str::to_owned),
            path: path.to_owned(),
            change: self.change,
            fixed: Some(files),
            snapshot: Mutex::new(Some(snapshot)),
        }));
        Ok(self)
    }

    /// Returns the directory that replaces a repository, with its files as of the last read; `None`
    /// if it is not configured or not yet read.
    pub fn last_read(
        &self,
        url: &str,
        reference: &GitReference,
    ) -> Option<(PathBuf, Arc<FileTree>)> {
        let directory = self.find(url, reference)?;
        let snapshot = directory.lock();
        Some((directory.path.clone(), snapshot.as_ref()?.tree.clone()))
    }

    /// Returns the directories with their files as of the last read.
    pub fn trees(&self) -> Vec<(PathBuf, Arc<FileTree>)> {
        let last_read = |directory: &Arc<Directory>| {
            let tree = directory.lock().as_ref()?.tree.clone();
            Some((directory.path.clone(), tree))
        };
        self.directories.iter().filter_map(last_read).collect()
    }

    /// Reads every directory and returns its current files, without the changes of
    /// [`DirectoryGit::through`].
    ///
    /// # Errors
    /// Fails if a directory cannot be read.
    pub fn all(&self) -> Result<Vec<(PathBuf, FileTree)>> {
        let read = |directory: &Arc<Directory>| {
            if let Some(files) = &directory.fixed {
                return Ok((directory.path.clone(), FileTree::clone(files)));
            }
            let tree = read(
                &directory.path,
                &DirectoryState::at(&directory.path)?,
                &FetchLimits::default(),
            )?;
            Ok((directory.path.clone(), tree.unwrap_or_default()))
        };
        self.directories.iter().map(read).collect()
    }

    /// Returns the repositories, as [`index::repository`] names them, whose directories have
    /// changed since they were last read. A directory that can no longer be read is reported once.
    pub async fn changed(&self) -> Vec<String> {
        let directories = self.directories.clone();
        let changed = move || {
            let changed = directories
                .iter()
                .filter(|directory| directory.is_changed());
            Ok(changed
                .map(|directory| directory.repository.clone())
                .collect())
        };
        run(changed).await.unwrap_or_default()
    }

    /// Returns whether a directory replaces the default branch, or all branches, of a repository.
    pub fn has(&self, url: &str) -> bool {
        self.find(url, &GitReference::default()).is_some()
    }

    fn find(&self, url: &str, reference: &GitReference) -> Option<&Arc<Directory>> {
        let repository = repository(url)?;
        let name = name(reference);
        let named = |directory: &&Arc<Directory>| {
            directory.repository == repository && directory.reference.as_deref() == Some(name)
        };
        let all = |directory: &&Arc<Directory>| {
            directory.repository == repository && directory.reference.is_none()
        };
        self.directories
            .iter()
            .find(named)
            .or_else(|| self.directories.iter().find(all))
    }

    fn must_find(&self, url: &str, reference: &GitReference) -> Result<Arc<Directory>> {
        self.find(url, reference).cloned().ok_or_else(|| {
            let message = format!(
                "no local directory is configured for {} of this repository",
                name(reference)
            );
            PortError::new(ErrorKind::Unsupported, message)
        })
    }

    /// Waits until a directory no longer changes and reads it, unless it is unchanged since the
    /// last read. Returns the revision.
    async fn take(&self, directory: &Arc<Directory>, limits: FetchLimits) -> Result<String> {
        let fixed = directory.fixed.as_ref();
        if let Some(known) = fixed.and_then(|_| directory.lock().as_ref().map(|of| of.sha.clone()))
        {
            return Ok(known);
        }
        for _ in 0..TRIES {
            let (of, quiet) = (directory.clone(), self.quiet);
            let state = run(move || DirectoryState::at(&of.path)).await?;
            if let Some(known) = directory
                .lock()
                .as_ref()
                .filter(|known| known.state == state)
            {
                return Ok(known.sha.clone());
            }
            tokio::time::sleep(quiet).await;
            let (of, limits) = (directory.clone(), limits.clone());
            if let Some(sha) = run(move || of.read(state, &limits)).await? {
                return Ok(sha);
            }
        }
        let message = format!(
            "{} keeps changing while it is read",
            directory.path.display()
        );
        Err(PortError::new(ErrorKind::Unavailable, message))
    }
}

fn not_a_repository(url: &str) -> PortError {
    let message =
        format!("'{url}' is not the URL of a repository, such as https://HOST/OWNER/NAME");
    PortError::new(ErrorKind::Invalid, message)
}

/// Returns the repository of a URL, as [`index::repository`] names it; the URL of a chart
/// repository may have no path.
fn repository(url: &str) -> Option<String> {
    index::repository(url).or_else(|| {
        let (_, host) = url.split_once("://")?;
        let host = host.trim_end_matches('/');
        let is_host = !host.is_empty() && !host.contains('/') && !url.starts_with("file:");
        is_host.then(|| host.to_lowercase())
    })
}

/// Returns the short name of a reference.
fn name(reference: &GitReference) -> &str {
    let names = [
        &reference.name,
        &reference.semver,
        &reference.tag,
        &reference.branch,
    ];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.map_or("master", |name| {
        name.strip_prefix("refs/heads/").unwrap_or(name)
    })
}

#[async_trait]
impl Git for DirectoryGit {
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        _: &GitAuth,
        _: Option<&Commit>,
    ) -> Result<Commit> {
        let directory = self.must_find(url, reference)?;
        Ok(Commit {
            sha: self.take(&directory, FetchLimits::default()).await?,
            name: name(reference).to_owned(),
            etag: None,
            tag: None,
        })
    }

    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        _: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        let reference = GitReference {
            branch: commit.name.clone(),
            ..GitReference::default()
        };
        let directory = self.must_find(url, &reference)?;
        self.take(&directory, limits).await?;
        match directory.lock().as_ref() {
            Some(snapshot) if snapshot.sha == commit.sha => Ok(FileTree::clone(&snapshot.tree)),
            _ => {
                let message = format!("{} changed while it was fetched", directory.path.display());
                Err(PortError::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Returns no objects: the files of a directory are not committed, and so not signed.
    async fn signed(
        &self,
        url: &str,
        commit: &Commit,
        _: &GitAuth,
    ) -> Result<Option<SignedObjects>> {
        let reference = GitReference {
            branch: commit.name.clone(),
            ..GitReference::default()
        };
        self.must_find(url, &reference).map(|_| None)
    }

    async fn base(&self, url: &str, reference: &GitReference, auth: &GitAuth) -> Result<FileTree> {
        match (self.find(url, reference), &self.bases) {
            (None, Some(bases)) => bases.base(url, reference, auth).await,
            (None, None) => Err(PortError::new(ErrorKind::Unsupported, BASE_NOT_FETCHED)),
            (Some(_), _) => {
                let commit = self.resolve(url, reference, auth, None).await?;
                self.fetch(url, &commit, auth, FetchLimits::default()).await
            }
        }
    }
}

/// The end of the message about a remote base that no directory replaces.
pub const BASE_NOT_FETCHED: &str = "remote bases are not fetched here";

impl Directory {
    fn lock(&self) -> MutexGuard<'_, Option<Snapshot>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the directory has changed since the last read. The snapshot of an unreadable
    /// directory is dropped.
    fn is_changed(&self) -> bool {
        if self.fixed.is_some() {
            return false;
        }
        let state = DirectoryState::at(&self.path);
        let mut snapshot = self.lock();
        let Some(known) = snapshot.as_ref() else {
            return false;
        };
        let same = state.as_ref().is_ok_and(|state| known.state == *state);
        if state.is_err() {
            *snapshot = None;
        }
        !same
    }

    /// Reads the directory and returns the id of its files; `None` if its state is not `state`
    /// before and after.
    fn read(&self, state: DirectoryState, limits: &FetchLimits) -> Result<Option<String>> {
        if DirectoryState::at(&self.path)? != state {
            return Ok(None);
        }
        let Some(mut tree) = read(&self.path, &state, limits)? else {
            return Ok(None);
        };
        if DirectoryState::at(&self.path)? != state {
            return Ok(None);
        }
        let sha = git_tree_id(tree.index());
        if let Some(change) = self.change {
            change(&mut tree);
        }
        *self.lock() = Some(Snapshot {
            state,
            sha: sha.clone(),
            tree: Arc::new(tree),
        });
        Ok(Some(sha))
    }
}

impl DirectoryState {
    fn at(root: &Path) -> Result<Self> {
        let mut seen = BTreeMap::new();
        let walk = WalkBuilder::new(root)
            .standard_filters(false)
            .git_ignore(true)
            .require_git(false)
            .filter_entry(is_part)
            .build();
        for entry in walk {
            let (entry, meta) = match entry.and_then(|entry| Ok((entry.metadata()?, entry))) {
                Ok((meta, entry)) => (entry, meta),
                // The file was removed while the directory was walked.
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(unreadable(root, error)),
            };
            if meta.is_file() || meta.is_symlink() {
                let time = meta.modified().map_err(|error| unreadable(root, error))?;
                seen.insert(entry.into_path(), (time, meta.len()));
            }
        }
        if seen.is_empty() && !root.is_dir() {
            return Err(unreadable(root, "the directory no longer exists"));
        }
        Ok(Self(seen))
    }
}

fn is_absent(error: &ignore::Error) -> bool {
    error
        .io_error()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns whether a file belongs to the repository: it is not Git's own and not a temporary file
/// of an editor.
fn is_part(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let exact = [".git", ".DS_Store", "4913"];
    let ends = [
        "~",
        ".swp",
        ".swo",
        ".swx",
        ".kate-swp",
        "___jb_tmp___",
        "___jb_old___",
    ];
    let starts = [".#", ".goutputstream-", ".~lock."];
    !(exact.contains(&name.as_ref())
        || ends.iter().any(|end| name.ends_with(end))
        || starts.iter().any(|start| name.starts_with(start))
        || (name.starts_with('#') && name.ends_with('#')))
}

/// Reads the files of a directory's state; returns `None` if one of them no longer exists.
fn read(root: &Path, state: &DirectoryState, limits: &FetchLimits) -> Result<Option<FileTree>> {
    let bytes: u64 = state.0.values().map(|(_, size)| size).sum();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let fuel = limits.part();
    let spent = fuel.bytes(bytes);
    spent
        .and_then(|()| fuel.nodes(state.0.len()))
        .map_err(|_| {
            let message = format!(
                "{}: more than {} bytes or {} files",
                root.display(),
                limits.bytes,
                limits.files
            );
            PortError::new(ErrorKind::Invalid, message)
        })?;
    let mut tree = FileTree::new();
    for path in state.0.keys() {
        let (kind, content) = match content(path) {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(path, error)),
        };
        let relative = path.strip_prefix(root).ok().and_then(Path::to_str);
        let relative = relative.ok_or_else(|| unreadable(path, "the name is not UTF-8"))?;
        let place = TreePath::new(relative).map_err(|error| unreadable(path, error))?;
        let inserted = tree.insert(place, kind, content);
        inserted.map_err(|error| unreadable(path, error))?;
    }
    Ok(Some(tree))
}

fn content(path: &Path) -> std::io::Result<(EntryKind, Vec<u8>)> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        let target = fs::read_link(path)?;
        return Ok((
            EntryKind::Link,
            target.into_os_string().into_encoded_bytes(),
        ));
    }
    let kind = if is_executable(&meta) {
        EntryKind::Executable
    } else {
        EntryKind::File
    };
    Ok((kind, fs::read(path)?))
}

#[cfg(unix)]
fn is_executable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    meta.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

fn unreadable(path: &Path, reason: impl std::fmt::Display) -> PortError {
    PortError::new(
        ErrorKind::Unreadable,
        format!("read {}: {reason}", path.display()),
    )
}

/// Runs blocking work on a blocking thread.
async fn run<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(PortError::new(
            ErrorKind::Unavailable,
            format!("read a directory: {error}"),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://github.com/acme/fleet";

    fn branch(name: &str) -> GitReference {
        GitReference {
            branch: name.into(),
            ..GitReference::default()
        }
    }

    async fn resolve(git: &DirectoryGit, name: &str) -> Result<Commit> {
        git.resolve(URL, &branch(name), &GitAuth::Anonymous, None)
            .await
    }

    #[tokio::test]
    async fn an_edit_is_a_new_commit_and_temporary_files_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("a.yaml", "a: 1\n");
        write(".gitignore", "target/\n");
        let git = DirectoryGit::new(Duration::from_millis(20))
            .with(&format!("{URL}.git"), None, directory.path())
            .unwrap();
        let first = resolve(&git, "main").await.unwrap();
        assert_eq!(first.revision(), format!("main@sha1:{}", first.sha));
        fs::create_dir(directory.path().join("target")).unwrap();
        for (name, text) in [
            (".a.yaml.swp", "x"),
            ("a.yaml~", "x"),
            ("4913", ""),
            ("target/x", "x"),
        ] {
            write(name, text);
        }
        assert!(git.changed().await.is_empty());
        assert_eq!(resolve(&git, "main").await.unwrap(), first);

        write("a.yaml", "a: 22\n");
        assert_eq!(git.changed().await, ["github.com/acme/fleet"]);
        let second = resolve(&git, "main").await.unwrap();
        assert_ne!(second.sha, first.sha);
        let auth = GitAuth::Anonymous;
        let tree = git
            .fetch(URL, &second, &auth, FetchLimits::default())
            .await
            .unwrap();
        let file = TreePath::new("a.yaml").unwrap();
        assert_eq!(tree.content(&file).unwrap().as_ref(), b"a: 22\n");
        assert_eq!(git_tree_id(tree.index()), second.sha);
        let old = git.fetch(URL, &first, &auth, FetchLimits::default()).await;
        assert_eq!(old.unwrap_err().kind, ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn a_half_written_file_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.yaml");
        fs::write(&file, "").unwrap();
        let git = DirectoryGit::new(Duration::from_millis(200))
            .with(URL, None, directory.path())
            .unwrap();
        let writer = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(60)).await;
            fs::write(&file, "whole").unwrap();
        });
        let commit = resolve(&git, "main").await.unwrap();
        writer.await.unwrap();
        let limits = FetchLimits::default();
        let tree = git
            .fetch(URL, &commit, &GitAuth::Anonymous, limits)
            .await
            .unwrap();
        assert_eq!(
            tree.content(&TreePath::new("a.yaml").unwrap())
                .unwrap()
                .as_ref(),
            b"whole"
        );
    }

    #[tokio::test]
    async fn each_branch_can_have_a_directory() {
        let (all, dev) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(dev.path().join("dev.yaml"), "a: 1\n").unwrap();
        let git = DirectoryGit::new(Duration::ZERO)
            .with(URL, Some("dev"), dev.path())
            .unwrap();
        assert_ne!(
            resolve(&git, "dev").await.unwrap().sha,
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        );
        assert_eq!(
            resolve(&git, "main").await.unwrap_err().kind,
            ErrorKind::Unsupported
        );
        let git = git.with(URL, None, all.path()).unwrap();
        assert_eq!(
            resolve(&git, "main").await.unwrap().sha,
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        );
        assert!(git.clone().with("nonsense", None, all.path()).is_err());
        let file = dev.path().join("dev.yaml");
        for (path, message) in [
            (Path::new("/nowhere/at/all"), "No such file"),
            (&file, "dev.yaml is not a directory"),
        ] {
            let refused = git.clone().with(URL, None, path).err().unwrap();
            assert!(refused.message.contains(message), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_removed_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.yaml"), "a: 1\n").unwrap();
        let git = DirectoryGit::new(Duration::ZERO)
            .with(URL, None, directory.path())
            .unwrap();
        resolve(&git, "main").await.unwrap();
        directory.close().unwrap();
        assert_eq!(git.changed().await.len(), 1);
        assert!(git.changed().await.is_empty(), "reported once");
        assert_eq!(
            resolve(&git, "main").await.unwrap_err().kind,
            ErrorKind::Unreadable
        );
    }
}
