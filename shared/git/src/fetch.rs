//! The steps of one read: list the references, choose a commit, fetch its objects, check out its
//! files.

use crate::checkout::Checkout;
use crate::commit_parts::CommitParts;
use crate::connection::{Connection, Reference, Scope};
use crate::error::{Error, Limit, Result, protocol};
use crate::limits::Deadline;
use crate::pack::{Objects, unpack};
use crate::remote::Remote;
use crate::submodules::{self, Submodule};
use bytes::Bytes;
use driftless_manifest::{FileTree, TreePath};
use gix_hash::{Kind as Hash, ObjectId};
use gix_object::{CommitRefIter, Kind, TagRefIter};

/// The greatest number of annotated tags in a chain of tags.
const TAGS: usize = 10;

/// Options of [`Remote::fetch`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The full names of references whose history may contain the commit. They are fetched if the
    /// server does not serve commits by hash.
    pub references: Vec<String>,
    /// The annotated tag that points to the commit: its object is returned with the files.
    pub tag: Option<ObjectId>,
    /// The directories to read, with the files at the top; an empty list means all of them. Other
    /// files are not sent by servers that filter.
    pub directories: Vec<TreePath>,
    /// True if the submodules that `.gitmodules` names are read recursively, as Flux does. A
    /// submodule on the same server is read with the same login, and one on another server without
    /// a login.
    pub submodules: bool,
}

/// A commit with its files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchedCommit {
    /// The bytes of the commit object, over which it is signed.
    pub commit: Bytes,
    /// The ids and bytes of the tag objects that point to the commit, the outermost first.
    pub tags: Vec<(ObjectId, Bytes)>,
    /// The files. The hash of each tree and file was verified.
    pub files: FileTree,
}

/// A commit and its tags without files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchedObjects {
    /// The bytes of the commit object, over which it is signed.
    pub commit: Bytes,
    /// The ids and bytes of the tag objects that point to the commit, the outermost first.
    pub tags: Vec<(ObjectId, Bytes)>,
}

impl Remote {
    /// Lists the references whose full names start with one of these prefixes.
    ///
    /// # Errors
    /// Fails if the server does, or if a limit is exceeded.
    pub async fn references(&self, prefixes: &[&str]) -> Result<Vec<Reference>> {
        let deadline = Deadline::after(self.limits.time);
        let mut connection = Connection::open(self, deadline).await?;
        connection.references(prefixes).await
    }

    /// Reads a commit without its history.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the server does not have the commit; [`Error::Limit`] if a limit is
    /// exceeded; other errors if the answer or the content is not valid.
    pub async fn fetch(&self, commit: ObjectId, options: &FetchOptions) -> Result<FetchedCommit> {
        let deadline = Deadline::after(self.limits.time);
        let checkout = Checkout::new(&self.limits, deadline, options.directories.clone());
        let root = TreePath::root();
        let (mut checkout, first) = self.read(commit, options, deadline, checkout, root).await?;
        let mut waiting = match options.submodules {
            true => submodules::named(self, &first)?,
            false => Vec::new(),
        };
        let mut count = 0;
        while let Some(Submodule {
            remote,
            path,
            commit,
        }) = waiting.pop()
        {
            count += 1;
            if count > self.limits.submodules {
                return Err(Error::Limit(Limit::Submodules(self.limits.submodules)));
            }
            // The server may refuse the commit's hash: the history of its default branch is then
            // the only candidate.
            let options = FetchOptions {
                references: vec!["HEAD".to_owned()],
                ..FetchOptions::default()
            };
            let read = remote
                .read(commit, &options, deadline, checkout, path)
                .await;
            let (grown, found) = read?;
            checkout = grown;
            waiting.extend(submodules::named(&remote, &found)?);
        }
        Ok(FetchedCommit {
            commit: first.commit,
            tags: first.tags,
            files: checkout.files,
        })
    }

    /// Reads a commit and its tag without files. A server that does not filter sends the files as
    /// well.
    ///
    /// # Errors
    /// As [`Remote::fetch`] does.
    pub async fn objects(
        &self,
        commit: ObjectId,
        options: &FetchOptions,
    ) -> Result<FetchedObjects> {
        let deadline = Deadline::after(self.limits.time);
        let scope = Scope {
            shallow: true,
            bare: true,
        };
        let pack = self.pack(commit, options, scope, deadline).await?;
        let (limits, tag) = (self.limits.clone(), options.tag);
        blocking(move || {
            let objects = unpack(pack, &limits, deadline)?;
            tree(&objects, commit)?;
            Ok(FetchedObjects {
                tags: tags(&objects, tag, commit)?,
                commit: objects.get(&commit, Kind::Commit)?.clone(),
            })
        })
        .await
    }

