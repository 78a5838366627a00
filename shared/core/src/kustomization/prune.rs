//! Deletes objects that are no longer rendered: only those that are provably ours, and only the
//! very object that was read.

use super::heirs::{self, HandoverOutcome, Heirs};
use super::live_objects::{self, OWNER_NAME, OWNER_NAMESPACE};
use super::report;
use driftless_flux::{FluxKind, Kustomization, reason};
use driftless_kernel::applier::Strategy;
use driftless_kernel::concurrent;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Cluster, Deleted, ErrorKind, PortError, Resource};
use driftless_kernel::target::objects::{self, CONCURRENCY, DELETION_TIME, Item};
use driftless_kernel::target::{self, Target};
use driftless_manifest::{Gvk, Object, ObjectId};
use driftless_plans::apply::plan::{Action, ChangeSet};
use driftless_plans::inventory::{Eligibility, Entry, Inventory, eligibility};
use futures::FutureExt as _;
use futures::future::ready;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The number of entries after which the inventory is written in the middle of a prune.
const CHECKPOINT: usize = 200;

/// The result of a prune.
#[derive(Default)]
pub struct Pruned {
    /// The deleted and the skipped objects.
    pub changes: ChangeSet,
    /// The objects that stay in the inventory: not deleted yet, or not known to be.
    pub left: Inventory,
    /// The objects that leave the inventory and stay on the cluster, because they belong to another
    /// Kustomization.
    pub others: Vec<Item>,
    /// True if an object is terminating.
    pub is_terminating: bool,
    /// True if an object was not deleted yet, because a terminating Flux object needs it to clean
    /// up.
    pub is_held: bool,
    /// True if the time of the step was over before all objects were deleted.
    pub is_unfinished: bool,
    /// The failures of all objects, as one.
    pub failure: Option<Failure>,
}

impl Pruned {
    fn fail(&mut self, failure: Failure) {
        match &mut self.failure {
            None => self.failure = Some(failure),
            Some(first) => first.message = format!("{}\n{}", first.message, failure.message),
        }
    }
}

enum PruneResult {
    Deleted,
    Gone,
    NotOurs,
    /// Belongs to another Kustomization.
    Others(Item),
    Terminating,
    /// An object that waits: a terminating Flux object needs it.
    Held,
    /// The time of the step is over.
    Late,
}

/// Deletes the stale entries as [`Prune::run`] does, with the other Kustomizations that the hub has
/// now. The rest of the inventory is what cannot be read.
pub async fn prune(
    context: &Context<'_>,
    target: &Target,
    owner: &mut Kustomization,
    stale: &Inventory,
    start: Duration,
) -> Pruned {
    let heirs = match heirs::others(context, owner).await {
        Ok(others) => Heirs::of(&others),
        Err(error) => {
            return Pruned {
                left: stale.clone(),
                failure: Some(heirs::unread(&error)),
                ..Pruned::default()
            };
        }
    };
    let mut rest = Inventory::default();
    rest.keep_unreadable(stale);
    let prune = Prune {
        context,
        target,
        heirs: &heirs,
        rest: &rest,
        start,
    };
    prune.run(owner, stale).await
}

/// The state of the objects of a kind before each of them is pruned.
#[derive(Default)]
struct KindState {
    /// Our live objects.
    live: BTreeMap<ObjectId, (Resource, Object)>,
    /// The versions of entries whose kind is not served in any version.
    not_served: BTreeSet<String>,
}

/// The prune of a Kustomization.
pub struct Prune<'a> {
    /// The context of the step.
    pub context: &'a Context<'a>,
    /// The cluster on which it prunes.
    pub target: &'a Target,
    /// The other living Kustomizations.
    pub heirs: &'a Heirs,
    /// The part of the inventory that is not pruned.
    pub rest: &'a Inventory,
    /// The start of the step, since 1970.
    pub start: Duration,
}

