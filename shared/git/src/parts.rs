//! Fetches parts of a commit: the trees that lead to some directories, and those directories. A
//! repository that is larger than the limits can be read in this way.

use crate::connection::{Connection, Scope};
use crate::error::{Error, Limit, Result};
use crate::fetch::{FetchOptions, blocking, tree};
use crate::limits::{Deadline, Limits};
use crate::pack::{Objects, unpack};
use crate::remote::Remote;
use driftless_manifest::TreePath;
use gix_hash::{Kind as Hash, ObjectId};
use gix_object::{Kind, TreeRefIter};
use std::collections::BTreeSet;

/// The objects alone, without what they refer to.
const ALONE: Scope = Scope {
    shallow: false,
    bare: true,
};
/// The objects with all that they refer to.
const WHOLE: Scope = Scope {
    shallow: false,
    bare: false,
};

impl Remote {
    /// Fetches the objects of the directories that the options name; `None` if they name none, or
    /// if the server sends only whole commits.
    pub(crate) async fn parts(
        &self,
        commit: ObjectId,
        options: &FetchOptions,
        deadline: Deadline,
    ) -> Result<Option<Objects>> {
        let directories = &options.directories;
        if directories.is_empty() || directories.iter().any(TreePath::is_root) {
            return Ok(None);
        }
        let connection = Connection::open(self, deadline).await?;
        if !connection.sends_parts() {
            return Ok(None);
        }
        let mut parts = Parts {
            connection,
            limits: self.limits.clone(),
            deadline,
            objects: Objects::default(),
            packed: 0,
        };
        match parts.read(commit, options).await {
            Ok(()) => Ok(Some(parts.objects)),
            // A server may filter, and nevertheless refuse the ids of trees.
            Err(Error::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

struct Parts {
    connection: Connection,
    limits: Limits,
    deadline: Deadline,
    objects: Objects,
    packed: u64,
}

impl Parts {
    async fn read(&mut self, commit: ObjectId, options: &FetchOptions) -> Result<()> {
        let scope = Scope {
            shallow: true,
            bare: true,
        };
        let wants: BTreeSet<ObjectId> = options.tag.into_iter().chain([commit]).collect();
        self.fetch(wants, scope).await?;
        let mut level = vec![(tree(&self.objects, commit)?, TreePath::root())];
        let mut whole = BTreeSet::new();
        for _ in 0..=self.limits.depth {
            if level.is_empty() {
                break;
            }
            let wants = level.iter().map(|(tree, _)| *tree).collect();
            self.fetch(wants, ALONE).await?;
            let mut next = Vec::new();
            for (tree, at) in &level {
                self.deadline.check()?;
                if *tree == ObjectId::empty_tree(Hash::Sha1) {
                    continue;
                }
                let bytes = self.objects.get(tree, Kind::Tree)?;
                sort(bytes, at, &options.directories, &mut next, &mut whole)?;
            }
            level = next;
        }
        if whole.len() > self.limits.files {
            return Err(Error::Limit(Limit::Files(self.limits.files)));
        }
        self.fetch(whole, WHOLE).await
    }

    /// Fetches the objects that are not here yet.
    async fn fetch(&mut self, wants: BTreeSet<ObjectId>, scope: Scope) -> Result<()> {
        let empty = ObjectId::empty_tree(Hash::Sha1);
        let wants = wants.into_iter().filter(|want| *want != empty);
        let wants: Vec<ObjectId> = wants
            .filter(|want| !scope.bare || self.objects.kind(want).is_none())
            .collect();
        if wants.is_empty() {
            return Ok(());
        }
        let pack = self.connection.pack(&wants, scope).await?;
        self.packed = self.packed.saturating_add(pack.len() as u64);
        let (limits, deadline) = (self.limits.clone(), self.deadline);
        let found = blocking(move || unpack(pack, &limits, deadline)).await?;
        self.objects.extend(found);
        let limits = &self.limits;
        let over = match () {
            () if self.packed > limits.packed => Limit::Packed(limits.packed),
            () if self.objects.bytes() > limits.unpacked => Limit::Unpacked(limits.unpacked),
            () if self.objects.count() > limits.objects => Limit::Objects(limits.objects),
            () => return Ok(()),
        };
        Err(Error::Limit(over))
    }
}

/// Sorts the entries of a tree: directories that lead to a wanted one are read next, and wanted
/// directories and files are fetched whole.
fn sort(
    bytes: &[u8],
    at: &TreePath,
    directories: &[TreePath],
    next: &mut Vec<(ObjectId, TreePath)>,
    whole: &mut BTreeSet<ObjectId>,
) -> Result<()> {
    for entry in TreeRefIter::from_bytes(bytes, Hash::Sha1) {
        let entry = entry.map_err(|_| Error::Content(format!("a tree at '{at}' is damaged")))?;
        // Names that are not valid are refused by the checkout.
        let name = std::str::from_utf8(entry.filename.as_ref()).ok();
        let Some(path) = name.and_then(|name| at.join(name).ok()) else {
            continue;
        };
        let id = entry.oid.to_owned();
        let is_inside = directories
            .iter()
            .any(|directory| path.is_within(directory));
        let leads = directories
            .iter()
            .any(|directory| directory.is_within(&path));
        match entry.mode.is_tree() {
            true if is_inside => {
                whole.insert(id);
            }
            true if leads => next.push((id, path)),
            true => {}
            false if entry.mode.is_commit() => {}
            false if is_inside || at.is_root() => {
                whole.insert(id);
            }
            false => {}
        }
    }
    Ok(())
}
