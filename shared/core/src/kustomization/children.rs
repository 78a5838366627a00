//! The objects that a prune deletes indirectly: a deleted Kustomization or HelmRelease deletes the
//! objects that it applied.

use super::peers::Peers;
use super::prune::find;
use driftless_flux::{FluxKind, HelmRelease, Kustomization, ObjectRef, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::PortError;
use driftless_kernel::target::Target;
use driftless_manifest::{Gvk, Object, ObjectId};
use driftless_plans::inventory::{
    Eligibility, Entry, IndirectDeletions, Inventory, Limits, eligibility,
};
use std::collections::{BTreeSet, VecDeque};

/// A Flux object that would be deleted.
struct Child {
    entry: Entry,
    kind: FluxKind,
    /// The Kustomization that would delete it; `None` if a release would, which sets no owner
    /// labels.
    owner: Option<ObjectRef>,
    /// The index in [`IndirectDeletions::children`] of the child through which the prune reaches
    /// it.
    top: usize,
}

/// The objects that would be deleted with a child.
#[derive(Default)]
struct ChildObjects {
    objects: Vec<Entry>,
    /// True if they are on the child's own cluster.
    is_here: bool,
    /// The child, if its objects can be handed over to another one of its kind: a release
    /// uninstalls all its objects.
    holder: Option<Kustomization>,
}

/// Returns the first Kustomization or HelmRelease of an inventory.
pub fn first(inventory: &Inventory) -> Option<ObjectId> {
    let mut children = inventory
        .iter()
        .filter_map(|entry| Child::of(entry, None, 0));
    children.next().map(|child| child.entry.id)
}

/// Returns the objects that would be deleted with the Kustomizations and HelmReleases of `going`,
/// except those of `seen` and those that other Kustomizations keep. It stops as soon as there are
/// more than the guard's limit, because the prune is then held in any case.
///
/// # Errors
/// An error of the cluster: an object that cannot be read may have children.
pub async fn below(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    peers: &Peers,
    seen: &Inventory,
    going: &Inventory,
) -> Result<IndirectDeletions, Failure> {
    let mut below = IndirectDeletions::default();
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
        let ChildObjects {
            objects,
            is_here,
            holder,
        } = child.deleted_with(context, target).await?;
        let id = ObjectRef::new(
            child.kind,
            &*child.entry.id.namespace,
            &*child.entry.id.name,
        );
        let owner = (child.kind == FluxKind::Kustomization).then_some(&id);
        for entry in objects {
            // An object with several entries is deleted once, and an object that the prune leaves
            // is handed over.
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

    /// Returns the objects that would be deleted with it; none if it stays, or leaves its objects.
    async fn deleted_with(
        &self,
        context: &Context<'_>,
        target: &Target,
    ) -> Result<ChildObjects, Failure> {
        let unread = |failure: Failure| {
            failure.context(format!(
                "nothing was pruned, because the objects that would be deleted with {} cannot be read",
                self.entry.id
            ))
        };
        let refused = |error: PortError| unread(Failure::port(reason::PRUNE_FAILED, &error));
        let found = find(target.cluster.as_ref(), &self.entry).await;
        let nothing = ChildObjects::default();
        let Some((_, live)) = found
            .map_err(refused)?
            .filter(|(_, live)| self.would_be_deleted(live))
        else {
            return Ok(nothing);
        };
        let (inventory, is_here, holder) = match self.kind {
            FluxKind::Kustomization => match Kustomization::from_object(live) {
                Ok(one) if one.deletes_on_deletion() && !one.spec.suspend => {
                    let inventory = Inventory::from_status(one.status.inventory.as_ref());
                    (inventory, one.spec.kube_config.is_none(), Some(one))
                }
                // A child whose spec is not valid does nothing, so it deletes nothing.
                _ => return Ok(nothing),
            },
            _ => match HelmRelease::from_object(live) {
                Ok(one) if !one.spec.suspend => {
                    let is_here = one.spec.kube_config.is_none();
                    let inventory = match &one.status.inventory {
                        Some(listed) => Inventory::from_status(Some(listed)),
                        // Only releases of a hub can be read: those of another cluster are
                        // uninstalled by another installation.
                        None if !target.remote => {
                            let released =
                                driftless_helmrelease::objects_to_uninstall(context, &one).await;
                            Inventory::of(&released.map_err(unread)?)
                        }
                        None => Inventory::default(),
                    };
                    (inventory, is_here, None)
                }
                _ => return Ok(nothing),
            },
        };
        Ok(ChildObjects {
            objects: inventory.iter().collect(),
            is_here,
            holder,
        })
    }

    /// Checks whether the live object would be deleted.
    fn would_be_deleted(&self, live: &Object) -> bool {
        self.owner.as_ref().is_none_or(|owner| {
            eligibility(live, &owner.namespace, &owner.name) == Eligibility::Delete
        })
    }
}
