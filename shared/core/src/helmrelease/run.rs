//! Runs an action phase by phase. An action that takes longer than the step may wait continues with
//! another message, at its cursor.

use super::action::Action;
use super::attempt::Attempt;
use super::memory::Operation;
use super::objects;
use super::plan::{self, Phase};
use crate::applier::NotChanged;
use crate::failure::Failure;
use crate::flux::reason;
use crate::health::Health;
use crate::ports::{ErrorKind, PortError};
use crate::target::objects::Item;
use driftless_helm::record::{Release, Status, Time};
use driftless_manifest::ObjectId;
use std::collections::BTreeSet;
use std::time::Duration;

/// The reason why a phase of a Helm action did not end.
#[derive(Debug)]
pub enum PhaseError {
    /// The phase failed, and with it the release.
    Failed(String),
    /// The cluster could not be reached: the action continues later with the same phase.
    Transient(Failure),
}

impl From<PortError> for PhaseError {
    fn from(error: PortError) -> Self {
        match error.kind {
            ErrorKind::Unavailable | ErrorKind::RateLimited | ErrorKind::Unreadable => {
                Self::Transient(Failure::port(reason::FAILED, &error))
            }
            _ => Self::Failed(error.message),
        }
    }
}

impl From<NotChanged> for PhaseError {
    fn from(NotChanged { attempt, error }: NotChanged) -> Self {
        match (Self::from(error), attempt) {
            (Self::Failed(message), Some(attempt)) => Self::Failed(format!("{attempt}: {message}")),
            (other, _) => other,
        }
    }
}

/// Converts the error of a phase to a failure of the step: a failure of the release that could not
/// be recorded is tried again.
impl From<PhaseError> for Failure {
    fn from(broken: PhaseError) -> Self {
        match broken {
            PhaseError::Failed(message) => Self::retry(reason::FAILED, message),
            PhaseError::Transient(failure) => failure,
        }
    }
}

/// Converts the error of a write or delete of a release record. After a conflict the release has
/// not failed: another client, such as `helm rollback`, has changed the record since it was read,
/// and the next step reads the records again and decides.
pub fn record_error(error: PortError) -> PhaseError {
    match error.kind {
        ErrorKind::Conflict => {
            let failure = Failure::port(reason::FAILED, &error);
            PhaseError::Transient(failure.context("a release record was changed by another client"))
        }
        _ => error.into(),
    }
}

/// The progress of a phase.
pub enum Step {
    /// The phase is done.
    Done,
    /// The objects that are waited for, with their status.
    Waiting(String),
}

/// The progress of an action.
pub enum Progress {
    /// The action has ended, with an error if it failed.
    Over(Option<String>),
    /// The objects that are waited for, with their status.
    Waiting(String),
}

impl Attempt<'_> {
    /// Continues the running action.
    ///
    /// # Errors
    /// A transient failure: the action continues in a later step.
    pub async fn advance(&mut self, operation: &Operation) -> Result<Progress, Failure> {
        let phases = operation.phases(&self.release);
        while let Some(phase) = phases.get(self.running()?.cursor.phase).copied() {
            match self.phase(operation, phase).await {
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
