//! Reads what a tree needs: the Kustomizations and HelmReleases with one LIST of each kind, and the
//! records of the releases with bounded concurrency.

use super::node::Node;
use crate::concurrent;
use crate::error::Error;
use crate::term;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_helm::record::{RecordLimits, Release, secret_name};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ErrorKind, ListRequest};
use driftless_manifest::{Gvk, Object, ObjectId, yaml};
use std::collections::BTreeMap;

/// The kind of the CustomResourceDefinitions, which a chart may have outside its manifest.
const DEFINITION: &str = "CustomResourceDefinition";

type Known = BTreeMap<ObjectRef, Object>;

/// Reads the tree below a Kustomization.
///
/// # Errors
/// An object of the tree cannot be read.
pub async fn tree(hub: &Hub, root: Object) -> Result<Node, Error> {
    let mut known = Known::new();
    for kind in [FluxKind::Kustomization, FluxKind::HelmRelease] {
        let objects = match hub.list(kind).await {
            Ok(objects) => objects,
            // A user of some namespaces reads the objects one by one.
            Err(error) if error.kind == ErrorKind::Denied => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        known.extend(
            objects
                .into_iter()
                .filter_map(|one| Some((ObjectRef::of(&one)?, one))),
        );
    }
    let id = root.id();
    if let Some(root) = ObjectRef::of(&root) {
        complete(hub, &mut known, root).await?;
    }
    let releases = releases(hub, &known, &id).await?;
    Ok(build(&id, &known, &releases, &mut Vec::new()))
}

/// Returns the Flux object of an id, if its objects are read for the tree.
fn branch(id: &ObjectId) -> Option<ObjectRef> {
    let kind = FluxKind::parse(&id.kind).filter(|kind| kind.group() == id.group)?;
    let has_objects = matches!(kind, FluxKind::Kustomization | FluxKind::HelmRelease);
    has_objects.then(|| ObjectRef::new(kind, &id.namespace, &id.name))
}

/// Returns the ids in the inventory of a Kustomization, in their order.
fn inventory(object: &Object) -> Vec<ObjectId> {
    let entries = object.pointer("/status/inventory/entries");
    let entries = entries.and_then(|entries| entries.as_array());
    let ids = entries.into_iter().flatten();
    let ids = ids.filter_map(|entry| ObjectId::from_inventory_id(entry.get("id")?.as_str()?));
    ids.collect()
}

/// Returns whether the objects of a Flux object are on another cluster.
fn is_remote(object: &Object) -> bool {
    object.pointer("/spec/kubeConfig").is_some()
}

/// Reads the objects of the tree that the LISTs did not return, level by level.
async fn complete(hub: &Hub, known: &mut Known, root: ObjectRef) -> Result<(), Error> {
    let mut seen = std::collections::BTreeSet::from([root.clone()]);
    let mut level = vec![root];
    while !level.is_empty() {
        let missing = level
            .iter()
            .filter(|one| !known.contains_key(*one))
            .cloned();
        let reads = missing.map(|one| async move {
            let read = hub.get(&one).await;
            (one, read)
        });
        for (one, read) in concurrent::run(reads).await {
            match read {
                Ok(Some(object)) => {
                    known.insert(one, object);
                }
                Ok(None) => term::failure(&format!(
                    "{one} is in an inventory, but does not exist: the next reconciliation creates it"
                )),
                Err(error) => return Err(Error::from(error).at(&format!("read {one}"))),
            }
        }
        let objects = level.iter().filter_map(|one| known.get(one));
        let objects = objects.filter(|object| !is_remote(object));
        let below = objects.flat_map(inventory).filter_map(|id| branch(&id));
        level = below.filter(|one| seen.insert(one.clone())).collect();
    }
    Ok(())
}

/// Reads the objects of the releases below a Kustomization.
async fn releases(
    hub: &Hub,
    known: &Known,
    root: &ObjectId,
) -> Result<BTreeMap<ObjectRef, Vec<ObjectId>>, Error> {
    let mut found = std::collections::BTreeSet::new();
    let mut level = vec![root.clone()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(id) = level.pop() {
        let Some(one) = branch(&id).filter(|one| seen.insert(one.clone())) else {
            continue;
        };
        let Some(object) = known.get(&one).filter(|object| !is_remote(object)) else {
            continue;
        };
        match one.kind {
            FluxKind::HelmRelease => {
                found.insert(one);
            }
            _ => level.extend(inventory(object)),
        }
    }
    let reads = found.into_iter().filter_map(|one| {
        let object = known.get(&one)?;
        let read = async move {
            let objects = release(hub, object).await;
            (one, objects)
        };
        Some(read)
    });
    let read = concurrent::run(reads).await;
    read.into_iter()
        .map(|(one, objects)| Ok((one, objects?)))
        .collect()
}

/// Returns the objects of a HelmRelease: those of the record of its current release, and the
/// definitions that were installed with it.
async fn release(hub: &Hub, object: &Object) -> Result<Vec<ObjectId>, Error> {
    let text = |pointer: &str| object.pointer(pointer).and_then(|one| one.as_str());
    let storage = text("/status/storageNamespace").unwrap_or_default();
    let current = text("/status/history/0/name");
    let version = object.pointer("/status/history/0/version");
    let version = version.and_then(|version| version.as_i64());
    let (Some(name), Some(version), false) = (current, version, storage.is_empty()) else {
        return Ok(Vec::new());
    };
    let of = format!("HelmRelease/{}/{}", object.namespace(), object.name());
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(format!("{of}: the record of its release: {error}")).next(format!(
            "driftless reconcile helmrelease {} -n {} --force writes a new record",
            object.name(),
            object.namespace()
        ))
    };
    let secrets = crate::hub::resource(hub.cluster.as_ref(), &Gvk::new("v1", "Secret")).await?;
    let secret = hub
        .cluster
        .get(&secrets, storage, &secret_name(name, version))
        .await;
    let secret = secret.map_err(|error| Error::from(error).at(&of))?;
    let Some(secret) = secret else {
        return Ok(Vec::new());
    };
    let record = Release::from_secret(&secret, &RecordLimits::default());
    let record = record.map_err(|error| failed(&error))?;
    let limits = yaml::Limits::default();
    let documents = yaml::documents(
        record.manifest.as_bytes(),
        "manifest",
        yaml::Dialect::V2,
        &limits,
    );
    let documents = documents.map_err(|error| failed(&error))?;
    let namespace = text("/status/history/0/namespace").unwrap_or_default();
    let mut ids = Vec::new();
    for document in documents.into_iter().filter(|one| !one.is_null()) {
        let object = Object::new(document).map_err(|error| failed(&error))?;
        let mut id = object.id();
        if id.namespace.is_empty() {
            let resource = hub.cluster.resource(&object.gvk()).await?;
            if resource.is_some_and(|resource| resource.namespaced) {
                id.namespace = namespace.to_owned();
            }
        }
        ids.push(id);
    }
    let installs = |pointer: &str| text(pointer).is_some_and(|policy| policy != "Skip");
    if installs("/spec/install/crds") || installs("/spec/upgrade/crds") {
        ids.extend(definitions(hub, object, &ids).await?);
    }
    Ok(ids)
}

/// Returns the definitions with the labels of a HelmRelease that are not in its manifest.
async fn definitions(
    hub: &Hub,
    release: &Object,
    listed: &[ObjectId],
) -> Result<Vec<ObjectId>, Error> {
    let group = FluxKind::HelmRelease.group();
    let selector = format!(
        "{group}/name={},{group}/namespace={}",
        release.name(),
        release.namespace()
    );
    let gvk = Gvk::new("apiextensions.k8s.io/v1", DEFINITION);
    let resource = crate::hub::resource(hub.cluster.as_ref(), &gvk).await?;
    let request = ListRequest {
        selector: &selector,
        ..ListRequest::all(&resource)
    };
    let found = match hub.cluster.list(&request).await {
        Ok(found) => found,
        // A user without rights to definitions sees the tree without them, as with Flux.
        Err(error) if error.kind == ErrorKind::Denied => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let ids = found.iter().map(Object::id);
    let is_new = |id: &ObjectId| {
        !listed
            .iter()
            .any(|one| one.kind == DEFINITION && one.name == id.name)
    };
    Ok(ids.filter(is_new).collect())
}

/// Builds the node of an object. `path` has its ancestors: a Kustomization that applies one of them
/// does not make the tree endless.
fn build(
    id: &ObjectId,
    known: &Known,
    releases: &BTreeMap<ObjectRef, Vec<ObjectId>>,
    path: &mut Vec<ObjectId>,
) -> Node {
    let mut node = Node::leaf(id.clone());
    let Some(one) = branch(id).filter(|_| !path.contains(id)) else {
        return node;
    };
    path.push(id.clone());
    node.children = match one.kind {
        FluxKind::HelmRelease => {
            let objects = releases.get(&one).into_iter().flatten();
            objects.cloned().map(Node::leaf).collect()
        }
        _ => {
            let object = known.get(&one);
            let ids = object.map(inventory).unwrap_or_default();
            let ids = ids.into_iter().filter(|child| child != id);
            // The branches of objects on another cluster cannot be read from the hub.
            let is_remote = object.is_some_and(is_remote);
            let node = |child: ObjectId| match is_remote {
                true => Node::leaf(child),
                false => build(&child, known, releases, path),
            };
            ids.map(node).collect()
        }
    };
    path.pop();
    node
}
