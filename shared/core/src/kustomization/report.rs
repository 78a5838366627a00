//! What a step learned, as kustomize-controller writes it into the status of the object and into events.

use super::apply::Report;
use super::memory::Memory;
use super::wait::HEALTH_FAILED;
use super::{HEALTH_AGAIN, Left, PRUNE_AGAIN, RunEnd};
use crate::apply::plan::{Action, ChangeSet};
use crate::driver;
use crate::failure::{Class, Failure};
use crate::flux::{
    ArtifactStatus, ConditionStatus, FluxKind, HEALTHY, KUSTOMIZE_CONTROLLER, Kustomization,
    KustomizationStatus, ObjectRef, READY, RECONCILING, STALLED, duration_text, reason, rfc3339,
    shorten,
};
use crate::inventory::Inventory;
use crate::kernel::{Context, Outcome, status};
use driftless_manifest::Gvk;
use serde_json::{Value, json};
use std::time::Duration;

/// How many outcomes `status.history` keeps.
const HISTORY: usize = 5;

/// How far a step came: what Flux says of the work that is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The source or a dependency is waited for: nothing has begun.
    Waiting,
    /// From the artifact to the manifests.
    Building,
    /// What differs is applied.
    Applying,
    /// The health is looked at.
    Checking,
}

/// A step on its way.
pub struct Progress<'a> {
    /// The object as it was read, or as the write-ahead left it.
    pub owner: Kustomization,
    /// The status to write.
    pub new: KustomizationStatus,
    /// The record to keep.
    pub memory: &'a mut Memory,
    /// How far it came.
    pub stage: Stage,
    /// What the apply did.
    pub changes: ChangeSet,
    /// What the prune did.
    pruned: ChangeSet,
    /// Digest of what was rendered.
    pub digest: Option<String>,
    /// No file of the build was touched.
    pub untouched: bool,
    /// The failure was one of health.
    pub unhealthy: bool,
    /// The failure was one of the way to the cluster.
    pub unconnected: bool,
    /// Flux objects of the hub that the apply changed or the prune deleted.
    woken: Vec<ObjectRef>,
    start: Duration,
}

impl<'a> Progress<'a> {
    /// At the start of a step.
    pub fn new(context: &Context<'_>, owner: Kustomization, memory: &'a mut Memory) -> Self {
        let new = owner.status.clone();
        Self {
            owner,
            new,
            memory,
            stage: Stage::Waiting,
            changes: ChangeSet::default(),
            pruned: ChangeSet::default(),
            digest: None,
            untouched: false,
            unhealthy: false,
            unconnected: false,
            woken: Vec::new(),
            start: context.ports.clock.now(),
        }
    }

    /// The revision that is tried.
    pub fn revision(&mut self, artifact: &ArtifactStatus) {
        self.new
            .last_attempted_revision
            .clone_from(&artifact.revision);
    }

    /// Since when the health of this revision is looked at: since its apply, and since the first one while its prune waits.
    pub fn health_since(&self, context: &Context<'_>, artifact: &ArtifactStatus) -> Duration {
        let wait = self.memory.wait.as_ref();
        let wait = wait.filter(|wait| wait.revision == artifact.revision);
        match wait.filter(|_| self.memory.prune_wait.is_some()) {
            Some(wait) => Duration::from_secs_f64(wait.since),
            None => context.ports.clock.now(),
        }
    }

    /// Digest of what was rendered last.
    pub fn last_digest(&self) -> Option<String> {
        let last = self.new.history.first()?;
        last["digest"].as_str().map(str::to_owned)
    }

    /// What is in the inventory now.
    pub fn current_inventory(&self) -> Inventory {
        Inventory::from_status(self.new.inventory.as_ref())
    }

    /// The inventory as it will be written.
    pub fn inventory(&mut self, inventory: Inventory) {
        self.new.inventory = Some(inventory.to_status());
    }

    /// Notes what an apply did.
    pub fn changes(&mut self, report: &Report, remote: bool) {
        let is_changed = |action| matches!(action, Action::Created | Action::Configured);
        self.wake(&report.changes, remote, is_changed);
        if report.failure.is_some() {
            self.memory.applied.extend(report.applied.clone());
        } else {
            self.memory.applied.clone_from(&report.applied);
        }
        self.changes.extend(report.changes.clone());
    }