impl Prune<'_> {
    /// Deletes the stale entries: Kustomizations and HelmReleases first, then the others in reverse
    /// order of applying, except those that the former need until they are gone. The objects of one
    /// kind are deleted concurrently. Each entry leaves the inventory only when its object is gone
    /// or proves not to be ours.
    ///
    /// The inventory is written during the prune, and the prune ends before the time of the
    /// step is over, so that the next step continues with what is left.
    pub async fn run(&self, owner: &mut Kustomization, stale: &Inventory) -> Pruned {
        let mut pruned = Pruned::default();
        // The entries that leave the inventory, and how many of them are written.
        let (mut released, mut written) = (BTreeSet::new(), 0);
        // Namespaces with Flux objects that are not gone.
        let mut needed = BTreeSet::new();
        let entries = stale.in_deletion_order().into_iter();
        let (children, others): (Vec<_>, Vec<_>) = entries.partition(cleans_up);
        let kind = |entry: &Entry| (entry.id.group.clone(), entry.id.kind.clone());
        let children = children.chunk_by(|a, b| kind(a) == kind(b));
        let groups = children.chain(others.chunk_by(|a, b| kind(a) == kind(b)));
        'all: for group in groups {
            let mut listed = self.list(owner, group).await;
            for batch in group.chunks(CHECKPOINT) {
                let reader = &*owner;
                let work = batch.iter().map(|entry| match () {
                    () if is_needed(entry, &needed) => ready(Ok(PruneResult::Held)).boxed(),
                    () if listed.not_served.contains(&entry.version) => {
                        ready(Ok(PruneResult::Gone)).boxed()
                    }
                    () => {
                        let live = listed.live.remove(&entry.id);
                        self.prune_one(reader, entry, live).boxed()
                    }
                });
                let results = concurrent::run(CONCURRENCY, work.collect()).await;
                for (entry, result) in batch.iter().zip(results) {
                    if record(&mut pruned, entry, result) {
                        released.insert(entry.id.clone());
                    } else if cleans_up(entry) {
                        needed.insert(entry.id.namespace.clone());
                    }
                }
                if pruned.is_unfinished {
                    break 'all;
                }
                if released.len() >= written + CHECKPOINT {
                    written = released.len();
                    if let Err(failure) = self.write(owner, stale, &released, &pruned).await {
                        pruned.fail(failure);
                        break 'all;
                    }
                }
            }
        }
        pruned.left = stale.clone();
        pruned.left.retain(|id| !released.contains(id));
        pruned
    }

    /// Writes the inventory in the middle of a prune. Objects of other Kustomizations stay in it:
    /// the end of the step checks them again.
    async fn write(
        &self,
        owner: &mut Kustomization,
        stale: &Inventory,
        released: &BTreeSet<ObjectId>,
        pruned: &Pruned,
    ) -> Result<(), Failure> {
        let others = pruned.others.iter().map(|item| item.object.id());
        let others: BTreeSet<ObjectId> = others.collect();
        let mut left = stale.clone();
        left.retain(|id| !released.contains(id) || others.contains(id));
        report::write_inventory(self.context, owner, &self.rest.union(&left)).await
    }

    /// Reads our live objects of a kind with one LIST, if that is cheaper than a request for each.
    /// What cannot be listed is read by [`Prune::prune_one`], which reports the errors.
    async fn list(&self, owner: &Kustomization, entries: &[Entry]) -> KindState {
        let mut listed = KindState::default();
        let versions: BTreeSet<&str> = entries.iter().map(|entry| &*entry.version).collect();
        for version in versions {
            let entries = entries.iter().filter(|entry| entry.version == version);
            let namespaces: Vec<&str> = entries.clone().map(|one| &*one.id.namespace).collect();
            let Some(entry) = entries.clone().next() else {
                continue;
            };
            let resource = match resource(self.target.cluster.as_ref(), entry).await {
                Ok(Some(resource)) => resource,
                Ok(None) => {
                    listed.not_served.insert(version.to_owned());
                    continue;
                }
                Err(_) => continue,
            };
            let selector = live_objects::selector(owner);
            let live = objects::list(self.target, &resource, &namespaces, &selector).await;
            let live = live.ok().flatten().unwrap_or_default().into_iter();
            let live = live.map(|object| (object.id(), (resource.clone(), object)));
            listed.live.extend(live);
        }
        listed
    }

    /// Deletes the object of an entry if it is ours; `listed` is its state in a LIST.
    async fn prune_one(
        &self,
        owner: &Kustomization,
        entry: &Entry,
        listed: Option<(Resource, Object)>,
    ) -> Result<PruneResult, PortError> {
        if self.context.ports.clock.now() >= self.start + DELETION_TIME {
            return Ok(PruneResult::Late);
        }
        // An heir takes over the very version that is read at the handover.
        if let Some((resource, live)) = listed
            && !self.heirs.list(&entry.id)
        {
            match self.prune_live(owner, resource, live).await {
                // The object was changed since the LIST, and may not be ours now.
                Err(error) if error.kind == ErrorKind::Conflict => {}
                pruned => return pruned,
            }
        }
        match find(self.target.cluster.as_ref(), entry).await {
            Err(error) if error.kind == ErrorKind::Denied => {
                match is_left_to_others(self.context, owner, entry).await {
                    true => Ok(PruneResult::NotOurs),
                    false => Err(error),
                }
            }
            Err(error) => Err(error),
            Ok(None) => Ok(PruneResult::Gone),
            Ok(Some((resource, live))) => self.prune_live(owner, resource, live).await,
        }
    }

    async fn prune_live(
        &self,
        owner: &Kustomization,
        resource: Resource,
        live: Object,
    ) -> Result<PruneResult, PortError> {
        match eligibility(&live, &owner.id.namespace, &owner.id.name) {
            Eligibility::NotOurs if is_owned(&live) => {
                return Ok(PruneResult::Others(Item::new(live, resource)));
            }
            Eligibility::NotOurs | Eligibility::Kept => return Ok(PruneResult::NotOurs),
            Eligibility::Terminating => return Ok(PruneResult::Terminating),
            Eligibility::Delete => {}
        }
        let (context, target) = (self.context, self.target);
        let handover = self
            .heirs
            .hand_over(context, target, owner, &resource, live);
        let live = match handover.await? {
            HandoverOutcome::HandedOver(live) => {
                return Ok(PruneResult::Others(Item::new(live, resource)));
            }
            HandoverOutcome::NoHeir(live) => live,
        };
        let is_ours = |live: &Object| {
            eligibility(live, &owner.id.namespace, &owner.id.name) == Eligibility::Delete
        };
        let applier = target.applier(Strategy::KUSTOMIZE);
        let deletion = applier.delete(&resource, &live, "Background", &is_ours);
        let deleted = deletion.await?;
        let changes = &context.events.changes;
        changes.change(&live.id(), Action::Deleted, None, None);
        match deleted {
            Deleted::Gone => Ok(PruneResult::Deleted),
            Deleted::Pending => Ok(PruneResult::Terminating),
        }
    }
}

