//! Decides which Kustomization takes an object over when its owner prunes it.
//!
//! An object that another living Kustomization of the same cluster lists is handed over and not
//! deleted. An entry alone is not enough: an inventory is written before the apply, also for
//! objects whose apply is then refused. So the heir takes the object over itself, as the user that
//! it acts as: an heir that may not change an object does not inherit it. After any other error it
//! is unknown whether the heir has the object, and then nothing is deleted.
//!
//! An heir may drop the object from its inventory at the same moment, because it no longer renders
//! it and sees the labels of the Kustomization that prunes. So both read again after their own
//! write: the one that handed over checks whether the heir still lists the object, and the one that
//! dropped an object of another owner checks whether the object is its own now (`release` in
//! `mod.rs`). One of the two reads is later than both writes, so an object with owner labels is
//! listed in the end.

use super::applying_user::ApplyingUser;
use super::live_objects::{OWNER_NAME, OWNER_NAMESPACE};
use driftless_flux::{FluxKind, Invalid, KubeConfigRef, Kustomization, reason};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::context::Context;
use driftless_kernel::failure::TargetError;
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::ports::{
    Cluster, ErrorKind, ListRequest, Patch, PortError, Resource, Result,
};
use driftless_kernel::target::{self, Target, TargetsCluster};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::inventory::Inventory;
use serde_json::json;

/// The other living Kustomizations of a hub, listed once per prune.
pub struct Heirs(Vec<Heir>);

/// A Kustomization that may list an object that another one prunes.
struct Heir {
    namespace: String,
    name: String,
    inventory: Inventory,
    user: std::result::Result<ApplyingUser, Invalid>,
}

/// The outcome of the handover of an object.
pub enum HandoverOutcome {
    /// An heir has the object now; its new state.
    HandedOver(Object),
    /// No heir has it; its current state.
    NoHeir(Object),
}

/// Lists the other Kustomizations of a hub.
///
/// # Errors
/// An error of the hub, or a list without the Kustomization that prunes, which cannot be complete.
pub async fn others(context: &Context<'_>, owner: &Kustomization) -> Result<Vec<Object>> {
    let resource = context.hub.resource(FluxKind::Kustomization).await?;
    let all = context
        .hub
        .cluster
        .list(&ListRequest::all(&resource))
        .await?;
    let (own, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|one| is_named(one, &owner.id.namespace, &owner.id.name));
    if own.is_empty() {
        let message = format!("the hub's list of Kustomizations lacks {}", owner.id);
        return Err(PortError::new(ErrorKind::Unreadable, message));
    }
    Ok(others)
}

/// Converts an error of [`others`] to the failure of the prune.
pub fn unread(error: &PortError) -> Failure {
    let message = "nothing was pruned, because the other Kustomizations, which may list the same objects, cannot be read";
    Failure::port(reason::PRUNE_FAILED, error).context(message)
}

impl Heirs {
    /// Collects those of the other Kustomizations that are not being deleted.
    pub fn of(others: &[Object]) -> Self {
        let living = others
            .iter()
            .filter(|other| other.meta("deletionTimestamp").is_empty());
        Self(living.map(Heir::of).collect())
    }

    /// Checks whether one of them lists an object.
    pub fn list(&self, id: &ObjectId) -> bool {
        self.0.iter().any(|heir| heir.inventory.contains(id))
    }

