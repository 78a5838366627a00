//! Objects on their cluster: how those of a build or a release are read, grouped and deleted.

use super::Target;
use crate::concurrent;
use crate::ports::{Delete, Deleted, ErrorKind, PortError, Resource};
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How many requests for objects are under way at once.
pub(crate) const CONCURRENCY: usize = 8;
/// From how many objects of a kind on one LIST is cheaper than reading each.
const LIST_FROM: usize = 3;
/// How often an object that was changed meanwhile is looked at anew.
const TRIES: usize = 5;

/// An object, and where it goes on its cluster.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The object.
    pub object: Object,
    /// Its kind on the cluster.
    pub resource: Resource,
}

impl Item {
    /// An object where its kind belongs: one of the cluster itself has no namespace.
    pub fn new(mut object: Object, resource: Resource) -> Self {
        if !resource.namespaced
            && let Some(Value::Object(metadata)) = object.as_map_mut().get_mut("metadata")
        {
            metadata.remove("namespace");
        }
        Self { object, resource }
    }
}

/// What is made of an object that the user may not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It is as if it were not there: its apply tells.
    Unknown,
    /// An error.
    Error,
}

/// The live objects behind items, by their ids: a LIST a kind with a selector of labels where there are several objects of it, and a
/// GET for each object that the LIST does not have.
///
/// # Errors
/// The cluster's.
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

/// Objects of one kind go together, in their order.
pub(crate) fn by_kind(items: &[Item]) -> Vec<&[Item]> {
    items.chunk_by(|a, b| a.resource == b.resource).collect()
}

/// Deletes the object that was looked at and no other that took its place. When it was changed meanwhile it is looked at anew: it
/// goes while it `is_ours`. One that is gone is no error.
///
/// # Errors
/// The cluster's; a conflict when the object changes all the time.
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
        let how = Delete {
            uid: Some(uid.to_owned()),
            resource_version: Some(version),
            propagation: Some(propagation),
        };
        let error = match target.cluster.delete(resource, namespace, name, &how).await {
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