/// Records the result of an entry; returns whether the entry leaves the inventory.
fn record(pruned: &mut Pruned, entry: &Entry, result: Result<PruneResult, PortError>) -> bool {
    let id = entry.id.clone();
    match result {
        Ok(PruneResult::Gone) => return true,
        Ok(PruneResult::Deleted) => {
            pruned.changes.push(id, Action::Deleted);
            return true;
        }
        Ok(PruneResult::NotOurs) => {
            pruned.changes.push(id, Action::Skipped);
            return true;
        }
        Ok(PruneResult::Others(item)) => {
            pruned.changes.push(id, Action::Skipped);
            pruned.others.push(item);
            return true;
        }
        Ok(PruneResult::Terminating) => {
            pruned.is_terminating = true;
            pruned.changes.push(id, Action::Deleted);
        }
        Ok(PruneResult::Held) => {
            pruned.is_held = true;
            pruned.is_terminating = true;
        }
        Ok(PruneResult::Late) => pruned.is_unfinished = true,
        Err(error) => {
            let failure = Failure::port(reason::PRUNE_FAILED, &error);
            pruned.fail(failure.context(format!("{id} delete failed")));
        }
    }
    false
}

/// Checks whether an object deletes other objects, those that it applied, before it is gone.
fn cleans_up(entry: &Entry) -> bool {
    [FluxKind::Kustomization, FluxKind::HelmRelease]
        .iter()
        .any(|kind| entry.id.group == kind.group() && entry.id.kind == kind.as_str())
}

/// Checks whether a Flux object of these namespaces may need an object to clean up: its kubeconfig
/// and the rights of its service account. kustomize-controller 1.9 deletes them together, and the
/// objects that were applied to a remote cluster stay there.
fn is_needed(entry: &Entry, namespaces: &BTreeSet<String>) -> bool {
    let id = &entry.id;
    match (&*id.group, &*id.kind) {
        ("", "Namespace") => namespaces.contains(&id.name),
        ("", "Secret" | "ConfigMap" | "ServiceAccount") => namespaces.contains(&id.namespace),
        ("rbac.authorization.k8s.io", _) => {
            !namespaces.is_empty()
                && (id.namespace.is_empty() || namespaces.contains(&id.namespace))
        }
        _ => false,
    }
}

/// Returns the API resource of an entry of an inventory: the server may no longer serve the entry's
/// version, but still the kind.
async fn resource(cluster: &dyn Cluster, entry: &Entry) -> Result<Option<Resource>, PortError> {
    let id = &entry.id;
    let gvk = Gvk {
        group: id.group.clone(),
        version: entry.version.clone(),
        kind: id.kind.clone(),
    };
    match cluster.resource(&gvk).await? {
        Some(resource) => Ok(Some(resource)),
        None => {
            let served = cluster.versions(&id.group, &id.kind).await?;
            Ok(served.into_iter().next())
        }
    }
}

/// Reads the live object of an entry of an inventory.
///
/// # Errors
/// An error of the cluster: whether the object exists is unknown.
pub async fn find(
    cluster: &dyn Cluster,
    entry: &Entry,
) -> Result<Option<(Resource, Object)>, PortError> {
    let Some(resource) = resource(cluster, entry).await? else {
        return Ok(None);
    };
    let (namespace, name) = (&entry.id.namespace, &entry.id.name);
    let live = cluster.get(&resource, namespace, name).await?;
    Ok(live.map(|live| (resource, live)))
}

/// Checks whether an object that the owner may not read is missing, or does not carry the owner's
/// labels: then the inventory lists it only because it was written ahead of an apply that was
/// refused. The installation's own identity reads the object and reveals only this result, which is
/// the same for a missing object and for an object of another owner.
async fn is_left_to_others(context: &Context<'_>, owner: &Kustomization, entry: &Entry) -> bool {
    let Ok(target) = target::open(context.ports, &context.hub, owner, None).await else {
        return false;
    };
    match find(target.cluster.as_ref(), entry).await {
        Ok(None) => true,
        Ok(Some((_, live))) => {
            eligibility(&live, &owner.id.namespace, &owner.id.name) == Eligibility::NotOurs
        }
        Err(_) => false,
    }
}

/// Checks whether the labels name a Kustomization.
fn is_owned(live: &Object) -> bool {
    live.label(OWNER_NAME).is_some() && live.label(OWNER_NAMESPACE).is_some()
}
