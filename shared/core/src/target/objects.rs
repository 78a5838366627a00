//! Live objects: reads, grouping and deletion of those of a build or a release.

use super::Target;
use crate::concurrent;
use crate::ports::{Delete, Deleted, ErrorKind, PortError, Resource};
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Requests for objects that run concurrently.
pub(crate) const CONCURRENCY: usize = 8;
/// The number of objects of a kind from which one LIST is cheaper than a GET for each.
const LIST_FROM: usize = 3;
/// The most times that an object that was changed meanwhile is read again.
const TRIES: usize = 5;

/// An object, with the API resource of its kind.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The object to apply or delete.
    pub object: Object,
    /// The API resource of its kind.
    pub resource: Resource,
}

impl Item {
    /// Returns an item; removes the namespace of an object whose kind is cluster-scoped.
    pub fn new(mut object: Object, resource: Resource) -> Self {
        if !resource.namespaced
            && let Some(Value::Object(metadata)) = object.as_map_mut().get_mut("metadata")
        {
            metadata.remove("namespace");
        }
        Self { object, resource }
    }
}

/// The treatment of an object that the user may not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The object counts as absent: its apply reports the error.
    Unknown,
    /// The read fails.
    Error,
}

/// Reads the live objects of items, by id: a LIST with a label selector for each kind with several
/// objects, and a GET for each object that the LIST does not have.
///
/// # Errors
/// The errors of the cluster.
pub(crate) async fn read<'i>(
    target: &Target,
    items: impl IntoIterator<Item = &'i Item>,
    selector: &str,
    denied: Denied,
) -> Result<BTreeMap<ObjectId, Object>, PortError> {
    let mut groups: BTreeMap<&Gvk, Vec<&Item>> = BTreeMap::new();
    for item in items {
        groups.entry(&item.resource.gvk).or_default().push(item);
    }
    let reads = groups
        .into_values()
        .map(|group| read_group(target, group, selector, denied).boxed());
    let mut live = BTreeMap::new();
    for found in concurrent::run(CONCURRENCY, reads.collect()).await {
        live.extend(found?.into_iter().map(|object| (object.id(), object)));
    }
    Ok(live)
}

async fn read_group(
    target: &Target,
    group: Vec<&Item>,
    selector: &str,
    denied: Denied,
) -> Result<Vec<Object>, PortError> {
    let Some(resource) = group.first().map(|item| &item.resource) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    if group.len() >= LIST_FROM {
        let namespaces: BTreeSet<&str> = group.iter().map(|item| item.object.namespace()).collect();
        let namespace = match namespaces.len() {
            1 => namespaces.first().copied().unwrap_or_default(),
            _ => "",
        };
        match target.cluster.list(resource, namespace, selector).await {
            Ok(listed) => found = listed,
            Err(error) if error.kind == ErrorKind::Denied => {}
            Err(error) => return Err(error),
        }
    }
    let listed: BTreeSet<ObjectId> = found.iter().map(Object::id).collect();
    let missing = group
        .iter()
        .filter(|item| !listed.contains(&item.object.id()));
    let reads = missing.map(|item| {
        let (namespace, name) = (item.object.namespace(), item.object.name());
        async move { target.cluster.get(resource, namespace, name).await }.boxed()
    });
    for read in concurrent::run(CONCURRENCY, reads.collect()).await {
        match read {
            Ok(object) => found.extend(object),
            Err(error) if error.kind == ErrorKind::Denied && denied == Denied::Unknown => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Groups consecutive items of one kind.
pub(crate) fn by_kind(items: &[Item]) -> Vec<&[Item]> {
    items.chunk_by(|a, b| a.resource == b.resource).collect()
}

/// Deletes the object that was read, and not a later one of the same name. If it was changed
/// meanwhile, it is read again, and deleted if it still `is_ours`. An object that is gone is not an
/// error.
///
/// # Errors
/// The errors of the cluster; a conflict if the object changes continually.
pub(crate) async fn delete(
    target: &Target,
    resource: &Resource,
    live: &Object,
    propagation: &'static str,
    is_ours: &(dyn Fn(&Object) -> bool + Sync),
) -> Result<Deleted, PortError> {
    let (uid, namespace, name) = (live.meta("uid"), live.namespace(), live.name());
    let mut version = live.meta("resourceVersion").to_owned();
    let mut tries = 0;
    loop {
        let options = Delete {
            uid: Some(uid.to_owned()),
            resource_version: Some(version),
            propagation: Some(propagation),
        };
        let deletion = target.cluster.delete(resource, namespace, name, &options);
        let error = match deletion.await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(Deleted::Gone),
            Err(error) if error.kind == ErrorKind::Conflict && tries < TRIES => error,
            deleted => return deleted,
        };
        tries += 1;
        match target.cluster.get(resource, namespace, name).await? {
            None => return Ok(Deleted::Gone),
            Some(other) if other.meta("uid") != uid => return Ok(Deleted::Gone),
            Some(changed) if is_ours(&changed) => {
                version = changed.meta("resourceVersion").to_owned();
            }
            Some(_) => return Err(error),
        }
    }
}
