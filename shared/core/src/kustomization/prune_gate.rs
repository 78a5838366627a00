//! Decides when a prune may begin: it waits for children that may take over what would be deleted,
//! and counts the objects that no other Kustomization takes over.
//!
//! A Kustomization that is renamed, or whose files move to another one, loses no object: the old
//! one is deleted when the new one has the objects in its inventory and is ready, and the old one's
//! own prune hands them over (`heirs.rs`).

use super::children;
use super::heirs::{self, Heirs};
use super::memory::{Memory, PruneWait};
use super::peers::{Peers, PendingChild};
use driftless_flux::{ArtifactStatus, Kustomization, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::target::Target;
use driftless_manifest::Object;
use driftless_plans::inventory::{self, IndirectDeletions, Inventory};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Time limit for a prune to wait for children that are unrelated to the objects that would be
/// deleted.
const UNRELATED_WAIT: Duration = Duration::from_secs(60);
/// The same limit when further revisions come meanwhile that delete the same objects: frequent
/// pushes do not postpone a prune for longer.
const LONGEST_UNRELATED_WAIT: Duration = Duration::from_secs(120);
/// The first pause between two reads of the children.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause between two reads of the children.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of objects, and of children, that a message names.
const MAX_NAMED: usize = 3;

/// The prune of a Kustomization, with all that decides whether it may begin.
pub struct Gate<'a> {
    /// The context of the step.
    pub context: &'a Context<'a>,
    /// The cluster on which it prunes.
    pub target: &'a Target,
    /// The Kustomization that prunes.
    pub owner: &'a Kustomization,
    /// The artifact that is applied.
    pub artifact: &'a ArtifactStatus,
    /// The inventory before the apply.
    pub old: &'a Inventory,
    /// The rendered objects.
    pub new: &'a Inventory,
    /// The objects that are in the inventory and not rendered.
    pub stale: Inventory,
}

/// The next action when everything is applied.
pub enum PruneDecision {
    /// There is nothing to prune.
    Nothing,
    /// The prune waits for children.
    Later(WaitForChildren),
    /// The prune may begin, with the Kustomizations that may take objects over.
    Prune(Heirs),
}

/// A prune that waits for children.
pub struct WaitForChildren {
    /// Delay until the children are read again.
    pub after: Duration,
    /// The names of the children, for the message.
    pub waits_for: String,
}

