//! The comparison of all objects of the clusters that can be reached.

use super::changes::{self, Results};
use super::clusters::{LiveClusters, Unreachable};
use super::dry_run::{Comparison, Creations, Outcome, Stop, Wanted};
use super::owner::Owner;
use super::states::States;
use crate::check::Progress;
use crate::embedded::Rendered;
use crate::plan::compare::{Key, Place, Side, is_forced, keys};
use crate::plan::diff::stated;
use crate::plan::model::{ClusterPlan, Notice};
use driftless_core::kustomization::live_objects;
use driftless_flux::{FieldError, FluxKind, ObjectRef};
use driftless_kernel::concurrent;
use driftless_kernel::ports::{ErrorKind, in_time};
use driftless_kernel::target::Target;
use driftless_kernel::target::objects::{self, CONCURRENCY, Denied, Item};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::applied_by;
use driftless_plans::apply::ignore_rules::IgnoreRules;
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of clusters that are compared at the same time.
const CLUSTERS: usize = 4;
/// The number of Kustomizations and HelmReleases of a cluster that are compared at the same time.
const OWNERS: usize = 4;
/// The time for the comparison of one cluster.
const TIME: Duration = Duration::from_secs(90);

/// The outcome for the clusters that were reached, with notices about the others.
#[derive(Default)]
pub struct Comparisons {
    /// The changes of each cluster that was compared.
    pub clusters: BTreeMap<Place, ClusterPlan>,
    /// Warnings that concern no single object.
    pub warnings: Vec<Notice>,
    /// The objects that a cluster refuses.
    pub errors: Vec<Notice>,
}

/// Compares the changed state with the live objects of each cluster. A cluster that cannot be
/// compared in time gets a warning with the reason.
pub async fn compare(
    states: States<'_>,
    clusters: &dyn LiveClusters,
    progress: Progress<'_>,
) -> Comparisons {
    let mut places: BTreeMap<Place, Vec<&Key>> = BTreeMap::new();
    for key in keys(states.old, states.new) {
        let place = (key.0.clone(), key.1.clone());
        places.entry(place).or_default().push(key);
    }
    let work = places.iter().map(|(place, keys)| {
        let one = async move {
            progress(&format!("comparing with {}", place.1));
            let work = of_cluster(states, clusters, place, keys).boxed();
            let limit = || {
                let seconds = TIME.as_secs();
                Unreachable(format!("the comparison takes longer than {seconds} s"))
            };
            let done = in_time(clusters.clock(), TIME, work).await;
            done.unwrap_or_else(|| Err(limit()))
        };
        one.boxed()
    });
    let results = concurrent::run(CLUSTERS, work.collect()).await;
    let mut all = Comparisons::default();
    for (place, result) in places.keys().zip(results) {
        match result {
            Ok((plan, warnings, errors)) => {
                all.clusters.insert(place.clone(), plan);
                all.warnings.extend(warnings);
                all.errors.extend(errors);
            }
            Err(reason) => all.warnings.push(Notice {
                place: None,
                about: match place.0 == place.1 {
                    true => place.0.clone(),
                    false => format!("{}: cluster {}", place.0, place.1),
                },
                message: format!("compared with the base, not with the live state: {reason}"),
            }),
        }
    }
    all
}

/// The plan of a cluster with its warnings and errors.
type ClusterOutcome = Result<(ClusterPlan, Vec<Notice>, Vec<Notice>), Unreachable>;

/// The objects of a Kustomization or HelmRelease in one cluster.
#[derive(Default)]
struct Objects<'a> {
    wanted: Vec<(&'a Key, &'a Rendered)>,
    gone: Vec<(&'a Key, &'a Rendered)>,
}

async fn of_cluster<'a>(
    states: States<'a>,
    clusters: &dyn LiveClusters,
    place: &Place,
    keys: &[&'a Key],
) -> ClusterOutcome {
    let mut owners: BTreeMap<&ObjectRef, Objects<'_>> = BTreeMap::new();
    for key in keys {
        match (states.old.get(key), states.new.get(key)) {
            (_, Some(is)) => owners.entry(&is.owner).or_default().wanted.push((key, is)),
            (Some(was), None) if states.new.gap(states.old, &was.hub, &was.owner).is_none() => {
                owners.entry(&was.owner).or_default().gone.push((key, was));
            }
            _ => {}
        }
    }
    let creations = creations(states, keys);
    let work = owners.iter().map(|(id, objects)| {
        let one = OwnerWork {
            states,
            hub: &place.0,
            cluster: &place.1,
            id,
            objects,
            creations: &creations,
        };
        async move { one.compare(clusters).await }.boxed()
    });
    let compared = concurrent::run(OWNERS, work.collect()).await;
    let mut results = Results::default();
    let mut reasons = Vec::new();
    for ((id, objects), one) in owners.iter().zip(compared) {
        match one {
            Ok(one) => results.extend(one),
            Err(Stop::Cluster(reason)) => return Err(Unreachable(reason)),
            Err(stop) => {
                let all = objects.wanted.iter().chain(&objects.gone);
                results.unread.extend(all.map(|(key, _)| *key));
                if let Stop::Owner(reason) = stop {
                    results.unread_owners.push(((*id).clone(), reason.clone()));
                    reasons.push(reason);
                }
            }
        }
    }
    let is_all_denied = results.is_all_denied();
    if let Some(reason) =
        is_all_denied.or(reasons.into_iter().next().filter(|_| results.is_empty()))
    {
        return Err(Unreachable(reason));
    }
    Ok(changes::plan(states, place, results))
}

