//! The state of a push on a hub: which objects it has reached, from the live objects and their
//! journals. Pure.

use driftless_flux::{
    Condition, ConditionStatus, Conditions, FluxKind, ObjectRef, generation, is_suspended,
    kustomization_of, source_of,
};
use driftless_kernel::context::events::push;
use driftless_kernel::journal::{Journal, Landing, Push, StepResult, pushes};
use driftless_manifest::Object;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state of an object during a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The object has reached the revision, or never will: another one followed.
    Ended,
    /// The object failed, with this reason and message.
    Failed(String, String),
    /// The object waits for another one.
    Waits,
    /// The object has not reached the revision yet.
    Works,
}

/// The objects of a hub that follow the sources of a push.
pub struct Followers<'o> {
    /// The sources with the revision.
    pub sources: Vec<&'o Object>,
    /// The Kustomizations of these sources, and the HelmReleases that those have applied, each with
    /// its state.
    pub objects: BTreeMap<ObjectRef, (&'o Object, Progress)>,
}

/// Returns the objects that a push of a revision to a source reaches. Suspended objects are left
/// out.
pub fn followers<'o>(objects: &'o [Object], first: &ObjectRef, revision: &str) -> Followers<'o> {
    let has_revision = |object: &Object| {
        text(object, "/status/artifact/revision") == revision
            || ObjectRef::of(object).as_ref() == Some(first)
    };
    let is_source = |object: &&Object| {
        FluxKind::of(&object.gvk()).is_some_and(push::is_pushed_to) && has_revision(object)
    };
    let sources: Vec<&Object> = objects.iter().filter(is_source).collect();
    let ids: BTreeMap<ObjectRef, &Object> = sources
        .iter()
        .filter_map(|source| Some((ObjectRef::of(source)?, *source)))
        .collect();
    let mut followers = BTreeMap::new();
    for object in objects.iter().filter(|object| !is_suspended(object)) {
        let Some(id) = ObjectRef::of(object) else {
            continue;
        };
        if id.kind != FluxKind::Kustomization {
            continue;
        }
        if let Some(source) = source_of(object).and_then(|source| ids.get(&source)) {
            let is_newest = text(source, "/status/artifact/revision") == revision;
            let progress = of_kustomization(object, revision, is_newest);
            followers.insert(id, (object, progress));
        }
    }
    let owners: BTreeSet<ObjectRef> = followers.keys().cloned().collect();
    for object in objects.iter().filter(|object| !is_suspended(object)) {
        if let Some(id) = ObjectRef::of(object)
            && id.kind == FluxKind::HelmRelease
            && kustomization_of(object).is_some_and(|owner| owners.contains(&owner))
        {
            followers.insert(id, (object, of_release(object)));
        }
    }
    Followers {
        sources,
        objects: followers,
    }
}

fn text<'o>(object: &'o Object, place: &str) -> &'o str {
    let text = object.pointer(place).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn of_kustomization(object: &Object, revision: &str, is_newest: bool) -> Progress {
    let conditions = Conditions::of(object);
    let ready = conditions.ready();
    if ready.is_some_and(Condition::is_waiting) {
        return Progress::Waits;
    }
    if text(object, "/status/lastAttemptedRevision") != revision {
        return match is_newest {
            true => Progress::Works,
            false => Progress::Ended,
        };
    }
    of_condition(object, ready)
}

fn of_release(object: &Object) -> Progress {
    let conditions = Conditions::of(object);
    match conditions.ready() {
        Some(ready) if ready.is_waiting() => Progress::Waits,
        ready => of_condition(object, ready),
    }
}

fn of_condition(object: &Object, ready: Option<&Condition>) -> Progress {
    let observed = object.pointer("/status/observedGeneration");
    let is_observed = observed.and_then(Value::as_i64) == Some(generation(object));
    match ready {
        Some(ready) if ready.status == ConditionStatus::True && is_observed => Progress::Ended,
        Some(ready)
            if ready.status == ConditionStatus::False
                && ready.observed_generation == generation(object) =>
        {
            Progress::Failed(ready.reason.clone(), ready.message.clone())
        }
        _ => Progress::Works,
    }
}

impl Followers<'_> {
    /// Returns whether each object has landed or failed. Objects that wait for others count as
    /// ended if one failed: they may wait for it.
    pub fn is_settled(&self) -> bool {
        let has = |wanted: fn(&Progress) -> bool| {
            let mut states = self.objects.values().map(|(_, progress)| progress);
            states.any(wanted)
        };
        let is_failed = |progress: &Progress| matches!(progress, Progress::Failed(..));
        let waits = has(|progress| *progress == Progress::Waits);
        !has(|progress| *progress == Progress::Works) && (!waits || has(is_failed))
    }
}

/// Returns the push with its landings at these objects, from their journals. The revision of a
/// HelmRelease is that of its chart: what it did since the push counts.
pub fn landings(
    hub: &str,
    journals: &BTreeMap<ObjectRef, Journal>,
    revision: &str,
) -> Option<(Push, BTreeMap<ObjectRef, Landing>)> {
    let received = journals.values().flat_map(|journal| &journal.entries);
    let received = received
        .filter(|entry| entry.result == StepResult::NewRevision && entry.revision == revision);
    let received = received.map(|entry| entry.started).min()?;
    let mut known = journals.clone();
    for (id, journal) in &mut known {
        if id.kind == FluxKind::HelmRelease {
            journal.entries.retain(|entry| entry.started >= received);
            for entry in &mut journal.entries {
                revision.clone_into(&mut entry.revision);
            }
        }
    }
    let all = known.iter().map(|(id, journal)| (hub, id, journal));
    let found = pushes(all, usize::MAX);
    let push = found.into_iter().find(|push| push.revision == revision)?;
    let landings = push.landings.iter();
    let landings = landings
        .map(|landing| (landing.object.clone(), landing.clone()))
        .collect();
    Some((push, landings))
}

/// Returns the time from the receipt of a push to the end of the last of these landings.
pub fn took<'l>(push: &Push, landings: impl Iterator<Item = &'l Landing>) -> Option<Duration> {
    let last = landings.map(|landing| landing.ended).max()?;
    Some(Duration::from_millis(last.saturating_sub(push.received)))
}
