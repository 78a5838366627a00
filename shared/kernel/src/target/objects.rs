//! Live objects: reads and grouping of those of a build or a release.

use super::Target;
use crate::concurrent;
use crate::ports::{ErrorKind, ListRequest, PortError, Resource};
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Requests for objects that run concurrently.
pub const CONCURRENCY: usize = 8;
/// The time from the start of a step after which it deletes nothing more, so that 20 s of a
/// function's time are left for the status.
pub const DELETION_TIME: Duration = Duration::from_secs(95);
/// The number of objects of a kind from which one LIST is cheaper than a GET for each.
const LIST_FROM: usize = 3;

/// An object, with the API resource of its kind.
#[derive(Clone, Debug)]
pub struct Item {
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
pub enum Denied {
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
pub async fn read<'i>(
    target: &Target,
    items: impl IntoIterator<Item = &'i Item>,
    selector: &str,
    denied: Denied,
) -> Result<BTreeMap<ObjectId, Object>, PortError> {
    let reads = groups(items)
        .into_iter()
        .map(|group| read_group(target, group, selector, denied).boxed());
    let mut live = BTreeMap::new();
    for found in concurrent::run(CONCURRENCY, reads.collect()).await {
        live.extend(found?.into_iter().map(|object| (object.id(), object)));
    }
    Ok(live)
}

/// Reads the live objects of items, by id, of which each has the labels of the last selector: a LIST
/// for each kind with one selector after the other, until all are found. An object that no LIST has
/// is not looked for, so that many objects that are gone cost no request. Others may be among them.
///
/// # Errors
/// The errors of the cluster.
pub async fn read_labeled(
    target: &Target,
    items: &[Item],
    selectors: &[&str],
    denied: Denied,
) -> Result<BTreeMap<ObjectId, Object>, PortError> {
    let mut live = BTreeMap::new();
    for mut group in groups(items) {
        for selector in selectors {
            let listed = match list_group(target, &group, selector).await? {
                Some(listed) => listed,
                None => read_group(target, std::mem::take(&mut group), selector, denied).await?,
            };
            live.extend(listed.into_iter().map(|object| (object.id(), object)));
            group.retain(|item| !live.contains_key(&item.object.id()));
        }
    }
    Ok(live)
}

/// Groups items by their kind.
fn groups<'i>(items: impl IntoIterator<Item = &'i Item>) -> Vec<Vec<&'i Item>> {
    let mut groups: BTreeMap<&Gvk, Vec<&Item>> = BTreeMap::new();
    for item in items {
        groups.entry(&item.resource.gvk).or_default().push(item);
    }
    groups.into_values().collect()
}

async fn list_group(
    target: &Target,
    group: &[&Item],
    selector: &str,
) -> Result<Option<Vec<Object>>, PortError> {
    let Some(first) = group.first() else {
        return Ok(None);
    };
    let namespaces: Vec<&str> = group.iter().map(|item| item.object.namespace()).collect();
    list(target, &first.resource, &namespaces, selector).await
}

async fn read_group(
    target: &Target,
    group: Vec<&Item>,
    selector: &str,
    denied: Denied,
) -> Result<Vec<Object>, PortError> {
    let listed = list_group(target, &group, selector).await?;
    let mut found = listed.unwrap_or_default();
    let listed: BTreeSet<ObjectId> = found.iter().map(Object::id).collect();
    let missing = group
        .iter()
        .filter(|item| !listed.contains(&item.object.id()));
    let reads = missing.map(|item| {
        let (namespace, name) = (item.object.namespace(), item.object.name());
        async move { target.cluster.get(&item.resource, namespace, name).await }.boxed()
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

/// Lists the objects of a kind that match a label selector, in the one namespace of `namespaces` or
/// in all; `namespaces` has an element for each object that is looked for. Returns `None` if a GET
/// for each of them is cheaper, or if the user may not list them.
///
/// # Errors
/// The errors of the cluster.
pub async fn list(
    target: &Target,
    resource: &Resource,
    namespaces: &[&str],
    selector: &str,
) -> Result<Option<Vec<Object>>, PortError> {
    if namespaces.len() < LIST_FROM {
        return Ok(None);
    }
    let first = namespaces.first().copied().unwrap_or_default();
    let namespace = match namespaces.iter().all(|one| *one == first) {
        true => first,
        false => "",
    };
    let request = ListRequest {
        resource,
        namespace,
        selector,
    };
    match target.cluster.list(&request).await {
        Ok(listed) => Ok(Some(listed)),
        Err(error) if error.kind == ErrorKind::Denied => Ok(None),
        Err(error) => Err(error),
    }
}

/// Groups consecutive items of one kind.
pub fn by_kind(items: &[Item]) -> Vec<&[Item]> {
    items.chunk_by(|a, b| a.resource == b.resource).collect()
}
