//! Reads the live objects: one LIST per kind that has several objects, never one request per object
//! in a large build.

use super::applying_user::ApplyingUser;
use driftless_flux::{
    FluxKind, KUSTOMIZE_CONTROLLER, Kustomization, ObjectRef, SOURCE_WATCHER, reason,
};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{ErrorKind, Values};
use driftless_kernel::target::Target;
use driftless_kernel::target::objects::{self, Denied, Item};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::annotations::Policy;
use driftless_plans::apply::change_detection::{self, Drift};
use driftless_plans::apply::ignore_rules::IgnoreRules;
use driftless_plans::inventory::Inventory;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub use driftless_flux::{
    KUSTOMIZATION_NAME as OWNER_NAME, KUSTOMIZATION_NAMESPACE as OWNER_NAMESPACE,
    kustomization_of as owner,
};

/// Returns the label selector of a Kustomization's objects.
pub(super) fn selector(owner: &Kustomization) -> String {
    let (name, namespace) = (&owner.id.name, &owner.id.namespace);
    format!("{OWNER_NAME}={name},{OWNER_NAMESPACE}={namespace}")
}

/// The live objects of a build.
#[derive(Default)]
pub struct LiveObjects {
    objects: BTreeMap<ObjectId, Object>,
    /// The objects that were not read: they are as the last apply left them.
    remembered: BTreeSet<ObjectId>,
}

/// The knowledge of objects before they are read.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The objects that were applied before.
    pub inventory: &'a Inventory,
    /// Objects as the last apply left them, as JSON.
    pub applied: &'a Values,
}

impl LiveObjects {
    /// Reads the live state of every item that may exist, except of those that are known. Objects
    /// that are not in the inventory are read only if a rule leaves fields of them to others: the
    /// response to their apply has the whole object anyway.
    ///
    /// # Errors
    /// The cluster cannot be reached. A user that may not read applies without the live state.
    pub(crate) async fn read(
        target: &Target,
        owner: &Kustomization,
        items: &[Item],
        known: Known<'_>,
        ignore: &IgnoreRules,
    ) -> Result<Self, Failure> {
        let remembered: BTreeMap<ObjectId, Object> = items
            .iter()
            .filter_map(|item| {
                let id = item.object.id();
                let document = serde_json::from_str(known.applied.get(&id)?).ok()?;
                let live = Object::new(document).ok()?;
                (!is_outdated(&item.object, &live)).then_some((id, live))
            })
            .collect();
        let requested = items.iter().filter(|item| {
            let id = item.object.id();
            let may_exist = known.inventory.contains(&id)
                || Policy::of(&item.object).needs_live()
                || !ignore.paths(&item.object).is_empty();
            may_exist && !remembered.contains_key(&id)
        });
        let live = objects::read(target, requested, &selector(owner), Denied::Unknown).await;
        let mut objects = live.map_err(|error| Failure::port(reason::FAILED, &error))?;
        let ids = remembered.keys().cloned().collect();
        objects.extend(remembered);
        Ok(Self {
            objects,
            remembered: ids,
        })
    }

    /// Returns the live object of a desired one.
    pub fn get(&self, desired: &Object) -> Option<&Object> {
        self.objects.get(&desired.id())
    }

    /// Returns whether an object was not read, so that a write must carry its resourceVersion.
    pub(super) fn is_remembered(&self, desired: &Object) -> bool {
        self.remembered.contains(&desired.id())
    }

