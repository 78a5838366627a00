//! Fetches the files of a commit as one tarball from GitHub.

use super::Session;
use super::client::ApiRequest;
use crate::git::is_sha;
use driftless_kernel::ports::{ErrorKind, FetchLimits, PortError, Result};
use driftless_manifest::{BlobId, EntryKind, FileTree, TreePath, git_tree_id};
use driftless_source::archive;
use futures::{StreamExt, TryStreamExt};
use http::header;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The limit of the number of files that are fetched singly, because the tarball lacks them or has
/// changed them.
const SINGLE_FILES: usize = 300;
/// The number of such files that are fetched concurrently.
const CONCURRENT_FETCHES: usize = 8;
/// The limit of the number of listings of a tree that is too large for one.
const LISTINGS: usize = 2000;

#[derive(Deserialize)]
struct CommitObject {
    sha: String,
    tree: Object,
}

#[derive(Deserialize)]
struct Object {
    sha: String,
}

#[derive(Deserialize)]
struct Listing {
    sha: String,
    #[serde(default)]
    truncated: bool,
    tree: Vec<TreeEntry>,
}

#[derive(Deserialize)]
struct TreeEntry {
    path: String,
    mode: String,
    sha: String,
}

/// The files of a commit, as GitHub lists them.
type Files = BTreeMap<TreePath, (EntryKind, BlobId)>;

