//! Opens a fleet repository that the user has in a directory.

use super::hubs::{Documents, FleetFacts, plans};
use super::{Fleet, HubPlan, encrypted, origin};
use crate::error::Error;
use driftless_adapters::git::DirectoryGit;
use driftless_flux::GitReference;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{FetchLimits, Git as _, GitAuth, Secret};
use driftless_manifest::{FileTree, TreePath};
use driftless_source::index;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The URL of a repository whose URL is not known.
const PLACEHOLDER_URL: &str = "https://fleet.internal/this/repository";

/// Options about the fleet repository and what replaces external services.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directories of hubs in the repository. Without one, hubs are the directories with
    /// a `gotk-sync.yaml`, those that a FluxInstance synchronises, those of `clusters/`, or the one
    /// from which all other Kustomizations are reached.
    pub paths: Vec<String>,
    /// The URL of the repository, if its files do not name it.
    pub url: Option<String>,
    /// The directories in place of other repositories.
    pub sources: Vec<Source>,
    /// The file with the keys for SOPS files. Without it encrypted values are replaced by
    /// placeholders.
    pub sops_key: Option<PathBuf>,
    /// The service account of objects that do not name one.
    pub default_service_account: Option<String>,
    /// True if references to other namespaces are refused.
    pub no_cross_namespace_refs: bool,
}

/// A directory in place of another repository, of a chart repository or of an OCI repository.
#[derive(Clone, Debug)]
pub struct Source {
    url: String,
    reference: Option<String>,
    directory: PathBuf,
}

/// A string does not name a repository and a directory.
#[derive(Debug, thiserror::Error)]
#[error("expected URL=DIR or URL@BRANCH=DIR")]
pub struct InvalidSource;

impl Source {
    /// Parses `URL=DIR`, or `URL@NAME=DIR` for one branch or tag.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidSource> {
        let (url, directory) = text.rsplit_once('=').ok_or(InvalidSource)?;
        let scheme = url.find("://").map_or(0, |at| at + 3);
        // A user before the host is also followed by an @: the branch follows the path.
        let path = url[scheme..].find('/').map_or(url.len(), |at| scheme + at);
        let (url, reference) = match url[path..].split_once('@') {
            Some((rest, name)) => (format!("{}{rest}", &url[..path]), Some(name.to_owned())),
            None => (url.to_owned(), None),
        };
        Ok(Self {
            url,
            reference,
            directory: PathBuf::from(directory),
        })
    }

    /// Returns the directory without symbolic links; `None` if it does not exist.
    fn resolved(&self) -> Option<PathBuf> {
        self.directory.canonicalize().ok()
    }
}

impl Options {
    /// Opens a directory: a fleet repository, or the parent of one and of the repositories that it
    /// references.
    ///
    /// # Errors
    /// The directory does not exist, a key cannot be read, or no hub was found.
    pub async fn open(&self, dir: &Path, quiet: Duration) -> Result<Fleet, Error> {
        if dir.is_file() {
            let message = format!("{} is a file, and not a directory", dir.display());
            return Err(Error::usage(message).next("give the directory of the fleet repository"));
        }
        if !dir.exists() {
            let message = format!("the directory {} does not exist", dir.display());
            return Err(Error::usage(message).next("give the directory of the fleet repository"));
        }
        let files = files(dir).await?;
        let documents = Documents::of(&files);
        let found = documents.find();
        let place = Place { dir, files: None };
        let has_hub = match self.paths.is_empty() {
            true => !found.hubs.is_empty(),
            false => self.paths.iter().all(|path| is_directory(path, &files)),
        };
        let parts = match documents.has_paths() {
            true => Vec::new(),
            false => repositories(&files),
        };
        if has_hub && parts.len() > 1 && self.paths.is_empty() {
            return Err(several(dir, &parts));
        }
        if (!has_hub || !parts.is_empty())
            && !documents.has_paths()
            && let Some(workspace) = self.workspace(dir, &files)
        {
            let files = self::files(&workspace.fleet).await?;
            let documents = Documents::of(&files);
            let found = documents.find();
            let place = Place {
                dir: &workspace.fleet,
                files: None,
            };
            return self.fleet(&place, quiet, &documents, found, Some(&workspace));
        }
        self.fleet(&place, quiet, &documents, found, None)
    }

    /// Opens a fleet repository whose files are in memory, such as those of a commit. `dir` is the
    /// directory that they are a state of.
    ///
    /// # Errors
    /// A key cannot be read, or no hub was found.
    pub fn open_files(&self, dir: &Path, files: FileTree) -> Result<Fleet, Error> {
        let files = Arc::new(files);
        let documents = Documents::of(&files);
        let found = documents.find();
        let place = Place {
            dir,
            files: Some(files.clone()),
        };
        self.fleet(&place, Duration::ZERO, &documents, found, None)
    }