    /// Hands an object of the owner over to the first heir that lists it and may change it.
    ///
    /// # Errors
    /// It is unknown whether an heir has the object.
    pub async fn hand_over(
        &self,
        context: &Context<'_>,
        target: &Target,
        owner: &Kustomization,
        resource: &Resource,
        live: Object,
    ) -> Result<HandoverOutcome> {
        let id = live.id();
        let mut live = live;
        for heir in self.0.iter().filter(|heir| heir.inventory.contains(&id)) {
            let user = heir.user.as_ref();
            let user =
                user.map_err(|error| heir.unknown(ErrorKind::Unreadable, &error.to_string()))?;
            if !user.is_on_cluster_of(&heir.namespace, owner) {
                continue;
            }
            let Some(theirs) = heir.connect(context).await? else {
                continue;
            };
            let labeled = label(theirs.cluster.as_ref(), resource, &live, heir.key()).await;
            match labeled {
                Ok(labeled) => {
                    let is_listed = heir.still_lists(context, &id).await;
                    if matches!(is_listed, Ok(true)) {
                        return Ok(HandoverOutcome::HandedOver(labeled));
                    }
                    // No Kustomization would ever delete it, so the owner gets it back and
                    // continues.
                    let own = (&*owner.id.namespace, &*owner.id.name);
                    live = label(target.cluster.as_ref(), resource, &labeled, own).await?;
                    is_listed.map_err(|error| heir.unknown(error.kind, &error.message))?;
                }
                // Refused to this heir only, or to any user? The owner writes its own labels, which
                // changes nothing, to find out.
                Err(error) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid) => {
                    let own = (&*owner.id.namespace, &*owner.id.name);
                    live = label(target.cluster.as_ref(), resource, &live, own).await?;
                    tracing::info!(object = %id, heir = %heir.place(), "the heir may not change the object: {error}");
                }
                Err(error) => return Err(heir.unknown(error.kind, &error.message)),
            }
        }
        Ok(HandoverOutcome::NoHeir(live))
    }
}

impl Heir {
    fn of(object: &Object) -> Self {
        Self {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            inventory: Inventory::from_status(object.pointer("/status/inventory")),
            user: ApplyingUser::of(object),
        }
    }

    fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    fn place(&self) -> String {
        format!("Kustomization/{}/{}", self.namespace, self.name)
    }

    /// Connects to the cluster as the heir's user; `None` if the user does not exist, so that the
    /// heir cannot apply.
    async fn connect(&self, context: &Context<'_>) -> Result<Option<Target>> {
        match target::connect(context, self).await {
            Ok(target) => Ok(Some(target)),
            Err(TargetError::Failed(failure)) if failure.class == Class::Terminal => Ok(None),
            Err(error) => {
                let failure = Failure::from(error);
                let kind = match failure.is_unavailable {
                    true => ErrorKind::Unavailable,
                    false => ErrorKind::Unreadable,
                };
                Err(self.unknown(kind, &failure.message))
            }
        }
    }

    /// Reads the heir again and checks whether it lives and lists the object now.
    async fn still_lists(&self, context: &Context<'_>, id: &ObjectId) -> Result<bool> {
        let resource = context.hub.resource(FluxKind::Kustomization).await?;
        let cluster = &context.hub.cluster;
        let live = cluster.get(&resource, &self.namespace, &self.name).await?;
        let living = live.filter(|live| live.meta("deletionTimestamp").is_empty());
        Ok(living.is_some_and(|live| Self::of(&live).inventory.contains(id)))
    }

    fn unknown(&self, kind: ErrorKind, reason: &str) -> PortError {
        let message = format!(
            "{} also lists the object, and it is unknown whether it takes it over: {reason}",
            self.place()
        );
        PortError::new(kind, message)
    }
}

impl TargetsCluster for Heir {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        self.user.as_ref().ok()?.kube_config.as_ref()
    }

    fn service_account(&self) -> Option<&str> {
        self.user.as_ref().ok()?.service_account_name.as_deref()
    }
}

fn is_named(object: &Object, namespace: &str, name: &str) -> bool {
    (object.namespace(), object.name()) == (namespace, name)
}

/// Sets the owner labels of the very object that was read: another `resourceVersion` is refused.
async fn label(
    cluster: &dyn Cluster,
    resource: &Resource,
    live: &Object,
    owner: (&str, &str),
) -> Result<Object> {
    let patch = Patch::Merge(json!({"metadata": {
        "resourceVersion": live.meta("resourceVersion"),
        "labels": {OWNER_NAMESPACE: owner.0, OWNER_NAME: owner.1},
    }}));
    let applier = Applier::new(cluster, Strategy::KUSTOMIZE);
    applier.patch(resource, live, &patch).await
}