/// Returns the objects of the changed state that others in a cluster need.
fn creations(states: States<'_>, keys: &[&Key]) -> Creations {
    let mut creations = Creations::default();
    for key in keys {
        let Some(is) = states.new.get(key) else {
            continue;
        };
        match is.object.kind() {
            "Namespace" if is.object.group().is_empty() => {
                creations.namespaces.insert(is.object.name().to_owned());
            }
            "CustomResourceDefinition" => {
                let text = |pointer: &str| {
                    let text = is.object.pointer(pointer).and_then(Value::as_str);
                    text.unwrap_or_default().to_owned()
                };
                let kind = (text("/spec/group"), text("/spec/names/kind"));
                let was = states.old.get(key);
                if was.is_none_or(|was| stated(&was.object) != stated(&is.object)) {
                    creations.changed_kinds.insert(kind.clone());
                }
                creations.kinds.insert(kind);
            }
            _ => {}
        }
    }
    creations
}

/// The comparison of the objects of one Kustomization or HelmRelease in one cluster.
struct OwnerWork<'w, 'a> {
    states: States<'a>,
    hub: &'w str,
    cluster: &'w str,
    id: &'w ObjectRef,
    objects: &'w Objects<'a>,
    creations: &'w Creations,
}

impl<'a> OwnerWork<'_, 'a> {
    async fn compare(&self, clusters: &dyn LiveClusters) -> Result<Results<'a>, Stop> {
        if let Some(account) = self.new_account() {
            let reason = format!("the change creates its {account}");
            return Err(Stop::Owner(reason));
        }
        let owner = self.owner(clusters)?;
        let target = clusters.connect(self.hub, &owner).await;
        let target = target.map_err(|Unreachable(reason)| Stop::Owner(reason))?;
        let mut results = Results::default();
        self.add_wanted(&owner, &target, &mut results).await?;
        self.add_gone(&owner, &target, &mut results).await?;
        Ok(results)
    }

    /// Reads the Kustomization or HelmRelease after the change; a deleted one from before it.
    fn owner(&self, clusters: &dyn LiveClusters) -> Result<Owner, Stop> {
        let states = [self.states.new, self.states.old].into_iter();
        let objects = states.filter_map(|one| one.owner(self.hub, self.id));
        let owners: Result<Vec<Owner>, FieldError> = objects.map(Owner::of).collect();
        let owners = owners.map_err(|error| Stop::Owner(error.to_string()))?;
        if !owners.iter().all(|owner| clusters.allows(owner)) {
            return Err(Stop::Excluded);
        }
        let missing = || Stop::Owner(format!("{} is not known", self.id));
        owners.into_iter().next().ok_or_else(missing)
    }

    /// Returns the service account of the owner if the change creates it: before, no request can be
    /// made as that user.
    fn new_account(&self) -> Option<String> {
        let owner = self.states.new.owner(self.hub, self.id)?;
        let name = owner.pointer("/spec/serviceAccountName")?.as_str()?;
        let id = ObjectId {
            group: String::new(),
            kind: "ServiceAccount".to_owned(),
            namespace: self.id.namespace.clone(),
            name: name.to_owned(),
        };
        let key = (self.hub.to_owned(), self.cluster.to_owned(), id);
        let is_new = self.states.new.has(&key) && !self.states.old.has(&key);
        is_new.then(|| key.2.to_string())
    }

    async fn add_wanted(
        &self,
        owner: &Owner,
        target: &Target,
        results: &mut Results<'a>,
    ) -> Result<(), Stop> {
        if self.objects.wanted.is_empty() {
            return Ok(());
        }
        let comparison = self.comparison(owner, target)?;
        let mut all = Vec::new();
        for (key, is) in &self.objects.wanted {
            match self.find_wanted(owner, target, key, is).await? {
                Ok(wanted) => all.push((*key, wanted)),
                Err(outcome) => results.add(key, outcome, None),
            }
        }
        let items = all.iter().map(|(_, wanted)| &wanted.item);
        let live = objects::read(target, items, &owner.selector(), Denied::Unknown).await;
        let mut live = live.map_err(Stop::by_read)?;
        for (_, wanted) in &mut all {
            if let Some(live) = live.get(&wanted.item.object.id()) {
                self.keep_living_owner(&mut wanted.item.object, live);
            }
        }
        let work = all.iter().map(|(_, wanted)| {
            let live = live.get(&wanted.item.object.id());
            comparison.outcome(wanted, live).boxed()
        });
        let outcomes = concurrent::run(CONCURRENCY, work.collect()).await;
        for ((key, wanted), outcome) in all.iter().zip(outcomes) {
            let live = live.remove(&wanted.item.object.id());
            results.add(key, outcome?, live);
        }
        Ok(())
    }

    fn comparison<'c>(
        &'c self,
        owner: &'c Owner,
        target: &'c Target,
    ) -> Result<Comparison<'c>, Stop> {
        let rules = match owner {
            Owner::Kustomization(one) => IgnoreRules::new(&one.spec.ignore, "spec.ignore"),
            Owner::HelmRelease(one) => {
                let drift = one.spec.drift_detection.as_ref();
                let rules = drift.map(|drift| drift.ignore.as_slice());
                IgnoreRules::new(rules.unwrap_or_default(), "spec.driftDetection.ignore")
            }
        };
        let object = self.states.new.owner(self.hub, self.id);
        Ok(Comparison {
            owner,
            target,
            ignore: rules.map_err(|error| Stop::Owner(error.to_string()))?,
            forces: object.is_some_and(is_forced),
            upgrades: self.upgrades(),
            creations: self.creations,
        })
    }

    /// Returns whether the change makes a new release of a HelmRelease.
    fn upgrades(&self) -> bool {
        let States { old, new, .. } = self.states;
        let spec = |state: &Side<'_>| {
            let owner = state.owner(self.hub, self.id)?;
            owner.pointer("/spec").cloned()
        };
        let is_changed = |key: &Key| match (old.get(key), new.get(key)) {
            (Some(was), Some(is)) => stated(&was.object) != stated(&is.object),
            _ => true,
        };
        let all = self.objects.wanted.iter().chain(&self.objects.gone);
        spec(old) != spec(new) || all.into_iter().any(|(key, _)| is_changed(key))
    }

    /// Returns the object that a step would send, or the outcome if that is already known.
    async fn find_wanted(
        &self,
        owner: &Owner,
        target: &Target,
        key: &Key,
        is: &'a Rendered,
    ) -> Result<Result<Wanted<'a>, Outcome>, Stop> {
        let gvk = is.object.gvk();
        let resource = target.cluster.resource(&gvk).await;
        let Some(resource) = resource.map_err(Stop::by_read)? else {
            let kind = (gvk.group.clone(), gvk.kind.clone());
            if self.creations.kinds.contains(&kind) {
                return Ok(Err(Outcome::Created));
            }
            let (kind, version) = (&gvk.kind, gvk.api_version());
            let message = format!("no matches for kind \"{kind}\" in version \"{version}\"");
            return Ok(Err(Outcome::Refused(message)));
        };
        let sent = match (applied_by(&is.object, owner.manager()), owner) {
            (None, Owner::HelmRelease(_)) => Object::new(Value::Object(stated(&is.object))).ok(),
            (sent, _) => sent,
        };
        let Some(sent) = sent else {
            let reason = "the fields that are applied are not known".to_owned();
            return Ok(Err(Outcome::NotCompared(reason)));
        };
        Ok(Ok(Wanted {
            item: Item::new(sent, resource),
            before: self.states.old.get(key).map(|was| &was.object),
            after: &is.object,
        }))
    }

    /// Keeps the owner labels of a live object whose other Kustomization still lists it, as a step
    /// does.
    fn keep_living_owner(&self, object: &mut Object, live: &Object) {
        if self.id.kind != FluxKind::Kustomization {
            return;
        }
        let Some(other) = live_objects::owner(live).filter(|other| other != self.id) else {
            return;
        };
        if self.states.new.lists(self.hub, &other, &live.id()) {
            object.set_label(live_objects::OWNER_NAME, &other.name);
            object.set_label(live_objects::OWNER_NAMESPACE, &other.namespace);
        }
    }

    /// Reads the live state of the objects that leave the repository.
    async fn add_gone(
        &self,
        owner: &Owner,
        target: &Target,
        results: &mut Results<'a>,
    ) -> Result<(), Stop> {
        let mut items = Vec::new();
        for (key, was) in &self.objects.gone {
            let resource = target.cluster.resource(&was.object.gvk()).await;
            match resource.map_err(Stop::by_read)? {
                Some(resource) => items.push((*key, Item::new(was.object.clone(), resource))),
                // An object needs the definition of its kind.
                None => results.add_gone(key, None),
            }
        }
        let read = items.iter().map(|(_, item)| item);
        let mut live = match objects::read(target, read, &owner.selector(), Denied::Error).await {
            Ok(live) => live,
            Err(error) if error.kind == ErrorKind::Denied => {
                for (key, _) in &items {
                    let outcome = Outcome::NotCompared(error.message.clone());
                    results.add(key, outcome, None);
                }
                return Ok(());
            }
            Err(error) => return Err(Stop::by_read(error)),
        };
        for (key, item) in &items {
            results.add_gone(key, live.remove(&item.object.id()));
        }
        Ok(())
    }
}