    fn fleet(
        &self,
        place: &Place<'_>,
        quiet: Duration,
        documents: &Documents<'_>,
        found: FleetFacts,
        workspace: Option<&Workspace>,
    ) -> Result<Fleet, Error> {
        let dir = place.dir;
        let hubs = self.hubs(dir, documents, found.hubs)?;
        let sops_key = self
            .sops_key
            .as_ref()
            .or(workspace.and_then(|one| one.sops_key.as_ref()));
        let sops_keys =
            sops_key.map(|file| std::fs::read(file).map_err(|error| unreadable(file, &error)));
        let sops_keys = sops_keys.transpose()?;
        let mut git = DirectoryGit::new(quiet);
        if sops_keys.is_none() {
            git = git.through(encrypted::hide);
        }
        let cloned = origin::of(dir);
        let (url, branch) = match (&self.url, found.origin, &cloned) {
            (Some(url), origin, _) => (url.clone(), origin.map(|origin| origin.1)),
            (None, Some((url, branch)), _) => (url, Some(branch)),
            (None, None, Some(url)) => (url.clone(), None),
            (None, None, None) => (PLACEHOLDER_URL.to_owned(), None),
        };
        if let Some(artifact) = &found.artifact {
            git = place.add(git, artifact, None)?;
        }
        for source in &self.sources {
            git = git.with(&source.url, source.reference.as_deref(), &source.directory)?;
        }
        let mut messages = Vec::new();
        if let Some(workspace) = workspace {
            messages.push(format!("{} is the fleet repository", dir.display()));
            let mut unused = workspace.others.clone();
            for source in workspace.sources(documents) {
                git = git.with(&source.url, source.reference.as_deref(), &source.directory)?;
                let branch = source
                    .reference
                    .map_or_else(String::new, |name| format!("@{name}"));
                let shown = source.directory.display();
                messages.push(format!("{shown} replaces {}{branch}", source.url));
                unused.retain(|_, directory| *directory != source.directory);
            }
            let given: Vec<PathBuf> = self.sources.iter().filter_map(Source::resolved).collect();
            let is_given = |directory: &&PathBuf| {
                let real = directory.canonicalize();
                real.is_ok_and(|real| given.contains(&real))
            };
            for directory in unused.values().filter(|one| !is_given(one)) {
                messages.push(format!(
                    "{} replaces no repository: name the URL with --source URL=DIR or URL@BRANCH=DIR",
                    directory.display()
                ));
            }
        }
        // This comes last: --source may name another directory for a branch of it.
        git = place.add(git, &url, branch.as_deref())?;
        if let Some(cloned) =
            cloned.filter(|cloned| index::repository(cloned) != index::repository(&url))
        {
            git = place.add(git, &cloned, None)?;
        }
        Ok(Fleet {
            is_stated: documents.has_source(&url),
            url,
            branch: branch.unwrap_or_else(|| "main".to_owned()),
            artifact: found.artifact,
            git,
            hubs,
            rules: Settings {
                default_service_account: self.default_service_account.clone(),
                no_cross_namespace_refs: self.no_cross_namespace_refs,
                ..Settings::default()
            },
            sops_keys: sops_keys.map(Secret::new),
            kube_version: None,
            messages,
        })
    }

    /// Returns the hubs of `--path`, else those that were found.
    fn hubs(
        &self,
        dir: &Path,
        documents: &Documents<'_>,
        found: Vec<TreePath>,
    ) -> Result<Vec<HubPlan>, Error> {
        let directories = match self.paths.is_empty() {
            true => found,
            false => named(&self.paths, documents.tree())?,
        };
        if directories.is_empty() {
            return Err(match root_above(dir) {
                Some(root) => below_root(dir, &root),
                None => no_hub(dir, &documents.candidates()),
            });
        }
        let mut hubs = plans(&directories);
        for (hub, directory) in hubs.iter_mut().zip(&directories) {
            let left = documents.left_out(directory).into_iter();
            hub.more = left
                .map(|directory| directory.as_str().to_owned())
                .collect();
        }
        Ok(hubs)
    }

