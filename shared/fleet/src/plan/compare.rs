//! The objects of two states, compared one by one.

use super::diff::{changes, stated};
use super::immutable;
use super::model::{Action, Basis, Change, ClusterPlan, Notice};
use super::redact::Redactor;
use crate::check::Checked;
use crate::embedded::{Rendered, State};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::annotations::Policy;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The annotation that lets an object survive its Helm release.
const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// The number of Kustomizations that may apply each other.
const MAX_DEPTH: usize = 32;

/// An object of a state: its hub, its cluster and its id.
pub type Key = (String, String, ObjectId);

/// A cluster: its hub and its name.
pub type Place = (String, String);

/// The Kustomizations and HelmReleases whose objects are not known, by hub, name and state, each
/// with the number of objects.
type Gaps<'a> = BTreeMap<(String, String, &'a str), usize>;

/// The objects of a state.
pub struct Side<'a> {
    /// The check that rendered them.
    pub checked: &'a Checked,
    objects: BTreeMap<Key, &'a Rendered>,
    /// The objects in each inventory: two Kustomizations may list the same one.
    listed: BTreeSet<(&'a str, &'a ObjectRef, ObjectId)>,
    /// The Flux objects that another one applies to its own hub, by hub.
    flux: BTreeMap<(&'a str, ObjectRef), &'a Rendered>,
    /// The final states of the Flux objects, such as `Ready`, by hub and name.
    states: BTreeMap<(&'a str, &'a str), &'a str>,
}

impl<'a> Side<'a> {
    /// Indexes the objects of a check.
    pub fn of(checked: &'a Checked) -> Self {
        let key = |one: &Rendered| (one.hub.clone(), one.cluster.clone(), one.object.id());
        let objects = checked.inventory.iter().map(|one| (key(one), one));
        let listed = |one: &'a Rendered| (&*one.hub, &one.owner, one.object.id());
        let mut flux = BTreeMap::new();
        for one in checked
            .inventory
            .iter()
            .filter(|one| one.cluster == one.hub)
        {
            if let Some(id) = ObjectRef::of(&one.object) {
                flux.entry((&*one.hub, id)).or_insert(one);
            }
        }
        let states = checked.report.objects.iter();
        let states = states.map(|one| ((&*one.hub, &*one.object), one.state));
        Self {
            checked,
            objects: objects.collect(),
            listed: checked.inventory.iter().map(listed).collect(),
            flux,
            states: states.collect(),
        }
    }

    /// Returns the objects.
    pub fn objects(&self) -> impl Iterator<Item = (&Key, &&'a Rendered)> {
        self.objects.iter()
    }

    /// Returns an object.
    pub fn get(&self, key: &Key) -> Option<&'a Rendered> {
        self.objects.get(key).copied()
    }

    /// Returns whether the inventory of a Flux object has the object.
    pub fn lists(&self, hub: &str, owner: &ObjectRef, id: &ObjectId) -> bool {
        self.listed.contains(&(hub, owner, id.clone()))
    }

    /// Returns a Flux object of a hub, also one that no other applies.
    pub fn owner(&self, hub: &str, owner: &ObjectRef) -> Option<&'a Object> {
        let key = (hub.to_owned(), owner.clone());
        self.checked.flux.get(&key)
    }

    /// Returns whether the state has the object.
    pub fn has(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns a Flux object of a hub, if another one applies it.
    pub fn flux(&self, hub: &str, id: &ObjectRef) -> Option<&'a Object> {
        self.rendered(hub, id).map(|one| &one.object)
    }

    fn rendered(&self, hub: &str, id: &ObjectRef) -> Option<&'a Rendered> {
        self.flux.get(&(hub, id.clone())).copied()
    }

    fn state(&self, hub: &str, owner: &ObjectRef) -> Option<&'a str> {
        self.states.get(&(hub, &*owner.to_string())).copied()
    }

    /// Returns why the objects of a Kustomization or HelmRelease are not known in this state: it is
    /// not ready, or it is missing because one that applies it in the other state is not ready.
    pub fn gap(&self, other: &Self, hub: &str, owner: &ObjectRef) -> Option<&'a str> {
        let mut owner = owner;
        for _ in 0..MAX_DEPTH {
            if let Some(state) = self.state(hub, owner) {
                return (state != State::Ready.as_str()).then_some(state);
            }
            owner = &other.rendered(hub, owner)?.owner;
        }
        None
    }

    /// Returns whether the hub has the Flux object.
    pub fn has_flux(&self, hub: &str, owner: &ObjectRef) -> bool {
        self.state(hub, owner).is_some()
    }
}