    /// Notes what a prune did.
    pub fn pruned(&mut self, changes: ChangeSet, remote: bool) {
        self.wake(&changes, remote, |action| action == Action::Deleted);
        self.pruned.extend(changes);
    }

    /// Flux objects of the hub with such a change have their own steps next.
    fn wake(&mut self, changes: &ChangeSet, remote: bool, concerns: impl Fn(Action) -> bool) {
        let changed = changes
            .iter()
            .filter(|entry| !remote && concerns(entry.action));
        let woken = changed.filter_map(|entry| {
            let gvk = Gvk {
                group: entry.id.group.clone(),
                version: String::new(),
                kind: entry.id.kind.clone(),
            };
            let kind = FluxKind::of(&gvk)?;
            Some(ObjectRef::new(kind, &*entry.id.namespace, &*entry.id.name))
        });
        self.woken.extend(woken);
    }

    /// Writes the larger inventory before anything new is applied; nothing when nothing is new.
    ///
    /// # Errors
    /// The cluster's; nothing was applied then.
    pub async fn write_ahead(
        &mut self,
        context: &Context<'_>,
        old: &Inventory,
        union: &Inventory,
    ) -> Result<(), Failure> {
        if union.minus(old).is_empty() {
            return Ok(());
        }
        self.inventory(union.clone());
        let message = format!(
            "Reconciliation in progress: applying {}",
            self.new.last_attempted_revision
        );
        let now = rfc3339(context.ports.clock.now());
        let generation = self.owner.generation();
        let mut ahead = self.new.clone();
        ahead
            .last_attempted_revision
            .clone_from(&self.owner.status.last_attempted_revision);
        ahead.conditions.set(
            RECONCILING,
            ConditionStatus::True,
            reason::PROGRESSING,
            &message,
            generation,
            &now,
        );
        ahead.conditions.set(
            READY,
            ConditionStatus::Unknown,
            reason::PROGRESSING,
            &message,
            generation,
            &now,
        );
        let object = self.write(context, &ahead).await?;
        self.owner = Kustomization::from_object(object)
            .map_err(|what| Failure::retry(reason::FAILED, what))?;
        Ok(())
    }

    /// Writes an inventory and nothing else of the status.
    ///
    /// # Errors
    /// The cluster's; the inventory may be written all the same.
    pub async fn write_inventory(
        &mut self,
        context: &Context<'_>,
        inventory: &Inventory,
    ) -> Result<(), Failure> {
        let mut status = self.owner.status.clone();
        status.inventory = Some(inventory.to_status());
        let object = self.write(context, &status).await?;
        self.owner = Kustomization::from_object(object)
            .map_err(|what| Failure::retry(reason::FAILED, what))?;
        Ok(())
    }

    /// An event for what was applied, and one for what was pruned, objects that were left alone too.
    fn tell_changes(&self, context: &Context<'_>) {
        let revision = &self.new.last_attempted_revision;
        for changes in [&self.changes.changed(), &self.pruned] {
            if !changes.is_empty() {
                let what = changes.to_string();
                let why = reason::PROGRESSING;
                context.events.record(false, why, &what, revision);
            }
        }
    }

    fn report(self, end: driver::StepEnd) -> driver::Report<Kustomization> {
        driver::Report {
            object: self.owner,
            status: self.new,
            changed: self.woken,
            end,
        }
    }

