//! The result of a step, as kustomize-controller writes it into the status of the object and into
//! events.

use super::apply::Report;
use super::health::HEALTH_FAILED;
use super::memory::Memory;
use super::{PruneState, RunEnd};
use driftless_flux::{
    ArtifactStatus, COMMIT_STATUS_UPDATE, ConditionStatus, FluxKind, HEALTHY, KUSTOMIZE_CONTROLLER,
    Kustomization, KustomizationStatus, ObjectRef, READY, RECONCILING, STALLED, duration_text,
    meta_key, reason, rfc3339, shorten,
};
use driftless_kernel::context::{Context, FIRST_CHECK, LONGEST_RETRY, Outcome};
use driftless_kernel::driver;
use driftless_kernel::failure::{Class, Failure};
use driftless_manifest::Gvk;
use driftless_plans::apply::plan::{Action, ChangeSet};
use driftless_plans::inventory::Inventory;
use serde_json::{Value, json};
use std::time::Duration;

/// Maximum number of entries in `status.history`.
const MAX_HISTORY: usize = 5;
/// The metadata of an OCI artifact with the revision that it was made of.
const ORIGIN_REVISION: &str = "org.opencontainers.image.revision";

/// The stage that a step reached. It decides Flux's message for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for the source or a dependency; the work has not begun.
    Waiting,
    /// Building the manifests from the artifact.
    Building,
    /// Applying the objects that differ.
    Applying,
    /// Checking the health.
    Checking,
}

/// A running step.
pub struct Progress<'a> {
    /// The object in the version that was last read or written.
    pub owner: Kustomization,
    /// The status to write.
    pub new: KustomizationStatus,
    /// The memory to store.
    pub memory: &'a mut Memory,
    /// The stage that the step reached.
    pub stage: Stage,
    /// The changes of the apply.
    pub changes: ChangeSet,
    /// The changes of the prune.
    pruned: ChangeSet,
    /// Digest of the rendered objects.
    pub digest: Option<String>,
    /// True if the revision changed no file of the build.
    pub is_untouched: bool,
    /// True if the failure was one of a health check.
    pub is_unhealthy: bool,
    /// True if the target could not be connected.
    pub is_unconnected: bool,
    /// Flux objects of the hub that the apply changed or the prune deleted.
    changed_objects: Vec<ObjectRef>,
    /// The revision that an OCI artifact was made of, or an empty string.
    origin_revision: String,
    /// The start of the step, since 1970.
    pub start: Duration,
}

