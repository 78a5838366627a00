//! A fleet repository of the user's own, in a folder.

use super::find::{Documents, plans};
use super::{Fleet, encrypted};
use crate::error::Error;
use driftless_adapters::git::FolderGit;
use driftless_core::hub::Settings;
use driftless_core::ports::{FetchLimits, Git as _, GitAuth, GitReference, Secret};
use driftless_manifest::{FileTree, TreePath};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The address of a repository that nothing says the address of.
const NOWHERE: &str = "https://fleet.internal/this/repository";

/// Where a fleet is, and what stands in for the rest.
#[derive(clap::Args)]
pub struct Options {
    /// The folder of a hub in the repository; may be given several times. Without it the hubs are found: folders with a
    /// gotk-sync.yaml, and those of clusters/
    #[arg(long = "path", value_name = "FOLDER")]
    paths: Vec<String>,
    /// The repository's own address, if its files do not tell it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A folder in place of another repository (of one branch or tag: URL@NAME=DIR); may be given several times
    #[arg(long = "source", value_name = "URL=DIR", value_parser = source)]
    sources: Vec<Source>,
    /// age keys for the SOPS files; without them encrypted values are replaced by placeholders
    #[arg(long, value_name = "FILE")]
    age_key: Option<PathBuf>,
    /// The service account of objects that name none
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// Refuse references to other namespaces
    #[arg(long)]
    no_cross_namespace_refs: bool,
}

/// A folder that stands in for a repository.
#[derive(Clone)]
struct Source {
    url: String,
    reference: Option<String>,
    folder: PathBuf,
}

fn source(text: &str) -> Result<Source, String> {
    let (url, folder) = text
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
        folder: PathBuf::from(folder),
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
            && self.age_key.is_none();
        let rules = self.no_cross_namespace_refs || self.default_service_account.is_some();
        match none && !rules {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "--path, --url, --source, --age-key, --default-service-account and --no-cross-namespace-refs need {without}"
            ))),
        }
    }

    /// Reads the folder.
    ///
    /// # Errors
    /// A folder that is not there, a key that cannot be read, no hub.
    pub async fn open(&self, dir: &Path, quiet: Duration) -> Result<Fleet, Error> {
        let age_keys = match &self.age_key {
            Some(file) => Some(
                std::fs::read(file)
                    .map_err(|error| Error::new(format!("{}: {error}", file.display())))?,
            ),
            None => None,
        };
        let mut git = FolderGit::new(quiet);
        if age_keys.is_none() {
            git = git.through(encrypted::hide);
        }
        let files = files(dir).await?;
        let documents = Documents::of(&files);
        let found = documents.find();
        let folders = if self.paths.is_empty() {
            found.hubs
        } else {
            named(&self.paths, &files)?
        };
        if folders.is_empty() {
            let what = format!(
                "{} has no hub: no folder with a gotk-sync.yaml, and none in clusters/",
                dir.display()
            );
            return Err(Error::new(what).next("name the folder of a hub with --path"));
        }
        let mut hubs = plans(&folders);
        for (hub, folder) in hubs.iter_mut().zip(&folders) {
            let left = documents.left_out(folder);
            hub.more = left
                .into_iter()
                .map(|folder| folder.as_str().to_owned())
                .collect();
        }
        let (url, branch) = match (&self.url, found.origin) {
            (Some(url), origin) => (url.clone(), origin.map(|origin| origin.1)),
            (None, Some((url, branch))) => (url, Some(branch)),
            (None, None) => (NOWHERE.to_owned(), None),
        };
        for source in &self.sources {
            git = git.with(&source.url, source.reference.as_deref(), &source.folder)?;
        }
        // Last: --source may name another folder for one of its branches.
        git = git.with(&url, branch.as_deref(), dir)?;
        Ok(Fleet {
            url,
            branch: branch.unwrap_or_else(|| "main".to_owned()),
            git,
            hubs,
            rules: Settings {
                default_service_account: self.default_service_account.clone(),
                no_cross_namespace_refs: self.no_cross_namespace_refs,
                ..Settings::default()
            },
            age_keys: age_keys.map(Secret::new),
        })
    }
}

/// The files of a folder as a source has them.
async fn files(dir: &Path) -> Result<FileTree, Error> {
    let git = FolderGit::new(Duration::ZERO).with(NOWHERE, None, dir)?;
    let auth = GitAuth::Installation;
    let commit = git
        .resolve(NOWHERE, &GitReference::default(), &auth, None)
        .await?;
    Ok(git
        .fetch(NOWHERE, &commit, &auth, FetchLimits::default())
        .await?)
}

fn named(paths: &[String], files: &FileTree) -> Result<Vec<TreePath>, Error> {
    let path = |text: &String| {
        let path = TreePath::new(text).map_err(|error| Error::usage(format!("--path: {error}")))?;
        match files.index().is_dir(&path) || path.is_root() {
            true => Ok(path),
            false => Err(Error::usage(format!(
                "--path: the repository has no folder '{path}'"
            ))),
        }
    };
    paths.iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        for (text, url, reference, folder) in [
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
            assert_eq!(source.folder, PathBuf::from(folder));
        }
        assert!(source("https://github.com/a/b").is_err());
    }
}
