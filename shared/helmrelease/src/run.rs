//! Runs an action phase by phase. An action that takes longer than the step may wait continues with
//! another message, at its cursor.

use super::action::Action;
use super::attempt::Attempt;
use super::objects;
use super::phase::{PhaseError, Progress, Step, record_error};
use super::plan::{self, Operation, Phase};
use driftless_helm::record::{Release, Status, Time};
use driftless_kernel::failure::Failure;
use driftless_kernel::target::objects::Item;
use driftless_manifest::ObjectId;
use driftless_plans::health::Health;
use std::collections::BTreeSet;
use std::time::Duration;
use tracing::Instrument as _;

impl Attempt<'_> {
    /// Continues the running action.
    ///
    /// # Errors
    /// A transient failure: the action continues in a later step.
    pub async fn advance(&mut self, operation: &Operation) -> Result<Progress, Failure> {
        let phases = operation.phases(&self.release);
        while let Some(phase) = phases.get(self.running()?.cursor.phase).copied() {
            let span = tracing::trace_span!("phase", otel.name = phase.name());
            match Box::pin(self.phase(operation, phase))
                .instrument(span)
                .await
            {
                Ok(Step::Done) => self.running()?.cursor.next_phase(),
                Ok(Step::Waiting(resources)) => {
                    self.flush().await?;
                    return Ok(Progress::Waiting(resources));
                }
                Err(PhaseError::Transient(failure)) => return Err(failure),
                Err(PhaseError::Failed(error)) => {
                    self.fail(operation, phase, &error).await?;
                    let name = self.release.release_name();
                    let message = plan::failure_message(operation, &name, phase, error);
                    return Ok(Progress::Over(Some(message)));
                }
            }
        }
        Ok(Progress::Over(None))
    }

    async fn phase(&mut self, operation: &Operation, phase: Phase) -> Result<Step, PhaseError> {
        match phase {
            Phase::Crds(policy) => self.crds(operation, policy).await,
            Phase::Namespace => self.namespace().await,
            Phase::WriteRecord => self.write_record(operation).await,
            Phase::Hooks(event) => self.hooks(event).await,
            Phase::Apply => self.apply(operation).await,
            Phase::Wait { jobs } => self.wait(jobs).await,
            Phase::Delete => self.delete_all().await,
            Phase::WaitGone => self.wait_gone().await,
            Phase::Supersede => self.supersede(operation).await,
            Phase::Finish => self.finish_record(operation).await,
            Phase::Purge => self.purge().await,
            Phase::Correct => self.correct().await,
        }
    }

    /// Returns the record that the action creates or changes.
    ///
    /// # Errors
    /// The storage does not have the record.
    pub fn record(&self) -> Result<Release, PhaseError> {
        let running = self.memory.running.as_ref();
        let version = running.map_or(0, |running| running.record);
        let found = self.storage.get(version).cloned();
        found.ok_or_else(|| {
            PhaseError::Failed(format!(
                "release {} has no revision {version}: release: not found",
                self.release.release_name()
            ))
        })
    }

    /// Writes a record and notes its revision as written by the action.
    ///
    /// # Errors
    /// Those of [`record_error`].
    pub async fn write(&mut self, record: Release) -> Result<(), PhaseError> {
        let version = record.version;
        let now = self.context.ports.clock.now();
        let written = self.storage.write(&self.target, record, now).await;
        written.map_err(record_error)?;
        self.dirty = false;
        if let Some(running) = &mut self.memory.running {
            running.wrote(version);
        }
        Ok(())
    }

    /// Writes the record if it changed in memory only.
    async fn flush(&mut self) -> Result<(), Failure> {
        if self.dirty
            && let Ok(record) = self.record()
        {
            self.write(record).await?;
        }
        Ok(())
    }

    /// Returns the current time in the type of records.
    pub fn moment(&self) -> Time {
        let now = self.context.ports.clock.now();
        let at = jiff::Timestamp::from_duration(now.try_into().unwrap_or_default());
        Time::utc(at.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// Records a failure, and deletes the objects that the action created if `cleanupOnFail` is
    /// set.
    async fn fail(
        &mut self,
        operation: &Operation,
        phase: Phase,
        error: &str,
    ) -> Result<(), Failure> {
        let running = self.running()?;
        let wrote = running.written.contains(&running.record);
        let Ok(mut record) = self.record() else {
            return Ok(());
        };
        let Operation::Act(action) = operation else {
            return Ok(());
        };
        match action {
            Action::Install | Action::Upgrade | Action::Rollback(_) if wrote => {
                if plan::cleans_up(action, &self.release)
                    && let Err(PhaseError::Failed(error)) = self.clean_up(&record).await
                {
                    tracing::warn!(object = %self.release.id, "cannot delete the objects that a failed release created: {error}");
                }
                let name = record.name.clone();
                let description = plan::failure_description(action, &name, phase, error);
                record.set_status(Status::Failed, description);
                self.write(record).await?;
            }
            Action::Test => self.write(record).await?,
            _ => {}
        }
        Ok(())
    }

    /// Deletes the objects that the failed release has and the previous one does not have.
    async fn clean_up(&self, record: &Release) -> Result<(), PhaseError> {
        let (items, _) = objects::known_items(&self.target, record).await?;
        // Without the previous record, it is unknown which objects existed already.
        let before = objects::known_items(&self.target, &self.replaced()?).await?;
        let before = before.0.into_iter().map(|item| item.object.id());
        let before: BTreeSet<ObjectId> = before.collect();
        let created = items
            .into_iter()
            .filter(|item| !before.contains(&item.object.id()));
        let mut created: Vec<Item> = created.collect();
        created.reverse();
        self.delete_items(record, &created, "Background", Duration::MAX)
            .await?;
        Ok(())
    }
}

/// Formats an object's health for messages, with the reason `message` if the health is unknown.
pub fn health_text(health: Health, message: &str) -> String {
    match (health, message) {
        (Health::Unknown, message) if !message.is_empty() => format!("'{health}': {message}"),
        _ => format!("'{health}'"),
    }
}

/// Formats objects that are not ready, with their status, for messages.
pub fn list(open: &[(ObjectId, String)]) -> String {
    let entries = open
        .iter()
        .map(|(id, status)| format!("{id} status: {status}"));
    let mut entries: Vec<String> = entries.collect();
    entries.sort();
    entries.join(", ")
}