impl<'a> Progress<'a> {
    /// Creates the progress at the start of a step.
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
            is_untouched: false,
            is_unhealthy: false,
            is_unconnected: false,
            changed_objects: Vec::new(),
            origin_revision: String::new(),
            start: context.ports.clock.now(),
        }
    }

    /// Sets the revision that is attempted.
    pub fn revision(&mut self, artifact: &ArtifactStatus) {
        self.new
            .last_attempted_revision
            .clone_from(&artifact.revision);
        let origin = artifact.metadata.get(ORIGIN_REVISION).cloned();
        self.origin_revision = origin.unwrap_or_default();
    }

    /// Records an event about a revision. An empty commit status is left out.
    fn event(
        &self,
        context: &Context<'_>,
        (is_warning, reason): (bool, &str),
        message: &str,
        (revision, commit_status): (&str, &str),
    ) {
        let metadata = [
            (meta_key::REVISION, revision),
            (meta_key::ORIGIN_REVISION, &*self.origin_revision),
            (meta_key::COMMIT_STATUS, commit_status),
        ];
        let events = &context.events;
        events.record_annotated(is_warning, reason, message, &metadata);
    }

    /// Records the event that gives the commit of a new revision its status.
    fn report_finished(&self, context: &Context<'_>) {
        let before = &self.owner.status;
        let revision = &self.new.last_attempted_revision;
        if before.last_applied_revision == *revision && before.conditions.is_true(READY) {
            return;
        }
        let took = context.ports.clock.now().saturating_sub(self.start);
        let next = self.owner.interval().unwrap_or_default();
        let (took, next) = (duration_text(took), duration_text(next));
        let message = format!("Reconciliation finished in {took}, next run in {next}");
        let kind = (false, reason::SUCCEEDED);
        self.event(context, kind, &message, (revision, COMMIT_STATUS_UPDATE));
    }

    /// Returns the time from which the timeout of the health check counts: the apply of this
    /// revision, or its first apply while its prune waits.
    pub fn health_since(&self, context: &Context<'_>, artifact: &ArtifactStatus) -> Duration {
        let wait = self.memory.wait.as_ref();
        let wait = wait.filter(|wait| wait.revision == artifact.revision);
        match wait.filter(|_| self.memory.prune_wait.is_some()) {
            Some(wait) => Duration::from_secs_f64(wait.since),
            None => context.ports.clock.now(),
        }
    }

    /// Returns the digest of the objects that were rendered last.
    pub fn last_digest(&self) -> Option<String> {
        let last = self.new.history.first()?;
        last["digest"].as_str().map(str::to_owned)
    }

    /// Returns the inventory of the new status.
    pub fn current_inventory(&self) -> Inventory {
        Inventory::from_status(self.new.inventory.as_ref())
    }

    /// Sets the inventory of the new status.
    pub fn inventory(&mut self, inventory: Inventory) {
        self.new.inventory = Some(inventory.to_status());
    }

    /// Records the changes of an apply.
    pub fn changes(&mut self, report: &Report, remote: bool) {
        let is_changed = |action| matches!(action, Action::Created | Action::Configured);
        self.queue_changed(&report.changes, remote, is_changed);
        if report.failure.is_some() {
            self.memory.applied.extend(report.applied.clone());
        } else {
            self.memory.applied.clone_from(&report.applied);
        }
        self.changes.extend(report.changes.clone());
    }

    /// Records the changes of a prune.
    pub fn pruned(&mut self, changes: ChangeSet, remote: bool) {
        self.queue_changed(&changes, remote, |action| action == Action::Deleted);
        self.pruned.extend(changes);
    }

    /// Collects the Flux objects of the hub with such an action: their own steps are queued next.
    fn queue_changed(
        &mut self,
        changes: &ChangeSet,
        remote: bool,
        concerns: impl Fn(Action) -> bool,
    ) {
        let changed = changes
            .iter()
            .filter(|entry| !remote && concerns(entry.action));
        let changed_objects = changed.filter_map(|entry| {
            let gvk = Gvk {
                group: entry.id.group.clone(),
                version: String::new(),
                kind: entry.id.kind.clone(),
            };
            let kind = FluxKind::of(&gvk)?;
            Some(ObjectRef::new(kind, &*entry.id.namespace, &*entry.id.name))
        });
        self.changed_objects.extend(changed_objects);
    }

    /// Writes the larger inventory before a new object is applied; writes nothing if no object is
    /// new.
    ///
    /// # Errors
    /// An error of the cluster; nothing was applied then.
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
        for (kind, status) in [
            (RECONCILING, ConditionStatus::True),
            (READY, ConditionStatus::Unknown),
        ] {
            let conditions = &mut ahead.conditions;
            conditions.set(
                kind,
                status,
                reason::PROGRESSING,
                &message,
                generation,
                &now,
            );
        }
        let owner = &self.owner;
        self.owner = driver::write_early(context, owner, &ahead, KUSTOMIZE_CONTROLLER).await?;
        Ok(())
    }

    /// Writes an inventory and leaves the rest of the status unchanged.
    ///
    /// # Errors
    /// An error of the cluster; the inventory may be written nevertheless.
    pub async fn write_inventory(
        &mut self,
        context: &Context<'_>,
        inventory: &Inventory,
    ) -> Result<(), Failure> {
        write_inventory(context, &mut self.owner, inventory).await
    }

    /// Records an event for the changes of the apply, and one for those of the prune, which
    /// includes skipped objects.
    fn report_changes(&self, context: &Context<'_>) {
        let revision = &self.new.last_attempted_revision;
        for changes in [&self.changes.changed(), &self.pruned] {
            if !changes.is_empty() {
                let message = changes.to_string();
                let kind = (false, reason::PROGRESSING);
                self.event(context, kind, &message, (revision, ""));
            }
        }
    }

    fn report(self, end: driver::StepEnd) -> driver::Report<Kustomization> {
        driver::Report {
            object: self.owner,
            status: self.new,
            changed: self.changed_objects,
            end,
        }
    }

    /// Ends a step that must do more than it may: another one is queued.
    pub fn defer(self) -> driver::Report<Kustomization> {
        driver::Report {
            status: self.owner.status.clone(),
            object: self.owner,
            changed: Vec::new(),
            end: driver::StepEnd::Deferred,
        }
    }

    /// Ends the step without a failure.
    pub fn succeed(mut self, context: &Context<'_>, end: RunEnd) -> driver::Report<Kustomization> {
        let revision = self.new.last_attempted_revision.clone();
        let (generation, now) = (self.owner.generation(), rfc3339(context.ports.clock.now()));
        self.report_changes(context);
        let mut outcome = Outcome::default();
        match end {
            RunEnd::Deferred => return self.defer(),
            RunEnd::Waiting(open) => {
                let message = self.progress_message("Running health checks");
                let conditions = &mut self.new.conditions;
                conditions.set_reconciling(reason::PROGRESSING, &message, generation, &now);
                for kind in [READY, HEALTHY] {
                    let unknown = ConditionStatus::Unknown;
                    conditions.set(
                        kind,
                        unknown,
                        reason::PROGRESSING,
                        &message,
                        generation,
                        &now,
                    );
                }
                outcome.requeue_after = Some(FIRST_CHECK);
                outcome.summary = format!("waiting for: {open}");
            }
            RunEnd::Ready { is_checked, prune } => {
                let message = format!("Applied revision: {revision}");
                self.new.observed_generation = Some(generation);
                self.new.last_applied_revision.clone_from(&revision);
                let origin = &self.origin_revision;
                self.new.last_applied_origin_revision.clone_from(origin);
                let conditions = &mut self.new.conditions;
                conditions.set_ready(reason::SUCCEEDED, &message, generation, &now);
                if let Some(passed) = self.set_healthy(context, is_checked, generation, &now) {
                    let kind = (false, reason::PROGRESSING);
                    self.event(context, kind, &passed, (&revision, ""));
                }
                self.add_history(context, reason::SUCCEEDED);
                self.report_finished(context);
                outcome.notifies = true;
                match &prune {
                    PruneState::Finished => {}
                    PruneState::Terminating => {
                        outcome.wait(self.owner.interval().unwrap_or(LONGEST_RETRY));
                    }
                    PruneState::Unfinished(_) => outcome.requeue_after = Some(FIRST_CHECK),
                    PruneState::Waiting(later) => outcome.requeue_after = Some(later.after),
                }
                let done = if self.is_untouched {
                    "no file of the build has changed".to_owned()
                } else {
                    self.changes.extend(std::mem::take(&mut self.pruned));
                    self.changes.summary()
                };
                outcome.summary = match prune {
                    PruneState::Unfinished(left) => {
                        format!("{message}: {done}; the prune continues with {left} objects")
                    }
                    PruneState::Waiting(later) => {
                        format!("{message}: {done}; the prune waits for {}", later.waits_for)
                    }
                    _ => format!("{message}: {done}"),
                };
            }
        }
        self.report(driver::StepEnd::Done(outcome))
    }

    /// Ends the step with a failure.
    pub fn fail(
        mut self,
        context: &Context<'_>,
        failure: Failure,
    ) -> driver::Report<Kustomization> {
        let revision = self.new.last_attempted_revision.clone();
        let (generation, now) = (self.owner.generation(), rfc3339(context.ports.clock.now()));
        self.report_changes(context);
        let (reason, message) = (failure.reason, shorten(&failure.message, 20_000));
        self.new.conditions.set(
            READY,
            ConditionStatus::False,
            reason,
            &message,
            generation,
            &now,
        );
        if self.is_unhealthy {
            // As in Flux, only Ready has the prefix with the duration.
            let cause = message.strip_prefix(HEALTH_FAILED);
            let cause = cause.and_then(|rest| rest.split_once(": "));
            let cause = cause.map_or(message.as_str(), |(_, cause)| cause);
            self.new.conditions.set(
                HEALTHY,
                ConditionStatus::False,
                reason,
                cause,
                generation,
                &now,
            );
        }
        if failure.class == Class::Terminal {
            self.new.observed_generation = Some(generation);
            let conditions = &mut self.new.conditions;
            conditions.set_stalled(reason, &message, generation, &now);
        } else {
            self.new.conditions.remove(STALLED);
            self.set_retrying(reason, &now);
        }
        if self.stage == Stage::Waiting || reason == reason::ARTIFACT_FAILED {
            let before = &self.owner.status.last_attempted_revision;
            self.new.last_attempted_revision.clone_from(before);
        }
        self.add_history(context, reason);
        let last_ready = self
            .owner
            .status
            .conditions
            .get(READY)
            .map(|ready| (&*ready.reason, &*ready.message));
        // As in Flux, a missing source is not an event.
        let has_event = self.stage != Stage::Waiting || reason != reason::ARTIFACT_FAILED;
        if has_event && last_ready != Some((reason, &*message)) {
            // Waiting for another object is not a warning.
            let warning = reason != reason::DEPENDENCY_NOT_READY;
            let message = match self.is_unconnected {
                // As in Flux, only the event has the prefix.
                true => format!("failed to build kube client: {message}"),
                false => message,
            };
            self.event(context, (warning, reason), &message, (&revision, ""));
        }
        let retry = self.owner.retry_interval().unwrap_or(LONGEST_RETRY);
        self.report(driver::StepEnd::Failed(failure, retry))
    }

    /// Returns Flux's message for an activity of a stage.
    fn progress_message(&self, activity: &str) -> String {
        let timeout = duration_text(self.owner.timeout().unwrap_or_default());
        let revision = &self.new.last_attempted_revision;
        format!("{activity} for revision {revision} with a timeout of {timeout}")
    }

    /// Sets `Reconciling` with the activity that is retried. A step that only waits has begun no
    /// activity, so it keeps the earlier message.
    fn set_retrying(&mut self, reason: &str, now: &str) {
        let message = match self.stage {
            Stage::Waiting => match self.new.conditions.get(RECONCILING) {
                Some(before) => before.message.clone(),
                None => return,
            },
            Stage::Building if reason == reason::ARTIFACT_FAILED => {
                self.progress_message("Fetching manifests")
            }
            Stage::Building => self.progress_message("Building manifests"),
            Stage::Applying => self.progress_message("Detecting drift"),
            Stage::Checking => self.progress_message("Running health checks"),
        };
        let generation = self.owner.generation();
        let reason = reason::PROGRESSING_WITH_RETRY;
        let conditions = &mut self.new.conditions;
        conditions.set_reconciling(reason, &message, generation, now);
    }

    /// Sets the `Healthy` condition, or removes it if the object asks for no health check. Its
    /// message keeps the duration of the check that made it true. Returns the message if it is new.
    fn set_healthy(
        &mut self,
        context: &Context<'_>,
        is_checked: bool,
        generation: i64,
        now: &str,
    ) -> Option<String> {
        let has_checks = self.owner.spec.wait || !self.owner.spec.health_checks.is_empty();
        if !has_checks {
            self.new.conditions.remove(HEALTHY);
            return None;
        }
        let status = &self.owner.status;
        let is_new = status.last_applied_revision != self.new.last_attempted_revision;
        let is_news = is_new && !self.changes.changed().is_empty();
        (is_checked && (is_news || !status.conditions.is_true(HEALTHY))).then(|| {
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

    /// Adds the outcome at the head of the history. The same outcome of the same render is not
    /// counted again, so that a step without changes costs no write; the revision of the entry
    /// follows the source.
    fn add_history(&mut self, context: &Context<'_>, outcome: &str) {
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
        self.new.history.truncate(MAX_HISTORY);
    }
}

/// Writes an inventory to the status of `owner`, and leaves the rest of the status unchanged.
///
/// # Errors
/// An error of the cluster; the inventory may be written nevertheless.
pub async fn write_inventory(
    context: &Context<'_>,
    owner: &mut Kustomization,
    inventory: &Inventory,
) -> Result<(), Failure> {
    let mut status = owner.status.clone();
    status.inventory = Some(inventory.to_status());
    *owner = driver::write_early(context, owner, &status, KUSTOMIZE_CONTROLLER).await?;
    Ok(())
}