    /// The end without a failure.
    pub fn succeed(mut self, context: &Context<'_>, end: RunEnd) -> driver::Report<Kustomization> {
        let revision = self.new.last_attempted_revision.clone();
        let (generation, now) = (self.owner.generation(), rfc3339(context.ports.clock.now()));
        self.tell_changes(context);
        let mut outcome = Outcome::default();
        match end {
            RunEnd::Waiting(open) => {
                let message = self.doing("Running health checks");
                self.new.conditions.remove(STALLED);
                self.new.conditions.set(
                    RECONCILING,
                    ConditionStatus::True,
                    reason::PROGRESSING,
                    &message,
                    generation,
                    &now,
                );
                self.new.conditions.set(
                    READY,
                    ConditionStatus::Unknown,
                    reason::PROGRESSING,
                    &message,
                    generation,
                    &now,
                );
                self.new.conditions.set(
                    HEALTHY,
                    ConditionStatus::Unknown,
                    reason::PROGRESSING,
                    &message,
                    generation,
                    &now,
                );
                outcome.requeue_after = Some(HEALTH_AGAIN);
                outcome.summary = format!("waiting for: {open}");
            }
            RunEnd::Ready { checked, left } => {
                let message = format!("Applied revision: {revision}");
                self.new.observed_generation = Some(generation);
                self.new.last_applied_revision.clone_from(&revision);
                for kind in [RECONCILING, STALLED] {
                    self.new.conditions.remove(kind);
                }
                self.new.conditions.set(
                    READY,
                    ConditionStatus::True,
                    reason::SUCCEEDED,
                    &message,
                    generation,
                    &now,
                );
                if let Some(passed) = self.healthy(context, checked, generation, &now) {
                    let why = reason::PROGRESSING;
                    context.events.record(false, why, &passed, &revision);
                }
                self.remember(context, reason::SUCCEEDED);
                outcome.notifies = true;
                outcome.requeue_after = match &left {
                    Left::Nothing => None,
                    Left::Terminating => Some(PRUNE_AGAIN),
                    Left::Waits(later) => Some(later.after),
                };
                let done = if self.untouched {
                    "untouched by this revision".to_owned()
                } else {
                    self.changes.extend(std::mem::take(&mut self.pruned));
                    self.changes.summary()
                };
                outcome.summary = match left {
                    Left::Waits(later) => {
                        format!("{message}: {done}; the prune waits for {}", later.waits_for)
                    }
                    _ => format!("{message}: {done}"),
                };
            }
        }
        self.report(driver::StepEnd::Done(outcome))
    }

    /// The end with a failure.
    pub fn fail(
        mut self,
        context: &Context<'_>,
        failure: Failure,
    ) -> driver::Report<Kustomization> {
        let revision = self.new.last_attempted_revision.clone();
        let (generation, now) = (self.owner.generation(), rfc3339(context.ports.clock.now()));
        self.tell_changes(context);
        let (why, message) = (failure.reason, shorten(&failure.message, 20_000));
        self.new.conditions.set(
            READY,
            ConditionStatus::False,
            why,
            &message,
            generation,
            &now,
        );
        if self.unhealthy {
            // What took so long stands in Ready alone, as in Flux.
            let what = message.strip_prefix(HEALTH_FAILED);
            let what = what.and_then(|rest| rest.split_once(": "));
            let what = what.map_or(message.as_str(), |(_, what)| what);
            self.new
                .conditions
                .set(HEALTHY, ConditionStatus::False, why, what, generation, &now);
        }
        if failure.class == Class::Terminal {
            self.new.observed_generation = Some(generation);
            self.new.conditions.remove(RECONCILING);
            self.new.conditions.set(
                STALLED,
                ConditionStatus::True,
                why,
                &message,
                generation,
                &now,
            );
        } else {
            self.new.conditions.remove(STALLED);
            self.keep_going(why, &now);
        }
        if self.stage == Stage::Waiting || why == reason::ARTIFACT_FAILED {
            let before = &self.owner.status.last_attempted_revision;
            self.new.last_attempted_revision.clone_from(before);
        }
        self.remember(context, why);
        let told = self
            .owner
            .status
            .conditions
            .get(READY)
            .map(|ready| (&*ready.reason, &*ready.message));
        // As in Flux, a source that is not there is no event.
        let is_told = self.stage != Stage::Waiting || why != reason::ARTIFACT_FAILED;
        if is_told && told != Some((why, &*message)) {
            // Waiting for another object is not a warning.
            let warning = why != reason::DEPENDENCY_NOT_READY;
            let message = match self.unconnected {
                // In the event alone, as in Flux.
                true => format!("failed to build kube client: {message}"),
                false => message,
            };
            context.events.record(warning, why, &message, &revision);
        }
        let retry = self
            .owner
            .retry_interval()
            .unwrap_or(Duration::from_secs(600));
        self.report(driver::StepEnd::Failed(failure, retry))
    }

