//! Who takes an object over when its Kustomization prunes it.
//!
//! What another living Kustomization of the same cluster lists is handed over and not deleted. Listing alone gives nothing: an
//! inventory is written before the apply, also for what the apply is then refused. So the heir takes the object over itself, as
//! the user that it acts as: whoever may not change an object does not inherit it. Whatever else goes wrong is doubt, and doubt
//! deletes nothing.
//!
//! An heir may drop the object from its inventory at the same moment, because it no longer renders it and sees the labels of the
//! Kustomization that prunes. So both look again after their own write: who handed over reads whether the heir still lists the
//! object, and who dropped an object of somebody else's reads whether it is theirs now (`let_go` in `mod.rs`). One of the two reads is
//! later than both writes, and an object with owner labels is listed in the end.

use super::live::{OWNER_NAME, OWNER_NAMESPACE};
use crate::failure::TargetError;
use crate::failure::{Class, Failure};
use crate::flux::{FluxKind, KUSTOMIZE_CONTROLLER, KubeConfigRef, Kustomization, reason};
use crate::inventory::Inventory;
use crate::kernel::Context;
use crate::ports::{Cluster, ErrorKind, Patch, PortError, Resource, Result};
use crate::target::{self, Target, TargetsCluster};
use driftless_manifest::{Object, ObjectId};
use serde::Deserialize;
use serde_json::json;

/// The other living Kustomizations of a hub, listed once for all that a prune deletes.
pub struct Heirs(Vec<Heir>);

/// A Kustomization that may list what another one prunes.
struct Heir {
    namespace: String,
    name: String,
    inventory: Inventory,
    acting: std::result::Result<Acting, String>,
}

/// Where a Kustomization works, and as whom: all that must be understood of one to hand something over to it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Acting {
    kube_config: Option<KubeConfigRef>,
    service_account_name: Option<String>,
}

/// What became of an object that others may list.
pub enum Handed {
    /// One of them has it now; the object as it is then.
    Over(Object),
    /// None of them has it; the object as it is.
    ToNobody(Object),
}

/// Lists the other Kustomizations of a hub.
///
/// # Errors
/// The hub's; a list without the Kustomization that prunes is not one of all.
pub async fn others(context: &Context<'_>, owner: &Kustomization) -> Result<Vec<Object>> {
    let resource = context.hub.resource(FluxKind::Kustomization).await?;
    let all = context.hub.cluster.list(&resource, "", "").await?;
    let (own, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|one| is_named(one, &owner.id.namespace, &owner.id.name));
    if own.is_empty() {
        let what = format!("the hub's list of Kustomizations lacks {}", owner.id);
        return Err(PortError::new(ErrorKind::Unreadable, what));
    }
    Ok(others)
}

/// Says that they cannot be listed.
pub fn unread(error: &PortError) -> Failure {
    let what = "nothing was pruned, because it cannot be read which other Kustomizations have the objects, too";
    Failure::port(reason::PRUNE_FAILED, error).context(what)
}

impl Heirs {
    /// Those of the others that live.
    pub fn of(others: &[Object]) -> Self {
        let living = others
            .iter()
            .filter(|other| other.meta("deletionTimestamp").is_empty());
        Self(living.map(Heir::of).collect())
    }

