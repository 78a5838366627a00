//! A fleet repository of the user's own, in a directory.

use super::find::{Documents, Found, plans};
use super::{Fleet, HubPlan, encrypted, origin};
use crate::error::Error;
use driftless_adapters::git::DirectoryGit;
use driftless_core::flux::GitReference;
use driftless_core::hub::Settings;
use driftless_core::ports::{FetchLimits, Git as _, GitAuth, Secret};
use driftless_core::source::index;
use driftless_manifest::{FileTree, TreePath};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The address of a repository that nothing says the address of.
const NOWHERE: &str = "https://fleet.internal/this/repository";

/// Where a fleet is, and what stands in for the rest.
#[derive(clap::Args)]
pub struct Options {
    /// The directory of a hub in the repository; may be given several times. Without it the hubs are found: directories with a
    /// gotk-sync.yaml, that a FluxInstance synchronises, those of clusters/, or the one that leads to all other Kustomizations
    #[arg(long = "path", value_name = "DIRECTORY")]
    paths: Vec<String>,
    /// The repository's own address, if its files do not tell it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A directory in place of another repository (of one branch or tag: URL@NAME=DIR), of a repository of charts (the address of
    /// its HelmRepository; the directory holds charts as directories or packaged), or of an OCI repository; may be given several times
    #[arg(long = "source", value_name = "URL=DIR", value_parser = source)]
    sources: Vec<Source>,
    /// Keys for the SOPS files, age identities or armored OpenPGP secret keys; without them encrypted values are replaced by
    /// placeholders
    #[arg(long, alias = "age-key", value_name = "FILE")]
    sops_key: Option<PathBuf>,
    /// The service account of objects that name none
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// Refuse references to other namespaces
    #[arg(long)]
    no_cross_namespace_refs: bool,
}

/// A directory that stands in for a repository.
#[derive(Clone)]
struct Source {
    url: String,
    reference: Option<String>,
    directory: PathBuf,
}

fn source(text: &str) -> Result<Source, String> {
    let (url, directory) = text
        .rsplit_once('=')
        .ok_or("expected URL=DIR or URL@BRANCH=DIR")?;
    let scheme = url.find("://").map_or(0, |at| at + 3);
    // A user before the host has an @, too: the name of a branch stands behind the path.
    let path = url[scheme..].find('/').map_or(url.len(), |at| scheme + at);
    let (url, reference) = match url[path..].split_once('@') {
        Some((rest, name)) => (format!("{}{rest}", &url[..path]), Some(name.to_owned())),
        None => (url.to_owned(), None),
    };
    Ok(Source {
        url,
        reference,
        directory: PathBuf::from(directory),
    })
}

impl Options {
    /// Refuses options that say something about a fleet that was not given.
    ///
    /// # Errors
    /// One of them was given.
    pub fn refuse(&self, without: &str) -> Result<(), Error> {
        let none = self.paths.is_empty()
            && self.sources.is_empty()
            && self.url.is_none()
            && self.sops_key.is_none();
        let rules = self.no_cross_namespace_refs || self.default_service_account.is_some();
        match none && !rules {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "--path, --url, --source, --sops-key, --default-service-account and --no-cross-namespace-refs need {without}"
            ))),
        }
    }

    /// Reads the directory: a fleet repository, or one that stands beside the repositories that it needs.
    ///
    /// # Errors
    /// A directory that is not there, a key that cannot be read, no hub.
    pub async fn open(&self, dir: &Path, quiet: Duration) -> Result<Fleet, Error> {
        if dir.is_file() {
            let what = format!("{} is a file, and not a directory", dir.display());
            return Err(Error::usage(what).next("give the directory of the fleet repository"));
        }
        if !dir.exists() {
            let what = format!("the directory {} does not exist", dir.display());
            return Err(Error::usage(what).next("give the directory of the fleet repository"));
        }
        let files = files(dir).await?;
        let documents = Documents::of(&files);
        let found = documents.find();
        let has_hub = match self.paths.is_empty() {
            true => !found.hubs.is_empty(),
            false => self.paths.iter().all(|path| is_directory(path, &files)),
        };
        if !has_hub
            && !documents.leads_on()
            && let Some(beside) = self.beside(dir, &files)
        {
            let files = self::files(&beside.fleet).await?;
            let documents = Documents::of(&files);
            let found = documents.find();
            return self.fleet(&beside.fleet, quiet, &documents, found, Some(&beside));
        }
        self.fleet(dir, quiet, &documents, found, None)
    }

    fn fleet(
        &self,
        dir: &Path,
        quiet: Duration,
        documents: &Documents<'_>,
        found: Found,
        beside: Option<&Beside>,
    ) -> Result<Fleet, Error> {
        let hubs = self.hubs(dir, documents, found.hubs)?;
        let sops_key = self
            .sops_key
            .as_ref()
            .or(beside.and_then(|one| one.sops_key.as_ref()));
        let sops_keys = sops_key.map(|file| {
            std::fs::read(file).map_err(|error| Error::unreadable("--sops-key", file, &error))
        });
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
            (None, None, None) => (NOWHERE.to_owned(), None),
        };
        if let Some(artifact) = &found.artifact {
            git = git.with(artifact, None, dir)?;
        }
        for source in &self.sources {
            git = git.with(&source.url, source.reference.as_deref(), &source.directory)?;
        }
        let mut told = Vec::new();
        if let Some(beside) = beside {
            told.push(format!("{} is the fleet repository", dir.display()));
            for (url, directory) in beside.sources(documents) {
                git = git.with(&url, None, &directory)?;
                told.push(format!("{} stands in for {url}", directory.display()));
            }
        }
        // Last: --source may name another directory for one of its branches.
        git = git.with(&url, branch.as_deref(), dir)?;
        if let Some(cloned) =
            cloned.filter(|cloned| index::repository(cloned) != index::repository(&url))
        {
            git = git.with(&cloned, None, dir)?;
        }
        Ok(Fleet {
            is_stated: documents.states(&url),
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
            told,
        })
    }

    /// The hubs that were named, or else found.
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

    /// The one directory in a directory that is a fleet repository, as it was asked for; the others are repositories beside it.
    fn beside(&self, dir: &Path, files: &FileTree) -> Option<Beside> {
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
        Some(Beside {
            fleet: dir.join(fleet),
            others: others.map(|name| (name.clone(), dir.join(name))).collect(),
            sops_key: keys.map(|(name, _)| dir.join(name)),
        })
    }
}

