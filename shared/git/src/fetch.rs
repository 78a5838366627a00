//! The steps of one read: list references, choose a commit, fetch its objects, write its files.

use crate::checkout::{Checkout, Gitlink};
use crate::connection::{Connection, Reference};
use crate::error::{Error, Limit, Result, protocol};
use crate::limits::Deadline;
use crate::pack::{Objects, unpack};
use crate::remote::Remote;
use crate::submodules::{self, Submodule};
use bytes::Bytes;
use driftless_manifest::{FileTree, TreePath};
use gix_hash::{Kind as Hash, ObjectId};
use gix_object::{CommitRefIter, Kind, TagRefIter};

/// Tags that may lead to each other.
const TAGS: usize = 10;

/// What to read of a commit.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The full names of references of which one may lead to the commit, or to a later one: asked for where the server does not
    /// give a commit by its hash.
    pub references: Vec<String>,
    /// The annotated tag that leads to the commit: its object is given along with the files.
    pub tag: Option<ObjectId>,
    /// The directories to read; all of them if there is none.
    pub directories: Vec<TreePath>,
    /// Read the submodules, too, and theirs: those that `.gitmodules` names, as Flux does. A submodule of the same server is
    /// read with the same login, and one of another server without any.
    pub submodules: bool,
}

/// A commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// The commit object, as it is signed.
    pub commit: Bytes,
    /// The tag objects that lead to it, the outermost first; each as it is signed.
    pub tags: Vec<(ObjectId, Bytes)>,
    /// The files. Each tree and each file has the id that the commit names.
    pub files: FileTree,
}

impl Remote {
    /// The references whose full names start with one of these prefixes.
    ///
    /// # Errors
    /// The server's, or a limit.
    pub async fn references(&self, prefixes: &[&str]) -> Result<Vec<Reference>> {
        let deadline = Deadline::after(self.limits.time);
        let mut connection = Connection::open(self, deadline).await?;
        connection.references(prefixes).await
    }

    /// Reads a commit without its history.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the server does not give the commit; limits; what it sends is not valid.
    pub async fn fetch(&self, commit: ObjectId, options: &FetchOptions) -> Result<Fetched> {
        let deadline = Deadline::after(self.limits.time);
        let checkout = Checkout::new(self.limits, deadline, options.directories.clone());
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
            // The branch that is checked out leads to the commit where nothing else does.
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
        Ok(Fetched {
            commit: first.commit,
            tags: first.tags,
            files: checkout.files,
        })
    }

    /// Puts the files of a commit at a path.
    async fn read(
        &self,
        commit: ObjectId,
        options: &FetchOptions,
        deadline: Deadline,
        mut checkout: Checkout,
        at: TreePath,
    ) -> Result<(Checkout, Found)> {
        let pack = self.pack(commit, options, deadline).await?;
        let (limits, tag) = (self.limits, options.tag);
        blocking(move || {
            let objects = unpack(pack, &limits, deadline)?;
            let tags = tags(&objects, tag, commit)?;
            let root = tree(&objects, commit)?;
            let links = checkout.add(&objects, root, &at)?;
            let modules = Checkout::file_of(&objects, root, ".gitmodules").cloned();
            let found = Found {
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
        deadline: Deadline,
    ) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self, deadline).await?;
        let wants: Vec<ObjectId> = options.tag.into_iter().chain([commit]).collect();
        let said = match connection.pack(&wants, true).await {
            Err(Error::Refused(said)) => said,
            answer => return answer,
        };
        let missing = |said: &str| {
            let what = format!("the server does not give commit {commit}: {said}");
            Err(Error::NotFound(what))
        };
        if options.references.is_empty() {
            return missing(&said);
        }
        let mut connection = Connection::open(self, deadline).await?;
        let names: Vec<&str> = options.references.iter().map(String::as_str).collect();
        let mut found = connection.references(&names).await?;
        found.retain(|found| names.contains(&found.name.as_str()));
        let tip = found.iter().position(|found| found.target() == commit);
        if found.is_empty() {
            return missing(&said);
        }
        let found = found.swap_remove(tip.unwrap_or(0));
        // The commit itself, or one with the commit somewhere in its history.
        let is_tip = found.target() == commit;
        match connection.pack(&[found.object], is_tip).await {
            Err(Error::Refused(said)) => missing(&said),
            answer => answer,
        }
    }
}

/// What a commit has beside its files.
pub(crate) struct Found {
    commit: Bytes,
    tags: Vec<(ObjectId, Bytes)>,
    /// Where its files are put.
    pub at: TreePath,
    pub links: Vec<Gitlink>,
    /// Its `.gitmodules`.
    pub modules: Option<Bytes>,
}

/// Does what keeps a processor busy.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => protocol("it cannot be unpacked"),
    }
}

/// The tree of a commit.
fn tree(objects: &Objects, commit: ObjectId) -> Result<ObjectId> {
    if objects.kind(&commit).is_none() {
        let what = format!("the server does not give commit {commit}: it is not in the pack");
        return Err(Error::NotFound(what));
    }
    let bytes = objects.get(&commit, Kind::Commit)?;
    let tree = CommitRefIter::from_bytes(bytes, Hash::Sha1).tree_id();
    tree.map_err(|_| Error::Content(format!("commit {commit} is damaged")))
}

/// The tags from the outermost to the commit.
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
                "more than {TAGS} tags lead to each other"
            )));
        }
        let bytes = objects.get(&at, Kind::Tag)?;
        tags.push((at, bytes.clone()));
        let target = TagRefIter::from_bytes(bytes, Hash::Sha1).target_id();
        at = target.map_err(|_| Error::Content(format!("tag {at} is damaged")))?;
        if objects.kind(&at) == Some(Kind::Commit) && at != commit {
            let what = format!("the tag leads to commit {at} and not to {commit}");
            return Err(Error::Content(what));
        }
    }
    Ok(tags)
}