    /// Keeps the owner labels of existing Kustomizations. Two Kustomizations may render the same
    /// object: the one that its labels name keeps it as long as it lives and lists it; the other
    /// one applies its content without the labels.
    ///
    /// # Errors
    /// An error of the hub: it is unknown whether the owner lives.
    pub(crate) async fn keep_living_owners(
        &self,
        context: &Context<'_>,
        us: &Kustomization,
        items: &mut [Item],
    ) -> Result<(), Failure> {
        let mut owners: BTreeMap<(String, String), Option<Inventory>> = BTreeMap::new();
        for item in items {
            let Some(live) = self.get(&item.object) else {
                continue;
            };
            let (Some(name), Some(namespace)) =
                (live.label(OWNER_NAME), live.label(OWNER_NAMESPACE))
            else {
                continue;
            };
            if (namespace, name) == (us.id.namespace.as_str(), us.id.name.as_str()) {
                continue;
            }
            let key = (namespace.to_owned(), name.to_owned());
            if !owners.contains_key(&key) {
                let inventory = living_inventory(context, us, &key).await?;
                owners.insert(key.clone(), inventory);
            }
            let lists_it = owners
                .get(&key)
                .and_then(Option::as_ref)
                .is_some_and(|list| list.contains(&live.id()));
            if lists_it {
                item.object.set_label(OWNER_NAME, name);
                item.object.set_label(OWNER_NAMESPACE, namespace);
            }
        }
        Ok(())
    }
}

/// Returns whether a write with the remembered resourceVersion is likely to be refused: the
/// manifest has changed, and a controller writes the status of the object.
fn is_outdated(desired: &Object, remembered: &Object) -> bool {
    let status = remembered.pointer("/status");
    let drift = || change_detection::compare(desired, remembered, KUSTOMIZE_CONTROLLER);
    status.is_some_and(has_value) && drift() != Drift::Unchanged
}

fn has_value(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => fields.values().any(has_value),
        Value::Array(values) => values.iter().any(has_value),
        _ => true,
    }
}

/// Returns the inventory of another Kustomization on the same target that is not being deleted.
async fn living_inventory(
    context: &Context<'_>,
    us: &Kustomization,
    owner: &(String, String),
) -> Result<Option<Inventory>, Failure> {
    let id = ObjectRef::new(FluxKind::Kustomization, owner.0.clone(), owner.1.clone());
    let other = match context.hub.get(&id).await {
        Ok(other) => other,
        // The labels are not a valid name, so the object has no owner.
        Err(error) if error.kind == ErrorKind::Invalid => None,
        Err(error) => return Err(Failure::port(reason::FAILED, &error).context(id)),
    };
    let living = other.filter(|other| other.meta("deletionTimestamp").is_empty());
    let living = living.filter(|other| {
        ApplyingUser::of(other).is_ok_and(|user| user.is_on_cluster_of(other.namespace(), us))
    });
    Ok(living.map(|other| Inventory::from_status(other.pointer("/status/inventory"))))
}

/// Sets the owner labels and the common metadata on an object that will be applied.
pub fn mark(object: &mut Object, owner: &Kustomization) {
    object.set_label(OWNER_NAME, &owner.id.name);
    object.set_label(OWNER_NAMESPACE, &owner.id.namespace);
    if let Some(common) = &owner.spec.common_metadata {
        common
            .labels
            .iter()
            .for_each(|(key, value)| object.set_label(key, value));
        common
            .annotations
            .iter()
            .for_each(|(key, value)| object.set_annotation(key, value));
    }
}

/// Checks whether an object of a `gotk-components.yaml` belongs to Flux's controllers, which do not
/// run here: their Deployments, and the definitions of Flux kinds if the hub has ours. Such objects
/// are not applied and not pruned.
pub fn is_controllers_own(object: &Object, keep_controllers: bool, our_definitions: bool) -> bool {
    if object.label("app.kubernetes.io/part-of") != Some("flux") {
        return false;
    }
    match object.kind() {
        "Deployment" => {
            let name = object.name();
            !keep_controllers && (name.ends_with("-controller") || name == SOURCE_WATCHER)
        }
        "CustomResourceDefinition" => {
            let group = object
                .pointer("/spec/group")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let generators = FluxKind::ArtifactGenerator.group();
            our_definitions && (group.ends_with(".toolkit.fluxcd.io") || group == generators)
        }
        _ => false,
    }
}