/// A fleet repository in a directory, and what else stands there.
struct Beside {
    fleet: PathBuf,
    /// The other directories by name.
    others: BTreeMap<String, PathBuf>,
    sops_key: Option<PathBuf>,
}

impl Beside {
    /// The repositories that the fleet names and that one of the directories is called after.
    fn sources(&self, documents: &Documents<'_>) -> Vec<(String, PathBuf)> {
        let urls: BTreeSet<String> = documents.sources().map(|(_, url, _)| url).collect();
        let stands_in = |url: String| {
            let name = url.trim_end_matches('/').rsplit('/').next()?;
            let directory = self.others.get(name.trim_end_matches(".git"))?.clone();
            index::repository(&url)
                .is_some()
                .then_some((url, directory))
        };
        urls.into_iter().filter_map(stands_in).collect()
    }
}

/// The root of the repository that a directory stands below, if it is not the root itself.
fn root_above(dir: &Path) -> Option<PathBuf> {
    let dir = dir.canonicalize().ok()?;
    if dir.join(".git").exists() {
        return None;
    }
    let root = dir.ancestors().find(|above| above.join(".git").exists())?;
    Some(root.to_owned())
}

fn below_root(dir: &Path, root: &Path) -> Error {
    let what = format!(
        "{} is a directory of the repository {}, and has no hub of its own",
        dir.display(),
        root.display()
    );
    Error::new(what).next(format!(
        "run the command on the root of the repository: {}",
        root.display()
    ))
}

/// The most directories that an error lists.
const LISTED: usize = 12;

/// The first directories of some, and how many more there are.
fn list(directories: &[String]) -> String {
    let listed = &directories[..directories.len().min(LISTED)];
    let mut list = listed.join(", ");
    if directories.len() > LISTED {
        list.push_str(&format!(" and {} more", directories.len() - LISTED));
    }
    list
}

fn no_hub(dir: &Path, candidates: &[TreePath]) -> Error {
    let what = format!(
        "{} has no hub: no directory with a gotk-sync.yaml, no FluxInstance that synchronises a directory of it, none \
         in clusters/, and not one directory that leads to all others",
        dir.display()
    );
    if candidates.is_empty() {
        let what = format!("{what}; no file of it has a Kustomization or a source of Flux");
        return Error::new(what).next("name the directory of a hub with --path");
    }
    let directories: Vec<String> = candidates
        .iter()
        .map(|directory| match directory.is_root() {
            true => ".".to_owned(),
            false => directory.to_string(),
        })
        .collect();
    let list = list(&directories);
    let what = format!("{what}. Directories with Kustomizations or sources of Flux: {list}");
    Error::new(what)
        .next("name the directory of a hub with --path; each cluster is a --path of its own")
}

/// The files of a directory of a tree.
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

/// The files of a directory as a source has them.
async fn files(dir: &Path) -> Result<FileTree, Error> {
    let git = DirectoryGit::new(Duration::ZERO).with(NOWHERE, None, dir)?;
    let auth = GitAuth::Anonymous;
    let commit = git
        .resolve(NOWHERE, &GitReference::default(), &auth, None)
        .await?;
    Ok(git
        .fetch(NOWHERE, &commit, &auth, FetchLimits::default())
        .await?)
}

/// What to do about a directory that does not exist: the directories beside it, from the first part of its path that does not exist.
fn beside(path: &TreePath, files: &FileTree) -> String {
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
                let what = format!("--path: the repository has no directory '{path}'");
                Err(Error::usage(what).next(beside(&path, files)))
            }
        }
    };
    paths.iter().map(path).collect()
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
            let source = source(text).unwrap();
            assert_eq!(
                (source.url.as_str(), source.reference.as_deref()),
                (url, reference),
                "{text}"
            );
            assert_eq!(source.directory, PathBuf::from(directory));
        }
        assert!(source("https://github.com/a/b").is_err());
    }
}