/// Returns the objects of both states, ordered by cluster.
pub fn keys<'s>(old: &'s Side<'_>, new: &'s Side<'_>) -> BTreeSet<&'s Key> {
    old.objects.keys().chain(new.objects.keys()).collect()
}

/// Returns the change of an object from one state to the other. `None` without a change, and for an
/// object that cannot be compared, because its owner is not ready after the change.
pub fn change(key: &Key, old: &Side<'_>, new: &Side<'_>, redactor: &Redactor) -> Option<Change> {
    match (old.get(key), new.get(key)) {
        (None, Some(is)) => Some(created(is, new.checked, redactor)),
        (Some(was), Some(is)) => changed(was, is, new, redactor),
        (Some(was), None) => match new.gap(old, &was.hub, &was.owner) {
            Some(_) => None,
            None => Some(deleted(was, old, new)),
        },
        (None, None) => None,
    }
}

/// Compares the objects of every cluster, except of those in `live`, whose comparison is there.
pub fn compare(
    old: &Side<'_>,
    new: &Side<'_>,
    redactor: &Redactor,
    live: BTreeMap<Place, ClusterPlan>,
) -> (Vec<ClusterPlan>, Vec<Notice>) {
    let mut clusters: BTreeMap<Place, Vec<Change>> = BTreeMap::new();
    let mut gaps: Gaps<'_> = BTreeMap::new();
    let mut unknown: Gaps<'_> = BTreeMap::new();
    for key in keys(old, new) {
        let place = (key.0.clone(), key.1.clone());
        let is_live = live.contains_key(&place);
        match (old.get(key), new.get(key)) {
            (None, Some(is)) if !is_live => {
                if let Some(state) = old.gap(new, &is.hub, &is.owner) {
                    let owner = (is.hub.clone(), is.owner.to_string(), state);
                    *unknown.entry(owner).or_default() += 1;
                }
            }
            (Some(was), None) => {
                if let Some(state) = new.gap(old, &was.hub, &was.owner) {
                    let owner = (was.hub.clone(), was.owner.to_string(), state);
                    *gaps.entry(owner).or_default() += 1;
                }
            }
            _ => {}
        }
        if !is_live && let Some(change) = change(key, old, new, redactor) {
            clusters.entry(place).or_default().push(change);
        }
    }
    let of_base = |((hub, cluster), changes)| {
        let plan = ClusterPlan {
            basis: Basis::Base,
            drift: Vec::new(),
            hub,
            cluster,
            changes,
        };
        ((plan.hub.clone(), plan.cluster.clone()), plan)
    };
    let mut all: BTreeMap<Place, ClusterPlan> = clusters.into_iter().map(of_base).collect();
    let has_any = |plan: &ClusterPlan| !plan.changes.is_empty() || !plan.drift.is_empty();
    all.extend(live.into_iter().filter(|(_, plan)| has_any(plan)));
    let mut notices = notices(gaps, |state, count| {
        format!(
            "its state is {state} after the change: {count} objects that only the base has are not compared and stay in the cluster"
        )
    });
    notices.extend(self::notices(unknown, |state, count| {
        format!(
            "its state is {state} before the change: {count} objects that count as created may exist already"
        )
    }));
    (all.into_values().collect(), notices)
}

fn notices(gaps: Gaps<'_>, message: impl Fn(&str, usize) -> String) -> Vec<Notice> {
    let notice = |((hub, owner, state), count)| Notice {
        place: None,
        about: format!("{hub}: {owner}"),
        message: message(state, count),
    };
    gaps.into_iter().map(notice).collect()
}

/// Returns the change of an object that is created.
pub fn created(is: &Rendered, after: &Checked, redactor: &Redactor) -> Change {
    let id = is.object.id();
    Change {
        action: Action::Create,
        owner: is.owner.to_string(),
        place: after.places.of(&is.hub, &is.owner, &id),
        diff: changes(None, Some(&stated(&is.object)), redactor),
        warnings: Vec::new(),
        id,
    }
}