impl Gate<'_> {
    /// Refuses a revision before any of it is applied, if its prune is held and no child can change
    /// that.
    ///
    /// # Errors
    /// `PruneHeld`, or an error of the cluster.
    pub async fn before_apply(&self, rendered: &[Object]) -> Result<(), Failure> {
        if !self.prunes() || self.is_approved() {
            return Ok(());
        }
        if children::first(&self.stale).is_none() {
            // Other Kustomizations can only lower the number of deleted objects.
            let all = IndirectDeletions::default();
            if inventory::guard(self.old, self.new, &all).is_ok() {
                return Ok(());
            }
        }
        let peers = self.peers(self.others().await?);
        if !self.target.remote && peers.may_gain_heirs(rendered, &self.artifact.revision) {
            return Ok(());
        }
        self.count(&peers, &[]).await
    }

    /// Decides what follows once everything is applied.
    ///
    /// # Errors
    /// `PruneHeld`, or an error of the cluster.
    pub async fn before_prune(&self, memory: &mut Memory) -> Result<PruneDecision, Failure> {
        if !self.prunes() {
            memory.prune_wait = None;
            return Ok(PruneDecision::Nothing);
        }
        let others = self.others().await?;
        let heirs = Heirs::of(&others);
        let peers = self.peers(others);
        let unsettled = peers.unsettled(&self.artifact.revision, &self.stale);
        if let Some(later) = self.later(&unsettled, memory)? {
            return Ok(PruneDecision::Later(later));
        }
        if !self.is_approved() {
            self.count(&peers, &unsettled).await?;
        }
        memory.prune_wait = None;
        Ok(PruneDecision::Prune(heirs))
    }

    fn prunes(&self) -> bool {
        self.owner.spec.prune && !self.stale.is_empty()
    }

    fn is_approved(&self) -> bool {
        let approved = self.owner.object.annotation(inventory::PRUNE_APPROVED);
        approved == Some(self.artifact.revision.as_str())
    }

    async fn others(&self) -> Result<Vec<Object>, Failure> {
        let others = heirs::others(self.context, self.owner).await;
        others.map_err(|error| heirs::unread(&error))
    }

    fn peers(&self, others: Vec<Object>) -> Peers {
        Peers::of(self.owner, others, self.new, &self.stale)
    }

    /// Returns the wait for children that are not settled, if one is due: for a likely heir up to
    /// the owner's timeout, for others shortly.
    fn later(
        &self,
        unsettled: &[PendingChild],
        memory: &mut Memory,
    ) -> Result<Option<WaitForChildren>, Failure> {
        let now = self.context.ports.clock.now();
        let timeout = self.owner.timeout();
        let timeout = timeout.map_err(|message| Failure::terminal(reason::FAILED, message))?;
        let wait = self.continue_wait(memory.prune_wait.take(), now);
        let elapsed = |since: f64| now.saturating_sub(Duration::from_secs_f64(since.max(0.0)));
        let (waited, total) = (elapsed(wait.since), elapsed(wait.begun));
        memory.prune_wait = Some(wait);
        let is_awaited = |one: &&PendingChild| {
            let is_in_time = match one.is_likely_heir {
                true => waited < timeout,
                false => waited < UNRELATED_WAIT.min(timeout) && total < LONGEST_UNRELATED_WAIT,
            };
            !one.is_stalled && is_in_time
        };
        let awaited: Vec<&PendingChild> = unsettled.iter().filter(is_awaited).collect();
        if awaited.is_empty() {
            return Ok(None);
        }
        let names = awaited.iter().take(MAX_NAMED).map(|one| one.id.to_string());
        Ok(Some(WaitForChildren {
            after: (waited / 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
            waits_for: names.collect::<Vec<_>>().join(", "),
        }))
    }

    /// Returns the wait for the artifact's revision: `known`, if it is for that revision.
    fn continue_wait(&self, known: Option<PruneWait>, now: Duration) -> PruneWait {
        let revision = &self.artifact.revision;
        let known = match known {
            Some(wait) if wait.revision == *revision => return wait,
            other => other,
        };
        let ids: String = self
            .stale
            .iter()
            .map(|entry| format!("{}\n", entry.id))
            .collect();
        let stale = hex::encode(Sha256::digest(ids));
        let same = known.filter(|wait| wait.stale == stale);
        PruneWait {
            revision: revision.clone(),
            since: now.as_secs_f64(),
            begun: same.map_or(now.as_secs_f64(), |wait| wait.begun),
            stale,
        }
    }

    /// Counts the objects that would be deleted, and fails if the guard holds the prune.
    async fn count(&self, peers: &Peers, unsettled: &[PendingChild]) -> Result<(), Failure> {
        let mut going = self.stale.clone();
        going.retain(|id| !peers.keep(id, self.owner));
        let seen = self.old.union(self.new);
        let below = children::below(self.context, self.target, self.owner, peers, &seen, &going);
        let below = below.await?;
        let left = self.old.minus(&going);
        inventory::guard(self.old, &left, &below).map_err(|blocked| {
            let below = blocked
                .below
                .children
                .iter()
                .flat_map(|(_, objects)| objects.clone());
            let going = going.iter().map(|entry| entry.id).chain(below);
            let mut names: Vec<String> =
                going.map(|id| id.to_string()).take(MAX_NAMED + 1).collect();
            if names.len() > MAX_NAMED {
                names.truncate(MAX_NAMED);
                names.push("…".to_owned());
            }
            let mut notes = format!(": {}", names.join(", "));
            let likely = unsettled.iter().filter(|one| one.is_likely_heir);
            for one in likely.take(MAX_NAMED) {
                notes += &format!(
                    "; {} would take over the objects that it lists, but it is not ready: {}",
                    one.id, one.state
                );
            }
            let message = blocked.message(&notes, &self.artifact.revision);
            Failure::terminal(reason::PRUNE_HELD, message)
        })
    }
}