    /// What Flux says of a stage.
    fn doing(&self, what: &str) -> String {
        let timeout = duration_text(self.owner.timeout().unwrap_or_default());
        let revision = &self.new.last_attempted_revision;
        format!("{what} for revision {revision} with a timeout of {timeout}")
    }

    /// Says what is tried again. What only waits was not begun: nothing is said of it that was not said before.
    fn keep_going(&mut self, why: &str, now: &str) {
        let message = match self.stage {
            Stage::Waiting => match self.new.conditions.get(RECONCILING) {
                Some(before) => before.message.clone(),
                None => return,
            },
            Stage::Building if why == reason::ARTIFACT_FAILED => self.doing("Fetching manifests"),
            Stage::Building => self.doing("Building manifests"),
            Stage::Applying => self.doing("Detecting drift"),
            Stage::Checking => self.doing("Running health checks"),
        };
        let generation = self.owner.generation();
        let why = reason::PROGRESSING_WITH_RETRY;
        let conditions = &mut self.new.conditions;
        conditions.set(
            RECONCILING,
            ConditionStatus::True,
            why,
            &message,
            generation,
            now,
        );
    }

    /// The `Healthy` condition, only where health is asked for. Its message keeps the time of the check that made it true,
    /// which is returned when it is news.
    fn healthy(
        &mut self,
        context: &Context<'_>,
        checked: bool,
        generation: i64,
        now: &str,
    ) -> Option<String> {
        let asked = self.owner.spec.wait || !self.owner.spec.health_checks.is_empty();
        if !asked {
            self.new.conditions.remove(HEALTHY);
            return None;
        }
        let status = &self.owner.status;
        let is_new = status.last_applied_revision != self.new.last_attempted_revision;
        let is_news = is_new && !self.changes.changed().is_empty();
        (checked && (is_news || !status.conditions.is_true(HEALTHY))).then(|| {
            let took = duration_text(context.ports.clock.now().saturating_sub(self.start));
            let message = format!("Health check passed in {took}");
            self.new.conditions.set(
                HEALTHY,
                ConditionStatus::True,
                reason::META_SUCCEEDED,
                &message,
                generation,
                now,
            );
            message
        })
    }

    /// Puts the outcome at the head of the history. The same outcome of the same render is not counted again: a heartbeat
    /// is no news and costs no write; its revision moves with the source's.
    fn remember(&mut self, context: &Context<'_>, outcome: &str) {
        let Some(digest) = self.digest.clone() else {
            return;
        };
        let now = rfc3339(context.ports.clock.now());
        let known = self
            .new
            .history
            .iter()
            .position(|entry| entry["digest"] == *digest);
        let revision = &self.new.last_attempted_revision;
        if known == Some(0) && self.new.history[0]["lastReconciledStatus"] == *outcome {
            self.new.history[0]["metadata"]["revision"] = revision.clone().into();
            return;
        }
        let old = known
            .map(|at| self.new.history.remove(at))
            .unwrap_or_default();
        let total = old
            .get("totalReconciliations")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let took = duration_text(context.ports.clock.now().saturating_sub(self.start));
        let entry = json!({
            "digest": digest,
            "firstReconciled": old.get("firstReconciled").cloned().unwrap_or_else(|| now.clone().into()),
            "lastReconciled": now, "lastReconciledDuration": took, "lastReconciledStatus": outcome,
            "totalReconciliations": total + 1,
            "metadata": {"revision": revision},
        });
        self.new.history.insert(0, entry);
        self.new.history.truncate(HISTORY);
    }

    async fn write(
        &self,
        context: &Context<'_>,
        new: &KustomizationStatus,
    ) -> Result<driftless_manifest::Object, Failure> {
        let (now, before) = (
            status::to_value(new)?,
            status::to_value(&self.owner.status)?,
        );
        let object = &self.owner.object;
        Ok(status::update(context, object, &now, &before, KUSTOMIZE_CONTROLLER).await?)
    }
}