    /// Returns the workspace in a directory with exactly one fleet repository; its other
    /// subdirectories are further repositories.
    fn workspace(&self, dir: &Path, files: &FileTree) -> Option<Workspace> {
        let children = files.index().children(&TreePath::root());
        let (directories, rest): (Vec<_>, Vec<_>) = children
            .into_iter()
            .partition(|(_, is_directory)| *is_directory);
        let directories: Vec<String> = directories.into_iter().map(|(name, _)| name).collect();
        let is_fleet = |name: &&String| {
            let Some(part) = below(files, name) else {
                return false;
            };
            match self.paths.is_empty() {
                true => !Documents::of(&part).find().hubs.is_empty(),
                false => self.paths.iter().all(|path| is_directory(path, &part)),
            }
        };
        let fleets: Vec<&String> = directories.iter().filter(is_fleet).collect();
        let [fleet] = fleets[..] else {
            return None;
        };
        let others = directories.iter().filter(|name| *name != fleet);
        let keys = rest.iter().find(|(name, _)| name.ends_with(".agekey"));
        Some(Workspace {
            fleet: dir.join(fleet),
            others: others.map(|name| (name.clone(), dir.join(name))).collect(),
            sops_key: keys.map(|(name, _)| dir.join(name)),
        })
    }
}

/// A fleet repository: a directory, or a state of it in memory.
struct Place<'a> {
    dir: &'a Path,
    files: Option<Arc<FileTree>>,
}

impl Place<'_> {
    /// Adds the repository in place of the one at a URL.
    fn add(
        &self,
        git: DirectoryGit,
        url: &str,
        reference: Option<&str>,
    ) -> Result<DirectoryGit, Error> {
        Ok(match &self.files {
            Some(files) => git.with_files(url, reference, self.dir, files.clone())?,
            None => git.with(url, reference, self.dir)?,
        })
    }
}

/// A directory with a fleet repository, further repositories and keys.
struct Workspace {
    fleet: PathBuf,
    /// The other subdirectories by name.
    others: BTreeMap<String, PathBuf>,
    sops_key: Option<PathBuf>,
}

impl Workspace {
    /// Returns the repositories that the fleet references, each with the directory of the same
    /// name, else with the directory that has the name of the branch.
    fn sources(&self, documents: &Documents<'_>) -> Vec<Source> {
        let sources: BTreeSet<(String, String)> = documents
            .sources()
            .map(|(_, url, branch)| (url, branch))
            .collect();
        let replaces = |(url, branch): (String, String)| {
            index::repository(&url)?;
            let name = url.trim_end_matches('/').rsplit('/').next()?;
            if let Some(directory) = self.others.get(name.trim_end_matches(".git")) {
                return Some(Source {
                    directory: directory.clone(),
                    reference: None,
                    url,
                });
            }
            Some(Source {
                directory: self.others.get(&branch)?.clone(),
                reference: Some(branch),
                url,
            })
        };
        let mut all: Vec<Source> = sources.into_iter().filter_map(replaces).collect();
        all.dedup_by(|one, other| (&one.url, &one.reference) == (&other.url, &other.reference));
        all
    }
}

/// Returns the top-level directories that look like fleet repositories: paths of their
/// Kustomizations are directories below them.
fn repositories(files: &FileTree) -> Vec<String> {
    let children = files.index().children(&TreePath::root()).into_iter();
    let directories = children.filter(|(_, is_directory)| *is_directory);
    let is_repository =
        |name: &String| below(files, name).is_some_and(|part| Documents::of(&part).has_paths());
    directories
        .map(|(name, _)| name)
        .filter(is_repository)
        .collect()
}

fn several(dir: &Path, parts: &[String]) -> Error {
    let shown = dir.display();
    let message = format!(
        "{shown} holds several fleet repositories ({}): the paths of their Kustomizations are directories below each of \
         them, and not below {shown}",
        list(parts)
    );
    let first = dir.join(parts.first().map_or("", String::as_str));
    let second = dir.join(parts.get(1).map_or("", String::as_str));
    Error::usage(message).next(format!(
        "run the command on one of them, and name the URL of each other one that it references: {} --source \
         URL@BRANCH={}",
        first.display(),
        second.display()
    ))
}

/// Returns the root of the repository that contains a directory, or `None` if the directory is the
/// root.
fn root_above(dir: &Path) -> Option<PathBuf> {
    let dir = dir.canonicalize().ok()?;
    if dir.join(".git").exists() {
        return None;
    }
    let root = dir.ancestors().find(|above| above.join(".git").exists())?;
    Some(root.to_owned())
}

fn below_root(dir: &Path, root: &Path) -> Error {
    let message = format!(
        "{} is a directory of the repository {} and has no hub",
        dir.display(),
        root.display()
    );
    Error::new(message).next(format!(
        "run the command on the root of the repository: {}",
        root.display()
    ))
}

/// The highest number of directories that an error lists.
const LISTED: usize = 12;

/// Renders the first directories, and the number of the others.
fn list(directories: &[String]) -> String {
    let listed = &directories[..directories.len().min(LISTED)];
    let mut list = listed.join(", ");
    if directories.len() > LISTED {
        list.push_str(&format!(" and {} more", directories.len() - LISTED));
    }
    list
}

