//! The objects of a record in the cluster: their kinds, the live objects, and their owner.

use super::action::Action;
use super::chart::{ORIGIN_NAME, ORIGIN_NAMESPACE};
use super::drift_detection;
use super::phase::PhaseError;
use super::plan::Operation;
use super::storage::Storage;
use crate::error::ReleaseError;
use driftless_flux::HelmRelease;
use driftless_helm::record::Release;
use driftless_kernel::ports::PortError;
use driftless_kernel::target::Target;
use driftless_kernel::target::objects::{Denied, Item, read, read_labeled};
use driftless_manifest::{Gvk, Object, ObjectId};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the prefix of Helm 4.2's message about a kind that is not served.
pub fn manifest_error_prefix(operation: &Operation) -> &'static str {
    match operation {
        // Helm checks the manifest of an upgrade when it is rendered, and adds no prefix there.
        Operation::Act(Action::Upgrade) => "",
        Operation::Act(Action::Rollback(_)) => {
            "unable to build kubernetes objects from new release manifest: "
        }
        _ => "unable to build kubernetes objects from release manifest: ",
    }
}

/// Returns the objects of a record.
///
/// # Errors
/// The manifest cannot be parsed, or the cluster does not serve a kind; that message starts with
/// `manifest_error_prefix`.
pub async fn items(
    target: &Target,
    record: &Release,
    manifest_error_prefix: &str,
) -> Result<Vec<Item>, PhaseError> {
    let (items, missing) = known_items(target, record).await?;
    match missing.first() {
        None => Ok(items),
        Some(object) => Err(PhaseError::Failed(format!(
            "{manifest_error_prefix}resource mapping not found for name: \"{}\" namespace: \
             \"{}\" from \"\": no matches for kind \"{}\" in version \"{}\"\nensure CRDs are installed first",
            object.name(),
            object.namespace(),
            object.kind(),
            object.api_version()
        ))),
    }
}

/// Returns the objects of a record whose kinds are served, and the others.
///
/// # Errors
/// The manifest cannot be parsed.
pub async fn known_items(
    target: &Target,
    record: &Release,
) -> Result<(Vec<Item>, Vec<Object>), PhaseError> {
    let all = drift_detection::desired(record, &|_| Some(false))
        .map_err(|error| PhaseError::Failed(error.to_string()))?;
    let kinds: BTreeSet<Gvk> = all.iter().map(Object::gvk).collect();
    let mut resources = BTreeMap::new();
    for gvk in kinds {
        if let Some(resource) = target.cluster.resource(&gvk).await? {
            resources.insert(gvk, resource);
        }
    }
    let namespaced = |gvk: &Gvk| Some(resources.get(gvk).is_some_and(|found| found.namespaced));
    let (mut items, mut missing) = (Vec::new(), Vec::new());
    for object in drift_detection::desired(record, &namespaced)
        .map_err(|error| PhaseError::Failed(error.to_string()))?
    {
        match resources.get(&object.gvk()) {
            Some(resource) => items.push(Item::new(object, resource.clone())),
            None => missing.push(object),
        }
    }
    Ok((items, missing))
}

/// Returns the objects of a release that may exist, in the order of installation: those of its
/// newest record, then those of the other records back to the deployed one. An upgrade that was cut
/// off or failed has not deleted what it no longer lists, and leaves what only it lists.
///
/// # Errors
/// A manifest cannot be parsed.
pub async fn possible_items(target: &Target, storage: &Storage) -> Result<Vec<Item>, PhaseError> {
    items_of(target, storage.since_deployed()).await
}

/// Returns the objects of these records whose kinds are served, each once.
///
/// # Errors
/// A manifest cannot be parsed.
pub async fn items_of<'a>(
    target: &Target,
    records: impl Iterator<Item = &'a Release>,
) -> Result<Vec<Item>, PhaseError> {
    let (mut items, mut ids) = (Vec::new(), BTreeSet::new());
    for record in records {
        let (mut found, _) = known_items(target, record).await?;
        found.retain(|item| ids.insert(item.object.id()));
        items.extend(found);
    }
    Ok(items)
}

/// Reads the live objects of items, by their ids.
///
/// # Errors
/// The cluster's.
pub async fn live(
    target: &Target,
    release: &HelmRelease,
    items: &[Item],
) -> Result<BTreeMap<ObjectId, Object>, PortError> {
    read(target, items, &selector(release), Denied::Error).await
}

/// Reads the live objects of items that may belong to a release, by their ids.
///
/// # Errors
/// The cluster's.
pub async fn live_owned(
    target: &Target,
    release: &HelmRelease,
    items: &[Item],
) -> Result<BTreeMap<ObjectId, Object>, PortError> {
    let own = selector(release);
    // The objects of a release that another Helm client installed have only Helm's label.
    let selectors = [own.as_str(), "app.kubernetes.io/managed-by=Helm"];
    read_labeled(target, items, &selectors, Denied::Error).await
}

fn selector(release: &HelmRelease) -> String {
    format!(
        "{ORIGIN_NAME}={},{ORIGIN_NAMESPACE}={}",
        release.id.name, release.id.namespace
    )
}

/// Checks that an object belongs to a release by Helm's label and annotations.
///
/// # Errors
/// Helm's message about what is wrong with them.
pub fn owned_by(live: &Object, record: &Release) -> Result<(), ReleaseError> {
    let check = |field: &str, key: &str, have: Option<&str>, want: &str| match have {
        Some(have) if have == want => None,
        Some(have) => Some(format!(
            "{field} validation error: key \"{key}\" must equal \"{want}\": current value is \"{have}\""
        )),
        None => Some(format!(
            "{field} validation error: missing key \"{key}\": must be set to \"{want}\""
        )),
    };
    let managed_by = "app.kubernetes.io/managed-by";
    let (name, namespace) = (
        "meta.helm.sh/release-name",
        "meta.helm.sh/release-namespace",
    );
    let wrong: Vec<String> = [
        check("label", managed_by, live.label(managed_by), "Helm"),
        check("annotation", name, live.annotation(name), &record.name),
        check(
            "annotation",
            namespace,
            live.annotation(namespace),
            &record.namespace,
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(ReleaseError::Ownership(wrong.join("; "))),
    }
}