fn changed(was: &Rendered, is: &Rendered, new: &Side<'_>, redactor: &Redactor) -> Option<Change> {
    let (before, after) = (stated(&was.object), stated(&is.object));
    if before == after {
        return None;
    }
    let id = is.object.id();
    let mut warnings = Vec::new();
    for field in immutable::changed(&was.object, &is.object, &before, &after) {
        let recreates = Policy::of(&is.object).recreates(Some(&was.object))
            || new.flux(&is.hub, &is.owner).is_some_and(is_forced);
        warnings.push(match recreates {
            true => format!("{field} is immutable: the object is deleted and created again"),
            false => format!(
                "{field} is immutable: the API server refuses the change; rename the object, or set spec.force or the annotation \
                 kustomize.toolkit.fluxcd.io/force: Enabled to recreate it"
            ),
        });
    }
    warnings.extend(immutable::definition(&was.object, &is.object));
    warnings.extend(handover(was, is));
    let mut diff = changes(Some(&before), Some(&after), redactor);
    if diff.is_empty() {
        diff = "the change is in values that are not printed\n".to_owned();
    }
    Some(Change {
        action: Action::Change,
        owner: is.owner.to_string(),
        place: new.checked.places.of(&is.hub, &is.owner, &id),
        diff,
        warnings,
        id,
    })
}

/// Returns a warning about an object that another Kustomization or HelmRelease takes over.
pub fn handover(was: &Rendered, is: &Rendered) -> Option<String> {
    let is_other = was.owner != is.owner;
    is_other.then(|| format!("{} hands the object over to {}", was.owner, is.owner))
}

/// Returns whether a Kustomization or HelmRelease recreates objects with immutable fields.
pub fn is_forced(owner: &Object) -> bool {
    owner.pointer("/spec/force") == Some(&Value::Bool(true))
        || owner.pointer("/spec/upgrade/force") == Some(&Value::Bool(true))
}

/// Returns the change of an object that leaves the repository: it is deleted, or it stays.
pub fn deleted(was: &Rendered, old: &Side<'_>, new: &Side<'_>) -> Change {
    let id = was.object.id();
    let reason = reason_to_stay(was, old, new);
    let mut warnings: Vec<String> = reason
        .iter()
        .map(|reason| format!("the object stays in the cluster: {reason}"))
        .collect();
    if reason.is_none() {
        warnings.extend(lost_with(&was.object).map(str::to_owned));
    }
    Change {
        action: match reason {
            Some(_) => Action::Keep,
            None => Action::Delete,
        },
        owner: was.owner.to_string(),
        place: old.checked.places.of(&was.hub, &was.owner, &id),
        diff: String::new(),
        warnings,
        id,
    }
}

/// Returns what is lost with a deleted object.
fn lost_with(object: &Object) -> Option<&'static str> {
    match (object.group(), object.kind()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            Some("every object of the definition's kind is deleted with it")
        }
        ("", "Namespace") => Some("every object in the namespace is deleted with it"),
        ("", "PersistentVolumeClaim") => {
            Some("the volume and its data are deleted with it, unless the reclaim policy is Retain")
        }
        _ => None,
    }
}

/// Returns why an object that is no longer rendered stays in the cluster.
pub fn reason_to_stay(was: &Rendered, old: &Side<'_>, new: &Side<'_>) -> Option<&'static str> {
    if Policy::of(&was.object).keeps() {
        return Some("a label or annotation excludes it from pruning");
    }
    let policy = was.object.annotation(RESOURCE_POLICY);
    let is_release = was.owner.kind == FluxKind::HelmRelease;
    if is_release && policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep")) {
        return Some("its annotation helm.sh/resource-policy is keep");
    }
    if is_release {
        return None;
    }
    let is_gone = !new.has_flux(&was.hub, &was.owner);
    let owner = match is_gone {
        true => old.flux(&was.hub, &was.owner),
        false => new.flux(&was.hub, &was.owner),
    }?;
    let text = |field: &str| owner.pointer(field).and_then(Value::as_str);
    // The field has no default in the API: it is required.
    let prunes = owner.pointer("/spec/prune") == Some(&Value::Bool(true));
    match (
        is_gone,
        text("/spec/deletionPolicy").unwrap_or("MirrorPrune"),
    ) {
        (true, "Orphan") => Some("spec.deletionPolicy of its deleted Kustomization is Orphan"),
        (true, "Delete" | "WaitForTermination") => None,
        (_, _) if !prunes => Some("spec.prune of its Kustomization is not true"),
        _ => None,
    }
}
