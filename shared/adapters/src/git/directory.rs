//! Plain directories in place of Git repositories, for `check` and `demo`.

use async_trait::async_trait;
use driftless_core::flux::GitReference;
use driftless_core::ports::{Commit, ErrorKind, FetchLimits, Git, GitAuth, PortError, Result};
use driftless_core::source::index;
use driftless_manifest::{EntryKind, FileTree, TreePath, git_tree_id};
use ignore::{DirEntry, WalkBuilder};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How often a directory may change while it is read before that is an error.
const TRIES: usize = 20;

/// Plain directories in place of repositories: what stands in a directory now is the commit, and the id of its files as Git's
/// tree has it is the revision. No Git is needed.
///
/// A directory is read when it has been quiet for a while, so that a half-written file is nobody's commit. What a
/// `.gitignore` in the directory names, and what editors leave beside a file that they save, is no part of it.
#[derive(Clone)]
pub struct DirectoryGit {
    directories: Vec<Arc<Directory>>,
    quiet: Duration,
    change: Option<fn(&mut FileTree)>,
    bases: Option<Arc<dyn Git>>,
}

/// A directory and the repository it stands in for.
struct Directory {
    /// As [`index::repository`] has it.
    repository: String,
    /// The branch or tag; every one when absent.
    reference: Option<String>,
    path: PathBuf,
    change: Option<fn(&mut FileTree)>,
    taken: Mutex<Option<Taken>>,
}

/// The last commit of a directory.
struct Taken {
    look: DirectoryState,
    sha: String,
    tree: Arc<FileTree>,
}

/// What a directory looks like without reading its files.
#[derive(Clone, PartialEq, Eq)]
struct DirectoryState(BTreeMap<PathBuf, (SystemTime, u64)>);

impl DirectoryGit {
    /// No directory yet. A directory counts as quiet when nothing in it changed for `quiet`.
    pub fn new(quiet: Duration) -> Self {
        Self {
            directories: Vec::new(),
            quiet,
            change: None,
            bases: None,
        }
    }

    /// The same, with remote bases that no directory stands in for taken from elsewhere.
    #[must_use]
    pub fn with_bases(mut self, bases: Arc<dyn Git>) -> Self {
        self.bases = Some(bases);
        self
    }

    /// The same, with a change of what is read from directories that are added from now on. Revisions stay those of the files.
    pub fn through(mut self, change: fn(&mut FileTree)) -> Self {
        self.change = Some(change);
        self
    }

    /// The same with a directory in place of the repository at `url`, for one branch or tag or for all of them.
    ///
    /// # Errors
    /// The URL is no repository's, or there is no such directory.
    pub fn with(mut self, url: &str, reference: Option<&str>, path: &Path) -> Result<Self> {
        let repository = repository(url).ok_or_else(|| {
            let what =
                format!("'{url}' is not the URL of a repository, such as https://HOST/OWNER/NAME");
            PortError::new(ErrorKind::Invalid, what)
        })?;
        let path = path.canonicalize().map_err(|error| {
            PortError::new(ErrorKind::Invalid, format!("{}: {error}", path.display()))
        })?;
        if !path.is_dir() {
            let what = format!("{} is not a directory", path.display());
            return Err(PortError::new(ErrorKind::Invalid, what));
        }
        self.directories.push(Arc::new(Directory {
            repository,
            reference: reference.map(str::to_owned),
            path,
            change: self.change,
            taken: Mutex::default(),
        }));
        Ok(self)
    }

    /// The directory in place of a repository, and its files as they were taken last; `None` when nothing stands in for it.
    pub fn taken(&self, url: &str, reference: &GitReference) -> Option<(PathBuf, Arc<FileTree>)> {
        let directory = self.find(url, reference)?;
        let taken = directory.lock();
        Some((directory.path.clone(), taken.as_ref()?.tree.clone()))
    }

    /// The directories, and their files as they were taken last.
    pub fn trees(&self) -> Vec<(PathBuf, Arc<FileTree>)> {
        let taken = |directory: &Arc<Directory>| {
            let tree = directory.lock().as_ref()?.tree.clone();
            Some((directory.path.clone(), tree))
        };
        self.directories.iter().filter_map(taken).collect()
    }

    /// Every directory, and its files as they stand in it now, whatever [`DirectoryGit::through`] makes of them.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn all(&self) -> Result<Vec<(PathBuf, FileTree)>> {
        let read = |directory: &Arc<Directory>| {
            let tree = read(
                &directory.path,
                &DirectoryState::at(&directory.path)?,
                FetchLimits::default(),
            )?;
            Ok((directory.path.clone(), tree.unwrap_or_default()))
        };
        self.directories.iter().map(read).collect()
    }

    /// The repositories, as [`index::repository`] names them, whose directories look different from when they were taken last.
    /// A directory that cannot be read any more is one of them, once.
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

    /// Whether a directory stands in for the default branch, or for every one, of a repository.
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
            let what = format!(
                "no local directory is configured for {} of this repository",
                name(reference)
            );
            PortError::new(ErrorKind::Unsupported, what)
        })
    }

    /// Waits until a directory is quiet and takes what stands in it, unless it looks as it did the last time.
    async fn take(&self, directory: &Arc<Directory>, limits: FetchLimits) -> Result<String> {
        for _ in 0..TRIES {
            let (of, quiet) = (directory.clone(), self.quiet);
            let look = run(move || DirectoryState::at(&of.path)).await?;
            if let Some(taken) = directory.lock().as_ref().filter(|taken| taken.look == look) {
                return Ok(taken.sha.clone());
            }
            tokio::time::sleep(quiet).await;
            let of = directory.clone();
            if let Some(sha) = run(move || of.read(look, limits)).await? {
                return Ok(sha);
            }
        }
        let what = format!("{} changes all the time", directory.path.display());
        Err(PortError::new(ErrorKind::Unavailable, what))
    }
}