    /// Hands an object of the owner's over to the first that lists it and may change it.
    ///
    /// # Errors
    /// It cannot be told whether one of them has it.
    pub async fn hand_over(
        &self,
        context: &Context<'_>,
        target: &Target,
        owner: &Kustomization,
        resource: &Resource,
        live: Object,
    ) -> Result<Handed> {
        let id = live.id();
        let mut live = live;
        for heir in self.0.iter().filter(|heir| heir.inventory.contains(&id)) {
            let acting = heir.acting.as_ref().map_err(|what| heir.unknown(what))?;
            if !acting.is_beside(&heir.namespace, owner) {
                continue;
            }
            let Some(theirs) = heir.connect(context).await? else {
                continue;
            };
            let taken = label(theirs.cluster.as_ref(), resource, &live, heir.key()).await;
            match taken {
                Ok(taken) => {
                    let kept = heir.still_lists(context, &id).await;
                    if matches!(kept, Ok(true)) {
                        return Ok(Handed::Over(taken));
                    }
                    // Nobody would ever delete it: back to the owner, who goes on.
                    let own = (&*owner.id.namespace, &*owner.id.name);
                    live = label(target.cluster.as_ref(), resource, &taken, own).await?;
                    kept.map_err(|error| heir.unknown(&error.message))?;
                }
                // Refused: as this heir, or whoever asks? The owner's labels are what they are, so this changes nothing.
                Err(error) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid) => {
                    let own = (&*owner.id.namespace, &*owner.id.name);
                    live = label(target.cluster.as_ref(), resource, &live, own).await?;
                    tracing::info!(object = %id, heir = %heir.place(), "not handed over: {error}");
                }
                Err(error) => return Err(heir.unknown(&error.message)),
            }
        }
        Ok(Handed::ToNobody(live))
    }
}

impl Heir {
    fn of(object: &Object) -> Self {
        Self {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            inventory: Inventory::from_status(object.pointer("/status/inventory")),
            acting: Acting::of(object),
        }
    }

    fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    fn place(&self) -> String {
        format!("Kustomization/{}/{}", self.namespace, self.name)
    }

    /// The cluster, as the user that this one acts as; none when there is no such user, so that it applies nothing.
    async fn connect(&self, context: &Context<'_>) -> Result<Option<Target>> {
        match target::connect(context, self).await {
            Ok(target) => Ok(Some(target)),
            Err(TargetError::Failed(failure)) if failure.class == Class::Terminal => Ok(None),
            Err(none) => Err(self.unknown(&Failure::from(none).message)),
        }
    }

    /// Whether it lives and lists an object now: not when the heirs were listed.
    async fn still_lists(&self, context: &Context<'_>, id: &ObjectId) -> Result<bool> {
        let resource = context.hub.resource(FluxKind::Kustomization).await?;
        let cluster = &context.hub.cluster;
        let live = cluster.get(&resource, &self.namespace, &self.name).await?;
        let living = live.filter(|live| live.meta("deletionTimestamp").is_empty());
        Ok(living.is_some_and(|live| Self::of(&live).inventory.contains(id)))
    }

    fn unknown(&self, why: &str) -> PortError {
        let what = format!(
            "{} lists it, too, and whether it takes it over is not known: {why}",
            self.place()
        );
        PortError::new(ErrorKind::Unavailable, what)
    }
}

impl TargetsCluster for Heir {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        self.acting.as_ref().ok()?.kube_config.as_ref()
    }

    fn service_account(&self) -> Option<&str> {
        self.acting.as_ref().ok()?.service_account_name.as_deref()
    }
}

impl Acting {
    /// Reads it from a live Kustomization.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn of(object: &Object) -> std::result::Result<Self, String> {
        let spec = object.pointer("/spec").cloned().unwrap_or_default();
        serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))
    }

    /// Whether a Kustomization of this namespace works on the same cluster as another one.
    pub fn is_beside(&self, namespace: &str, other: &Kustomization) -> bool {
        let theirs = (other.spec.kube_config.as_ref(), &*other.id.namespace);
        is_same_cluster((self.kube_config.as_ref(), namespace), theirs)
    }
}

/// Whether two references to kubeconfigs, each of its namespace, lead to the same cluster: without one it is the hub.
pub fn is_same_cluster(
    one: (Option<&KubeConfigRef>, &str),
    other: (Option<&KubeConfigRef>, &str),
) -> bool {
    one.0 == other.0 && (one.0.is_none() || one.1 == other.1)
}

fn is_named(object: &Object, namespace: &str, name: &str) -> bool {
    (object.namespace(), object.name()) == (namespace, name)
}

/// Sets the owner labels of the very object that was looked at.
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
    let (namespace, name) = (live.namespace(), live.name());
    cluster
        .patch(
            resource,
            namespace,
            name,
            None,
            &patch,
            KUSTOMIZE_CONTROLLER,
        )
        .await
}