impl Session<'_> {
    /// Fetches the files of a commit, exactly as in its tree.
    ///
    /// GitHub makes tarballs with `git archive`, which leaves out (`export-ignore`) and rewrites
    /// (`export-subst`) files according to `.gitattributes`. Flux checks out the commit and so has
    /// all files unchanged. These files are therefore fetched singly. Submodules are left out.
    pub async fn fetch(&self, sha: &str, limits: FetchLimits) -> Result<FileTree> {
        let path = self.path(&format!("git/commits/{sha}"));
        let commit: CommitObject = self
            .ask(|login| ApiRequest::get(&path, login))
            .await?
            .json(&format!("GET {path}"))?;
        if commit.sha != sha || !is_sha(&commit.tree.sha) {
            return Err(self.unreadable("the answer is for another commit"));
        }
        let tree = self.tarball(sha, limits.clone()).await?;
        if git_tree_id(tree.index()) == commit.tree.sha {
            return Ok(tree);
        }
        let files = self.files(&commit.tree.sha, &limits).await?;
        self.complete(tree, &files, &limits).await
    }

    async fn tarball(&self, sha: &str, limits: FetchLimits) -> Result<FileTree> {
        let path = self.path(&format!("tarball/{sha}"));
        let limit = usize::try_from(limits.bytes).unwrap_or(usize::MAX);
        let packed = self
            .ask(|login| ApiRequest {
                limit,
                ..ApiRequest::get(&path, login)
            })
            .await?
            .body;
        let port = self.github.compute.as_ref();
        let unpacked = archive::unpack_apart(port, packed, true, limits).await;
        unpacked.map_err(|error| PortError {
            message: format!("{path}: {}", error.message),
            ..error
        })
    }

    /// Lists a tree, directory by directory if one listing is not enough.
    async fn files(&self, root: &str, limits: &FetchLimits) -> Result<Files> {
        let mut files = Files::new();
        let mut directories = vec![(TreePath::root(), root.to_owned(), true)];
        for _ in 0..LISTINGS {
            let Some((at, sha, whole)) = directories.pop() else {
                return Ok(files);
            };
            let listing = self.listing(&sha, whole).await?;
            if listing.truncated {
                if !whole {
                    return Err(self.unreadable("a directory is too large for one listing"));
                }
                directories.push((at, sha, false));
                continue;
            }
            for listed in listing.tree {
                let path = at
                    .join(&listed.path)
                    .map_err(|_| self.unreadable("the tree lists an invalid path"))?;
                let kind = match listed.mode.as_str() {
                    "100644" | "100664" => EntryKind::File,
                    "100755" => EntryKind::Executable,
                    "120000" => EntryKind::Link,
                    "160000" => continue,
                    "040000" if whole => continue,
                    "040000" => {
                        directories.push((path, listed.sha, true));
                        continue;
                    }
                    _ => return Err(self.unreadable("the tree lists an entry of an unknown mode")),
                };
                let id = BlobId::try_from(listed.sha)
                    .map_err(|_| self.unreadable("the tree lists a file without a hash"))?;
                files.insert(path, (kind, id));
            }
            if files.len() > limits.files {
                let message = format!("{}: more than {} files", self.repository, limits.files);
                return Err(PortError::new(ErrorKind::Invalid, message));
            }
        }
        Err(self.unreadable("the tree needs too many listings"))
    }

    async fn listing(&self, sha: &str, whole: bool) -> Result<Listing> {
        let path = self.path(&format!(
            "git/trees/{sha}{}",
            if whole { "?recursive=1" } else { "" }
        ));
        let listing: Listing = self
            .ask(|login| ApiRequest::get(&path, login))
            .await?
            .json(&format!("GET {path}"))?;
        if listing.sha != sha {
            return Err(self.unreadable("the listing is for another tree"));
        }
        Ok(listing)
    }

    /// Completes the tarball's files to the listed ones; the tarball may not have any other file.
    async fn complete(
        &self,
        tarball: FileTree,
        files: &Files,
        limits: &FetchLimits,
    ) -> Result<FileTree> {
        if let Some((path, _)) = tarball
            .index()
            .iter()
            .find(|(path, _)| !files.contains_key(*path))
        {
            return Err(self.unreadable(&format!(
                "the tarball has '{path}', which is not in the commit"
            )));
        }
        let differs = |path: &TreePath, kind: &EntryKind, id: &BlobId| {
            tarball
                .index()
                .get(path)
                .is_none_or(|entry| entry.id != *id || entry.kind != *kind)
        };
        let single = files
            .iter()
            .filter(|(path, (kind, id))| differs(path, kind, id));
        let single: Vec<(TreePath, BlobId)> =
            single.map(|(path, (_, id))| (path.clone(), *id)).collect();
        if single.len() > SINGLE_FILES {
            let reason = format!(
                "the tarball differs from the commit in {} files, which is too many",
                single.len()
            );
            return Err(self.unreadable(&reason));
        }
        let mut fetched: BTreeMap<TreePath, bytes::Bytes> =
            futures::stream::iter(single)
                .map(|(path, id)| async move {
                    Ok::<_, PortError>((path, self.blob(&id, limits).await?))
                })
                .buffer_unordered(CONCURRENT_FETCHES)
                .try_collect()
                .await?;
        let mut tree = FileTree::new();
        let fuel = limits.part();
        for (path, (kind, _)) in files {
            let content = fetched
                .remove(path)
                .or_else(|| tarball.content(path).cloned());
            let content =
                content.ok_or_else(|| self.unreadable(&format!("'{path}' is missing")))?;
            fuel.bytes(content.len()).map_err(|out| {
                let message = format!("{}: the files have {out}", self.repository);
                PortError::new(ErrorKind::Invalid, message)
            })?;
            let inserted = tree.insert(path.clone(), kind.clone(), content);
            inserted.map_err(|error| self.unreadable(&error.to_string()))?;
        }
        Ok(tree)
    }

    async fn blob(&self, id: &BlobId, limits: &FetchLimits) -> Result<bytes::Bytes> {
        let path = self.path(&format!("git/blobs/{id}"));
        let limit = usize::try_from(limits.bytes).unwrap_or(usize::MAX);
        let raw = (
            header::ACCEPT,
            http::HeaderValue::from_static("application/vnd.github.raw+json"),
        );
        let ask = |login| ApiRequest {
            limit,
            headers: vec![raw.clone()],
            ..ApiRequest::get(&path, login)
        };
        let content = self.ask(ask).await?.body;
        if BlobId::of(&content) != *id {
            return Err(self.unreadable(&format!("the content of {path} does not match its hash")));
        }
        Ok(content)
    }

    fn unreadable(&self, reason: &str) -> PortError {
        PortError::new(
            ErrorKind::Unreadable,
            format!("{}: {reason}", self.repository),
        )
    }
}
