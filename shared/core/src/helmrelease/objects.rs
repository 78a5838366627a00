//! The objects of a record in the cluster: which kinds they are, what is there, whose it is.

use super::action::Action;
use super::chart::{ORIGIN_NAME, ORIGIN_NAMESPACE};
use super::drift;
use super::memory::Operation;
use super::run::PhaseError;
use crate::flux::HelmRelease;
use crate::ports::PortError;
use crate::target::Target;
use crate::target::objects::{Denied, Item, read};
use driftless_helm::record::Release;
use driftless_manifest::{Gvk, Object, ObjectId};
use std::collections::{BTreeMap, BTreeSet};

/// What Helm 4.2 says before it names a kind that is not served.
pub fn manifest_error_prefix(operation: &Operation) -> &'static str {
    match operation {
        // Its manifest is checked when it is rendered, before there is more to say.
        Operation::Act(Action::Upgrade) => "",
        Operation::Act(Action::Rollback(_)) => {
            "unable to build kubernetes objects from new release manifest: "
        }
        _ => "unable to build kubernetes objects from release manifest: ",
    }
}

/// The objects of a record.
///
/// # Errors
/// A manifest that cannot be read, a kind that the cluster does not serve: `manifest_error_prefix` is said before.
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

/// The objects of a record whose kinds are served, and those whose are not.
///
/// # Errors
/// A manifest that cannot be read.
pub async fn known_items(
    target: &Target,
    record: &Release,
) -> Result<(Vec<Item>, Vec<Object>), PhaseError> {
    let all = drift::desired(record, &|_| Some(false)).map_err(PhaseError::Failed)?;
    let kinds: BTreeSet<Gvk> = all.iter().map(Object::gvk).collect();
    let mut resources = BTreeMap::new();
    for gvk in kinds {
        if let Some(resource) = target.cluster.resource(&gvk).await? {
            resources.insert(gvk, resource);
        }
    }
    let namespaced = |gvk: &Gvk| Some(resources.get(gvk).is_some_and(|found| found.namespaced));
    let (mut items, mut missing) = (Vec::new(), Vec::new());
    for object in drift::desired(record, &namespaced).map_err(PhaseError::Failed)? {
        match resources.get(&object.gvk()) {
            Some(resource) => items.push(Item::new(object, resource.clone())),
            None => missing.push(object),
        }
    }
    Ok((items, missing))
}

/// The live objects behind items, by their ids.
///
/// # Errors
/// The cluster's.
pub async fn live(
    target: &Target,
    release: &HelmRelease,
    items: &[Item],
) -> Result<BTreeMap<ObjectId, Object>, PortError> {
    let selector = format!(
        "{ORIGIN_NAME}={},{ORIGIN_NAMESPACE}={}",
        release.id.name, release.id.namespace
    );
    read(target, items, &selector, Denied::Error).await
}

/// Whether Helm's marks say that an object belongs to a release; else what Helm says is wrong with them.
///
/// # Errors
/// Helm's words.
pub fn owned_by(live: &Object, record: &Release) -> Result<(), String> {
    let wants = |what: &str, key: &str, have: Option<&str>, want: &str| match have {
        Some(have) if have == want => None,
        Some(have) => Some(format!(
            "{what} validation error: key \"{key}\" must equal \"{want}\": current value is \"{have}\""
        )),
        None => Some(format!(
            "{what} validation error: missing key \"{key}\": must be set to \"{want}\""
        )),
    };
    let managed_by = "app.kubernetes.io/managed-by";
    let (name, namespace) = (
        "meta.helm.sh/release-name",
        "meta.helm.sh/release-namespace",
    );
    let wrong: Vec<String> = [
        wants("label", managed_by, live.label(managed_by), "Helm"),
        wants("annotation", name, live.annotation(name), &record.name),
        wants(
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
        false => Err(format!("invalid ownership metadata; {}", wrong.join("; "))),
    }
}