/// The repository at an address, as [`index::repository`] has it; a host of charts may have no path.
fn repository(url: &str) -> Option<String> {
    index::repository(url).or_else(|| {
        let (_, host) = url.split_once("://")?;
        let host = host.trim_end_matches('/');
        let is_host = !host.is_empty() && !host.contains('/') && !url.starts_with("file:");
        is_host.then(|| host.to_lowercase())
    })
}

/// What a reference asks for, as people call it.
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
            Some(taken) if taken.sha == commit.sha => Ok(FileTree::clone(&taken.tree)),
            _ => {
                let what = format!("{} changed while it was fetched", directory.path.display());
                Err(PortError::new(ErrorKind::Unavailable, what))
            }
        }
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

/// The end of the message about a remote base that nothing stands in for.
pub const BASE_NOT_FETCHED: &str = "remote bases are not fetched here";

impl Directory {
    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it looks different from when it was taken; what cannot be read counts as not taken from then on.
    fn is_changed(&self) -> bool {
        let look = DirectoryState::at(&self.path);
        let mut taken = self.lock();
        let Some(known) = taken.as_ref() else {
            return false;
        };
        let same = look.as_ref().is_ok_and(|look| known.look == *look);
        if look.is_err() {
            *taken = None;
        }
        !same
    }

    /// Takes what stands in the directory, if it looks like `look` before and after; the id of the files then.
    fn read(&self, look: DirectoryState, limits: FetchLimits) -> Result<Option<String>> {
        if DirectoryState::at(&self.path)? != look {
            return Ok(None);
        }
        let Some(mut tree) = read(&self.path, &look, limits)? else {
            return Ok(None);
        };
        if DirectoryState::at(&self.path)? != look {
            return Ok(None);
        }
        let sha = git_tree_id(tree.index());
        if let Some(change) = self.change {
            change(&mut tree);
        }
        *self.lock() = Some(Taken {
            look,
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
                // It went away between two looks at it.
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(unreadable(root, error)),
            };
            if meta.is_file() || meta.is_symlink() {
                let time = meta.modified().map_err(|error| unreadable(root, error))?;
                seen.insert(entry.into_path(), (time, meta.len()));
            }
        }
        if seen.is_empty() && !root.is_dir() {
            return Err(unreadable(root, "it is not there any more"));
        }
        Ok(Self(seen))
    }
}

fn is_absent(error: &ignore::Error) -> bool {
    error
        .io_error()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Whether a file is somebody's work, and not Git's own or an editor's on its way to save one.
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

/// The files that were seen; `None` when one of them is gone already.
fn read(root: &Path, look: &DirectoryState, limits: FetchLimits) -> Result<Option<FileTree>> {
    let bytes: u64 = look.0.values().map(|(_, size)| size).sum();
    if bytes > limits.bytes || look.0.len() > limits.files {
        let what = format!(
            "{}: it has more than {} bytes or {} files",
            root.display(),
            limits.bytes,
            limits.files
        );
        return Err(PortError::new(ErrorKind::Invalid, what));
    }
    let mut tree = FileTree::new();
    for path in look.0.keys() {
        let (kind, content) = match content(path) {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(path, error)),
        };
        let relative = path.strip_prefix(root).ok().and_then(Path::to_str);
        let relative = relative.ok_or_else(|| unreadable(path, "its name is not UTF-8"))?;
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

fn unreadable(path: &Path, why: impl std::fmt::Display) -> PortError {
    PortError::new(
        ErrorKind::Unreadable,
        format!("read {}: {why}", path.display()),
    )
}

/// Runs blocking work away from the async threads.
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
    async fn an_edit_is_a_new_commit_and_leftovers_of_editors_are_none() {
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
    async fn branches_have_directories_of_their_own() {
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
        for (path, what) in [
            (Path::new("/nowhere/at/all"), "No such file"),
            (&file, "dev.yaml is not a directory"),
        ] {
            let refused = git.clone().with(URL, None, path).err().unwrap();
            assert!(refused.message.contains(what), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_directory_that_went_away_is_no_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.yaml"), "a: 1\n").unwrap();
        let git = DirectoryGit::new(Duration::ZERO)
            .with(URL, None, directory.path())
            .unwrap();
        resolve(&git, "main").await.unwrap();
        directory.close().unwrap();
        assert_eq!(git.changed().await.len(), 1);
        assert!(git.changed().await.is_empty(), "it is told once");
        assert_eq!(
            resolve(&git, "main").await.unwrap_err().kind,
            ErrorKind::Unreadable
        );
    }
}