fn no_hub(dir: &Path, candidates: &[TreePath]) -> Error {
    let message = format!(
        "{} has no hub: no directory with a gotk-sync.yaml, no FluxInstance that synchronises a directory of it, no \
         directory in clusters/, and no single directory from which all others are reached",
        dir.display()
    );
    if candidates.is_empty() {
        let message = format!("{message}; no file of it has a Kustomization or a source of Flux");
        return Error::new(message).next("name the directory of a hub with --path");
    }
    let directories: Vec<String> = candidates
        .iter()
        .map(|directory| match directory.is_root() {
            true => ".".to_owned(),
            false => directory.to_string(),
        })
        .collect();
    let list = list(&directories);
    let message = format!("{message}. Directories with Kustomizations or sources of Flux: {list}");
    Error::new(message).next("name the directory of each hub with --path")
}

/// Returns the files of a subdirectory.
fn below(files: &FileTree, name: &str) -> Option<FileTree> {
    let directory = TreePath::new(name).ok()?;
    let mut part = FileTree::new();
    for (path, entry) in files.index().below(&directory) {
        let content = files.content(path).cloned().unwrap_or_default();
        let path = TreePath::new(path.as_str().strip_prefix(name)?.trim_start_matches('/')).ok()?;
        part.insert(path, entry.kind.clone(), content).ok()?;
    }
    Some(part)
}

fn is_directory(path: &str, files: &FileTree) -> bool {
    TreePath::new(path).is_ok_and(|path| path.is_root() || files.index().is_dir(&path))
}

/// Reads the files of a directory as a source does, with its exclusions.
async fn files(dir: &Path) -> Result<FileTree, Error> {
    let git = DirectoryGit::new(Duration::ZERO).with(PLACEHOLDER_URL, None, dir)?;
    let auth = GitAuth::Anonymous;
    let commit = git
        .resolve(PLACEHOLDER_URL, &GitReference::default(), &auth, None)
        .await?;
    Ok(git
        .fetch(PLACEHOLDER_URL, &commit, &auth, FetchLimits::default())
        .await?)
}

/// Returns a remedy for a path that does not exist: the directories that exist at the first missing
/// part of it.
fn remedy_for(path: &TreePath, files: &FileTree) -> String {
    let mut above = path.parent();
    while !above.is_root() && !files.index().is_dir(&above) {
        above = above.parent();
    }
    let children = files.index().children(&above).into_iter();
    let directories = children.filter(|(name, is_dir)| *is_dir && !name.starts_with('.'));
    let directories: Vec<String> = directories
        .filter_map(|(name, _)| Some(above.join(&name).ok()?.as_str().to_owned()))
        .collect();
    match directories.is_empty() {
        true => format!("'{above}' has no directories"),
        false => format!("give one of {}", list(&directories)),
    }
}

fn named(paths: &[String], files: &FileTree) -> Result<Vec<TreePath>, Error> {
    let path = |text: &String| {
        let path = TreePath::new(text).map_err(|error| Error::usage(format!("--path: {error}")))?;
        match files.index().is_dir(&path) || path.is_root() {
            true => Ok(path),
            false => {
                let message = format!("--path: the repository has no directory '{path}'");
                Err(Error::usage(message).next(remedy_for(&path, files)))
            }
        }
    };
    paths.iter().map(path).collect()
}

/// Returns the error for the file of `--sops-key` that cannot be read; an error of usage if it does
/// not exist.
fn unreadable(file: &Path, error: &io::Error) -> Error {
    let shown = file.display();
    match error.kind() {
        io::ErrorKind::NotFound => Error::usage(format!("--sops-key: {shown} does not exist"))
            .next("name a file that exists with --sops-key"),
        _ => Error::new(format!("--sops-key: {shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        for (text, url, reference, directory) in [
            (
                "https://github.com/a/b=../b",
                "https://github.com/a/b",
                None,
                "../b",
            ),
            (
                "https://github.com/a/b@dev=x",
                "https://github.com/a/b",
                Some("dev"),
                "x",
            ),
            (
                "ssh://git@github.com/a/b=x",
                "ssh://git@github.com/a/b",
                None,
                "x",
            ),
            (
                "ssh://git@github.com/a/b@v1=x",
                "ssh://git@github.com/a/b",
                Some("v1"),
                "x",
            ),
        ] {
            let source = Source::parse(text).unwrap();
            assert_eq!(
                (source.url.as_str(), source.reference.as_deref()),
                (url, reference),
                "{text}"
            );
            assert_eq!(source.directory, PathBuf::from(directory));
        }
        assert!(Source::parse("https://github.com/a/b").is_err());
    }
}