    /// Fetches a commit and adds its files below a path.
    async fn read(
        &self,
        commit: ObjectId,
        options: &FetchOptions,
        deadline: Deadline,
        mut checkout: Checkout,
        at: TreePath,
    ) -> Result<(Checkout, CommitParts)> {
        let objects = match self.parts(commit, options, deadline).await? {
            Some(objects) => objects,
            None => {
                let scope = Scope {
                    shallow: true,
                    ..Scope::default()
                };
                let pack = self.pack(commit, options, scope, deadline).await?;
                let limits = self.limits.clone();
                blocking(move || unpack(pack, &limits, deadline)).await?
            }
        };
        let tag = options.tag;
        blocking(move || {
            let tags = tags(&objects, tag, commit)?;
            let root = tree(&objects, commit)?;
            let links = checkout.add(&objects, root, &at)?;
            let modules = Checkout::file_of(&objects, root, ".gitmodules").cloned();
            let found = CommitParts {
                commit: objects.get(&commit, Kind::Commit)?.clone(),
                tags,
                at,
                links,
                modules,
            };
            Ok((checkout, found))
        })
        .await
    }

    async fn pack(
        &self,
        commit: ObjectId,
        options: &FetchOptions,
        scope: Scope,
        deadline: Deadline,
    ) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self, deadline).await?;
        let wants: Vec<ObjectId> = options.tag.into_iter().chain([commit]).collect();
        let refusal = match connection.pack(&wants, scope).await {
            Err(Error::Refused(refusal)) => refusal,
            answer => return answer,
        };
        let missing = |refusal: &str| {
            let message = format!("the server does not serve commit {commit}: {refusal}");
            Err(Error::NotFound(message))
        };
        if options.references.is_empty() {
            return missing(&refusal);
        }
        let mut connection = Connection::open(self, deadline).await?;
        let names: Vec<&str> = options.references.iter().map(String::as_str).collect();
        let mut found = connection.references(&names).await?;
        found.retain(|found| names.contains(&found.name.as_str()));
        let tip = found.iter().position(|found| found.target() == commit);
        if found.is_empty() {
            return missing(&refusal);
        }
        let found = found.swap_remove(tip.unwrap_or(0));
        // If the reference does not point to the commit itself, the commit may be in its history.
        let scope = Scope {
            shallow: scope.shallow && found.target() == commit,
            ..scope
        };
        match connection.pack(&[found.object], scope).await {
            Err(Error::Refused(refusal)) => missing(&refusal),
            answer => answer,
        }
    }
}

/// Runs CPU-bound work on a blocking thread, so that it does not delay other tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => protocol("the pack cannot be unpacked"),
    }
}

/// Returns the id of a commit's tree.
pub(crate) fn tree(objects: &Objects, commit: ObjectId) -> Result<ObjectId> {
    if objects.kind(&commit).is_none() {
        let message =
            format!("the server does not serve commit {commit}: the pack does not contain it");
        return Err(Error::NotFound(message));
    }
    let bytes = objects.get(&commit, Kind::Commit)?;
    let tree = CommitRefIter::from_bytes(bytes, Hash::Sha1).tree_id();
    tree.map_err(|_| Error::Content(format!("commit {commit} is damaged")))
}

/// Returns the chain of tags that ends at the commit, the outermost first.
fn tags(
    objects: &Objects,
    tag: Option<ObjectId>,
    commit: ObjectId,
) -> Result<Vec<(ObjectId, Bytes)>> {
    let mut tags = Vec::new();
    let Some(mut at) = tag else {
        return Ok(tags);
    };
    while at != commit {
        if tags.len() >= TAGS {
            return Err(Error::Content(format!(
                "the chain of tags is longer than {TAGS}"
            )));
        }
        let bytes = objects.get(&at, Kind::Tag)?;
        tags.push((at, bytes.clone()));
        let target = TagRefIter::from_bytes(bytes, Hash::Sha1).target_id();
        at = target.map_err(|_| Error::Content(format!("tag {at} is damaged")))?;
        if objects.kind(&at) == Some(Kind::Commit) && at != commit {
            let message = format!("the tag points to commit {at} and not to {commit}");
            return Err(Error::Content(message));
        }
    }
    Ok(tags)
}
