//! What a prune takes with it indirectly: a Kustomization or HelmRelease that is deleted deletes what it applied.

use super::peers::Peers;
use super::prune::find;
use crate::failure::Failure;
use crate::flux::{FluxKind, HelmRelease, Kustomization, ObjectRef, reason};
use crate::helmrelease;
use crate::inventory::{Below, Eligibility, Entry, Inventory, Limits, eligibility};
use crate::kernel::Context;
use crate::ports::PortError;
use crate::target::Target;
use driftless_manifest::{Gvk, Object, ObjectId};
use std::collections::{BTreeSet, VecDeque};

/// A Flux object that would be deleted.
struct Child {
    entry: Entry,
    kind: FluxKind,
    /// The Kustomization that would delete it; none when a release does, which has no owner labels.
    owner: Option<ObjectRef>,
    /// The one of them that the prune itself deletes.
    top: usize,
}

/// What goes with a child.
#[derive(Default)]
struct Taken {
    objects: Vec<Entry>,
    /// They are on the cluster that the child is on.
    is_here: bool,
    /// The child, if its objects can be handed over to another one of its kind: a release uninstalls all it has.
    holder: Option<Kustomization>,
}

/// A Kustomization or HelmRelease of an inventory.
pub fn among(inventory: &Inventory) -> Option<ObjectId> {
    let mut children = inventory
        .iter()
        .filter_map(|entry| Child::of(entry, None, 0));
    children.next().map(|child| child.entry.id)
}

/// The objects that go with the Kustomizations and HelmReleases of `going`, but for those of `seen` and what other Kustomizations keep.
/// It reads on until they are so many that the guard holds the prune whatever else there is.
///
/// # Errors
/// The cluster's: what cannot be read is not nothing.
pub async fn below(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    peers: &Peers,
    seen: &Inventory,
    going: &Inventory,
) -> Result<Below, Failure> {
    let mut below = Below::default();
    let mut seen: BTreeSet<ObjectId> = seen.iter().map(|one| one.id).collect();
    let mut open = VecDeque::new();
    for entry in going.iter() {
        let top = below.children.len();
        if let Some(child) = Child::of(entry, Some(&owner.id), top) {
            below.children.push((child.entry.id.clone(), Vec::new()));
            open.push_back(child);
        }
    }
    while let Some(child) = open.pop_front() {
        if going.len() + below.len() > Limits::default().objects {
            below.is_cut = true;
            break;
        }
        let Taken {
            objects,
            is_here,
            holder,
        } = child.takes(context, target).await?;
        let id = ObjectRef::new(
            child.kind,
            &*child.entry.id.namespace,
            &*child.entry.id.name,
        );
        let owner = (child.kind == FluxKind::Kustomization).then_some(&id);
        for entry in objects {
            // What is listed twice goes once, and what the prune leaves is handed over.
            if is_here && !seen.insert(entry.id.clone()) {
                continue;
            }
            if holder
                .as_ref()
                .is_some_and(|holder| peers.keep(&entry.id, holder))
            {
                continue;
            }
            if let Some((_, objects)) = below.children.get_mut(child.top) {
                objects.push(entry.id.clone());
            }
            if is_here {
                open.extend(Child::of(entry, owner, child.top));
            }
        }
    }
    Ok(below)
}

impl Child {
    fn of(entry: Entry, owner: Option<&ObjectRef>, top: usize) -> Option<Self> {
        let gvk = Gvk {
            group: entry.id.group.clone(),
            version: entry.version.clone(),
            kind: entry.id.kind.clone(),
        };
        let kind = FluxKind::of(&gvk)?;
        matches!(kind, FluxKind::Kustomization | FluxKind::HelmRelease).then(|| Self {
            entry,
            kind,
            owner: owner.cloned(),
            top,
        })
    }

    /// What goes with it; nothing when it stays, or leaves its objects.
    async fn takes(&self, context: &Context<'_>, target: &Target) -> Result<Taken, Failure> {
        let unread = |failure: Failure| {
            failure.context(format!(
                "nothing was pruned, because it cannot be read what would go with {}",
                self.entry.id
            ))
        };
        let refused = |error: PortError| unread(Failure::port(reason::PRUNE_FAILED, &error));
        let found = find(target.cluster.as_ref(), &self.entry).await;
        let nothing = Taken::default();
        let Some((_, live)) = found.map_err(refused)?.filter(|(_, live)| self.goes(live)) else {
            return Ok(nothing);
        };
        let (inventory, is_here, holder) = match self.kind {
            FluxKind::Kustomization => match Kustomization::from_object(live) {
                Ok(one) if one.deletes_on_deletion() && !one.spec.suspend => {
                    let inventory = Inventory::from_status(one.status.inventory.as_ref());
                    (inventory, one.spec.kube_config.is_none(), Some(one))
                }
                // One that cannot be read does nothing, not even that.
                _ => return Ok(nothing),
            },
            _ => match HelmRelease::from_object(live) {
                Ok(one) if !one.spec.suspend => {
                    let is_here = one.spec.kube_config.is_none();
                    let inventory = match &one.status.inventory {
                        Some(listed) => Inventory::from_status(Some(listed)),
                        // Releases of a hub alone can be asked for: those of another cluster are not ours to uninstall.
                        None if !target.remote => {
                            let released = helmrelease::objects_to_uninstall(context, &one).await;
                            Inventory::of(&released.map_err(unread)?)
                        }
                        None => Inventory::default(),
                    };
                    (inventory, is_here, None)
                }
                _ => return Ok(nothing),
            },
        };
        Ok(Taken {
            objects: inventory.iter().collect(),
            is_here,
            holder,
        })
    }

    /// Whether the live object would be deleted.
    fn goes(&self, live: &Object) -> bool {
        let judge = |owner: &ObjectRef| eligibility(live, &owner.namespace, &owner.name);
        let judged = self.owner.as_ref().map(judge);
        judged.is_none_or(|judged| judged == Eligibility::Delete)
    }
}
