//! Running an action phase by phase. What takes longer than the step may wait goes on with another message: the cursor says where.

use super::action::Action;
use super::attempt::Attempt;
use super::memory::Operation;
use super::objects;
use super::plan::{self, Phase};
use crate::failure::Failure;
use crate::flux::reason;
use crate::health::Health;
use crate::ports::{ErrorKind, PortError};
use crate::target::objects::Item;
use driftless_helm::record::{Release, Status, Time};
use driftless_manifest::ObjectId;
use std::collections::BTreeSet;

/// Why an action stopped.
#[derive(Debug)]
pub enum PhaseError {
    /// It failed, and the release with it.
    Failed(String),
    /// The cluster could not be asked: the action goes on later where it is.
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

/// What an action that stopped means for the step: a failure of the release that could not be recorded is tried again.
impl From<PhaseError> for Failure {
    fn from(broken: PhaseError) -> Self {
        match broken {
            PhaseError::Failed(message) => Self::retry(reason::FAILED, message),
            PhaseError::Transient(failure) => failure,
        }
    }
}

/// The error of a write or delete of a release record. Somebody else, such as `helm rollback`, may have changed the record since
/// it was read: then the release has not failed; the next step reads the records anew and decides.
pub fn record_error(error: PortError) -> PhaseError {
    match error.kind {
        ErrorKind::Conflict => {
            let failure = Failure::port(reason::FAILED, &error);
            PhaseError::Transient(failure.context("a release record was changed by another client"))
        }
        _ => error.into(),
    }
}

/// How far a phase came.
pub enum Step {
    /// It is done.
    Done,
    /// It waits for this.
    Waiting(String),
}

/// How far an action came.
pub enum Progress {
    /// It is over; why it failed, if it did.
    Over(Option<String>),
    /// It waits for this.
    Waiting(String),
}

impl Attempt<'_> {
    /// Goes on with the action that is under way.
    ///
    /// # Errors
    /// What makes it go on later.
    pub async fn advance(&mut self, operation: &Operation) -> Result<Progress, Failure> {
        let phases = operation.phases(&self.release);
        while let Some(phase) = phases.get(self.running()?.cursor.phase).copied() {
            match self.phase(operation, phase).await {
                Ok(Step::Done) => self.running()?.cursor.next_phase(),
                Ok(Step::Waiting(what)) => {
                    self.flush().await?;
                    return Ok(Progress::Waiting(what));
                }
                Err(PhaseError::Transient(failure)) => return Err(failure),
                Err(PhaseError::Failed(error)) => {
                    self.fail(operation, phase, &error).await?;
                    let name = self.release.release_name();
                    let told = plan::failure(operation, &name, phase, error);
                    return Ok(Progress::Over(Some(told)));
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

    /// The record that the action makes, or is done to.
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

    /// Writes a record and notes that the action did.
    ///
    /// # Errors
    /// As [`record_error`].
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

    /// Writes what was only noted in the record so far.
    async fn flush(&mut self) -> Result<(), Failure> {
        if self.dirty
            && let Ok(record) = self.record()
        {
            self.write(record).await?;
        }
        Ok(())
    }

    /// Now, as records write it.
    pub fn moment(&self) -> Time {
        let now = self.context.ports.clock.now();
        let at = jiff::Timestamp::from_duration(now.try_into().unwrap_or_default());
        Time::utc(at.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// What a failure leaves: the record says it, objects that were created are taken away when that is asked for.
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
                    && let Err(PhaseError::Failed(why)) = self.clean_up(&record).await
                {
                    tracing::warn!(object = %self.release.id, "objects of a failed release are left: {why}");
                }
                let name = record.name.clone();
                let text = plan::failure_description(action, &name, phase, error);
                record.set_status(Status::Failed, text);
                self.write(record).await?;
            }
            Action::Test => self.write(record).await?,
            _ => {}
        }
        Ok(())
    }

    /// Deletes what the failed release has and the one before has not.
    async fn clean_up(&self, record: &Release) -> Result<(), PhaseError> {
        let (items, _) = objects::known_items(&self.target, record).await?;
        // Without the record of before, nobody knows what was there already.
        let before = objects::known_items(&self.target, &self.replaced()?).await?;
        let before = before.0.into_iter().map(|item| item.object.id());
        let before: BTreeSet<ObjectId> = before.collect();
        let created = items
            .into_iter()
            .filter(|item| !before.contains(&item.object.id()));
        let mut created: Vec<Item> = created.collect();
        created.reverse();
        self.delete_items(record, &created, "Background").await
    }
}

/// What is said of an object's health; why it is not known is told, too.
pub fn told(health: Health, why: &str) -> String {
    match (health, why) {
        (Health::Unknown, why) if !why.is_empty() => format!("'{health}': {why}"),
        _ => format!("'{health}'"),
    }
}

/// A list of what is not as it should be, for messages.
pub fn list(open: &[(ObjectId, String)]) -> String {
    let words = open
        .iter()
        .map(|(id, status)| format!("{id} status: {status}"));
    let mut words: Vec<String> = words.collect();
    words.sort();
    words.join(", ")
}
