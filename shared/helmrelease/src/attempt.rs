//! One attempt to bring a release to its desired state: determines the state, decides, runs the
//! action, and repeats until the decision is a pause.

use super::Memory;
use super::action::{
    Action, ActionKind, Decision, Pause, decide, decide_after, retry_pause, take_request,
};
use super::chart;
use super::conditions::{DRIFTED, mark, mark_running, reasons};
use super::memory::{ChartFacts, Running};
use super::outcome::{
    self, ActionResult, EventMetadata, ReleaseEvent, UninstallResult, left_records,
};
use super::phase::{PhaseError, Progress};
use super::plan::{Cursor, Operation};
use super::state::{Desired, State, changed_target, determine, failures_are_stale};
use super::storage::Storage;
use super::{history, values};
use crate::error::ReleaseError;
use driftless_flux::{
    ArtifactStatus, ConditionStatus, DriftMode, HelmRelease, ObjectRef, RESET_AT, duration_text,
    is_request_handled, reason, rfc3339,
};
use driftless_helm::Chart;
use driftless_helm::record::{Release, Status, config_digest};
use driftless_helm::values::Table;
use driftless_kernel::context::Context;
use driftless_kernel::credentials;
use driftless_kernel::failure::Failure;
use driftless_kernel::state::millis;
use driftless_kernel::target::Target;
use driftless_manifest::Object;
use driftless_plans::inventory;
use std::sync::Arc;
use std::time::Duration;

/// The message of an attempt that has not found the source of its chart.
const NO_SOURCE: &str = "the source of the chart was not read";

/// The way in which one attempt of an action ended.
#[derive(Debug)]
pub enum AttemptEnd {
    /// The action waits for this; it continues in a later step.
    Waiting(String),
    /// The decision was to pause.
    Paused(Pause),
    /// The release was uninstalled, and not as a remediation.
    Uninstalled,
    /// The uninstall failed with this error.
    UninstallFailed(String),
}

/// A running attempt.
pub struct Attempt<'a> {
    /// The context of the step.
    pub context: &'a Context<'a>,
    /// The cluster of the release.
    pub target: Target,
    /// The object, with the status to write.
    pub release: HelmRelease,
    /// The memory of the object in the bucket.
    pub memory: &'a mut Memory,
    /// The release records.
    pub storage: Storage,
    /// The object that the chart comes from, and its artifact.
    pub source: Option<(ObjectRef, ArtifactStatus)>,
    /// The desired chart and values; `None` while an action of an earlier step continues.
    pub wanted: Option<(ChartFacts, Table)>,
    /// The chart, once it is loaded.
    pub loaded: Option<Arc<Chart>>,
    /// The kinds of the actions that this attempt has run so far.
    pub done: Vec<ActionKind>,
    /// The start of the attempt, since 1970.
    pub start: Duration,
    /// The time until which the step may wait, since 1970.
    pub deadline: Duration,
    /// True if the record in memory is newer than the one in the cluster.
    pub dirty: bool,
    /// The records that were deleted.
    pub purged: Vec<Release>,
    /// The objects that drifted, by the last check.
    pub drifted: Vec<super::drifted::DriftedObject>,
    /// The corrections that were made, a line for each object.
    pub corrected: Vec<String>,
    /// The Flux objects of the hub that were applied: they are reconciled next.
    pub changed: Vec<ObjectRef>,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt at its start.
    pub fn new(
        context: &'a Context<'a>,
        release: HelmRelease,
        target: Target,
        storage: Storage,
        memory: &'a mut Memory,
    ) -> Self {
        Attempt {
            context,
            release,
            target,
            storage,
            memory,
            source: None,
            wanted: None,
            loaded: None,
            done: Vec::new(),
            start: context.ports.clock.now(),
            deadline: context.ports.clock.now() + context.wait_budget,
            dirty: false,
            purged: Vec::new(),
            drifted: Vec::new(),
            corrected: Vec::new(),
            changed: Vec::new(),
        }
    }
}

impl Attempt<'_> {
    /// Returns the current time in the format of conditions.
    pub fn now(&self) -> String {
        rfc3339(self.context.ports.clock.now())
    }

    /// Returns the current time in milliseconds since 1970.
    pub fn milliseconds(&self) -> u64 {
        millis(self.context.ports.clock.now())
    }

    /// Returns the running action.
    ///
    /// # Errors
    /// No action is running.
    pub fn running(&mut self) -> Result<&mut Running, Failure> {
        let missing = || Failure::retry(reason::FAILED, "no action is running");
        self.memory.running.as_mut().ok_or_else(missing)
    }

    /// Returns the desired values.
    ///
    /// # Errors
    /// The values were not read, because an action of an earlier step continues.
    pub fn values(&self) -> Result<&Table, PhaseError> {
        let wanted = self.wanted.as_ref().map(|(_, values)| values);
        wanted.ok_or_else(|| {
            PhaseError::Transient(Failure::retry(reason::FAILED, "no values were read"))
        })
    }

    /// Returns the chart, and loads it on the first call.
    ///
    /// # Errors
    /// Those of [`chart::load`].
    pub async fn chart(&mut self) -> Result<Arc<Chart>, PhaseError> {
        if let Some(chart) = &self.loaded {
            return Ok(chart.clone());
        }
        let Some((id, artifact)) = &self.source else {
            let failure = Failure::retry(reason::FAILED, NO_SOURCE);
            return Err(PhaseError::Transient(failure));
        };
        let (chart, _) = chart::load(self.context, id, artifact)
            .await
            .map_err(PhaseError::Transient)?;
        Ok(self.loaded.insert(Arc::new(chart)).clone())
    }

    /// Stores the memory, so that a step after a crash can continue.
    ///
    /// # Errors
    /// The bucket's.
    pub async fn store_memory(&mut self) -> Result<(), Failure> {
        self.memory.checkpoint(self.context.ports).await
    }

    /// Runs actions until nothing is left to do, or nothing can be done now.
    ///
    /// # Errors
    /// Errors of the cluster that are not a failure of the release.
    pub async fn drive(&mut self) -> Result<AttemptEnd, Failure> {
        let end = self.run_actions().await?;
        self.memory.retry_at = match &end {
            AttemptEnd::Paused(Pause::After(interval)) => {
                millis(self.context.ports.clock.now() + *interval)
            }
            _ => 0,
        };
        Ok(end)
    }

    async fn run_actions(&mut self) -> Result<AttemptEnd, Failure> {
        if let Some(running) = &self.memory.running {
            self.done.clone_from(&running.done);
            // The step that rendered the release may have looked up a Secret.
            self.context.events.changes.withhold_values();
        }
        if self.release.may_have_secret_values() {
            self.context.events.changes.withhold_values();
        }
        loop {
            if self.memory.running.is_none()
                && let Some(end) = self.next().await?
            {
                return Ok(end);
            }
            let operation = self.running()?.operation.clone();
            match self.advance(&operation).await? {
                Progress::Waiting(resources) => {
                    self.mark_action_running(&operation)?;
                    return Ok(AttemptEnd::Waiting(resources));
                }
                Progress::Over(error) => {
                    if error.is_some() {
                        self.mark_action_running(&operation)?;
                    }
                    if let Some(end) = self.finish_action(operation, error).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Decides on the next action and starts it, or returns the end of the attempt.
    async fn next(&mut self) -> Result<Option<AttemptEnd>, Failure> {
        if self.wanted.is_none() {
            if let Some(end) = self.prepare().await? {
                return Ok(end);
            }
            if let Some(pause) = self.early_retry()? {
                return Ok(Some(AttemptEnd::Paused(pause)));
            }
        }
        let last = self.storage.last().map(|last| &last.info.status);
        if last == Some(&Status::Uninstalling) && self.done.is_empty() {
            // The writer crashed during an uninstall, which can only be continued.
            self.start(Action::UninstallRemediation);
            return Ok(None);
        }
        let state = self.state().await?;
        tracing::debug!(object = %self.release.id, ?state, "release");
        let now = self.now();
        let storage = &self.storage;
        let records = |version| Ok(storage.get(version).cloned());
        let decision = decide(&mut self.release, &state, &self.done, &records, &now)
            .map_err(|error| Failure::terminal(reason::FAILED, &error).caused_by(error))?;
        match decision {
            Decision::Pause(pause) => Ok(Some(AttemptEnd::Paused(pause))),
            Decision::Run(action) => {
                self.start(action);
                Ok(None)
            }
        }
    }

    /// Reads the desired chart and values. If the release has another name, namespace or chart now,
    /// starts to uninstall the old one: returns the end of the attempt then, or `Some(None)` while
    /// an uninstall runs. Returns `None` if the attempt continues.
    async fn prepare(&mut self) -> Result<Option<Option<AttemptEnd>>, Failure> {
        let values = self.read_values().await?;
        let facts = self.chart_facts().await?;
        let release = &mut self.release;
        history::adopt_legacy(release, self.storage.last())
            .map_err(|message| Failure::retry(reason::FAILED, message))?;
        if let Some(changed) = changed_target(release, &facts.name) {
            tracing::info!(object = %release.id, ?changed, "uninstalling the old release, which cannot become the desired one by an upgrade");
            return self.uninstall().await.map(Some);
        }
        let desired = Desired {
            chart_name: &facts.name,
            chart_version: &facts.version,
            values: &values,
        };
        let is_requested = !is_request_handled(&release.object);
        let resets = take_request(release, RESET_AT);
        let is_stale = resets || failures_are_stale(release, &desired).is_some();
        if is_stale {
            release.status.clear_failures();
        }
        if is_stale || is_requested {
            self.memory.retry_at = 0;
        }
        let generation = release.generation();
        let namespace = release.storage_namespace().to_owned();
        let status = &mut release.status;
        status.last_attempted_generation = generation;
        status.last_attempted_revision.clone_from(&facts.version);
        status
            .last_attempted_revision_digest
            .clone_from(&facts.oci_digest);
        status.last_attempted_config_digest = config_digest(&values);
        status.last_attempted_values_checksum.clear();
        status.last_release_revision = 0;
        status.storage_namespace = namespace;
        self.wanted = Some((facts, values));
        Ok(None)
    }

    /// Returns the rest of the interval of `RetryOnFailure` if the step began before it is over: by
    /// a duplicate of the message, by one of the sweep, or because no message is delayed for longer
    /// than 15 minutes. helm-controller has one timer for each object instead.
    fn early_retry(&mut self) -> Result<Option<Pause>, Failure> {
        let rest = self.memory.retry_at.saturating_sub(self.milliseconds());
        if rest == 0 {
            return Ok(None);
        }
        let now = self.now();
        let pause = retry_pause(&mut self.release, &now)
            .map_err(|error| Failure::terminal(reason::FAILED, &error).caused_by(error))?;
        Ok(pause.map(|_| Pause::After(Duration::from_millis(rest))))
    }

    /// Starts to uninstall the release in the status. Returns the end of the attempt if no record
    /// of the release is left.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn uninstall(&mut self) -> Result<Option<AttemptEnd>, Failure> {
        let Some(current) = history::latest(&self.release.status.history).cloned() else {
            return Ok(Some(AttemptEnd::Uninstalled));
        };
        let namespace = self.release.status.storage_namespace.clone();
        self.storage = Storage::read(&self.target, &namespace, &current.name).await?;
        let result = match self.storage.last().map(|last| &last.info.status) {
            None => UninstallResult::NotFound,
            Some(Status::Uninstalled) => UninstallResult::AlreadyDone,
            Some(_) => {
                let version = self.storage.last().map_or(0, |last| last.version);
                self.begin(Operation::Uninstall, version, None);
                return Ok(None);
            }
        };
        let now = self.now();
        outcome::record_uninstall(&mut self.release, &[], result, &now)
            .map_err(|message| Failure::terminal(reason::FAILED, message))?;
        Ok(Some(AttemptEnd::Uninstalled))
    }

    async fn read_values(&self) -> Result<Table, Failure> {
        let mut found = values::ValuesSources::new();
        for (kind, name) in values::references(&self.release) {
            let (hub, namespace) = (&self.context.hub, &self.release.id.namespace);
            if let Some(object) = credentials::read(hub, &kind, namespace, &name).await? {
                found.insert((kind, name), object);
            }
        }
        values::compose(&self.release, &found, &self.context.fuel)
            .map_err(|error| Failure::retry(reasons::VALUES_ERROR, &error).caused_by(error))
    }

    /// Returns the name and version of the chart. They are kept in the memory, so that a check of a
    /// release in sync loads no chart.
    async fn chart_facts(&mut self) -> Result<ChartFacts, Failure> {
        let Some((id, artifact)) = &self.source else {
            return Err(Failure::retry(reason::FAILED, NO_SOURCE));
        };
        let known = self.memory.chart.as_ref();
        if let Some(known) = known.filter(|known| known.artifact == artifact.digest) {
            return Ok(known.clone());
        }
        let (chart, facts) = chart::load(self.context, id, artifact).await?;
        self.loaded = Some(Arc::new(chart));
        self.memory.chart = Some(facts.clone());
        Ok(facts)
    }

    async fn state(&mut self) -> Result<State, Failure> {
        let Some((facts, values)) = &self.wanted else {
            return Err(Failure::retry(reason::FAILED, "no values were read"));
        };
        let last = self.storage.last();
        if last.is_some_and(|last| last.info.status == Status::Uninstalling) {
            return Ok(State::Failed("the uninstall was not finished"));
        }
        let desired = Desired {
            chart_name: &facts.name,
            chart_version: &facts.version,
            values,
        };
        let state = determine(&self.release, last, &desired).map_err(|error| {
            let message = format!("Could not determine release state: {error}");
            Failure::retry(reasons::STATE_ERROR, message)
        })?;
        if self.release.drift_mode() == DriftMode::Disabled {
            self.memory.seen.clear();
            return Ok(state);
        }
        if state != State::InSync {
            return Ok(state);
        }
        self.check_drift().await
    }

    async fn check_drift(&mut self) -> Result<State, Failure> {
        let report = self.detect_drift().await?;
        self.drifted = report.drifted;
        self.memory.seen = report.seen;
        let Some(summary) = report.summary else {
            return Ok(State::InSync);
        };
        let now = self.now();
        let previous = self.release.status.conditions.get(DRIFTED);
        let is_news = previous.is_none_or(|previous| {
            previous.status != ConditionStatus::True || previous.message != summary
        });
        let reason = reasons::DRIFT_DETECTED;
        mark(
            &mut self.release,
            DRIFTED,
            ConditionStatus::True,
            reason,
            &summary,
            &now,
        );
        if is_news {
            self.event(true, reason, &summary, &EventMetadata::default());
        }
        Ok(State::Drifted)
    }

    /// Notes an action as running.
    fn start(&mut self, action: Action) {
        outcome::begin(&mut self.release, &action);
        let last = self.storage.last();
        let version = last.map_or(0, |last| last.version);
        let makes = matches!(
            action,
            Action::Install | Action::Upgrade | Action::Rollback(_)
        );
        let replaces = match action {
            Action::Upgrade => self.storage.deployed().or_else(|| {
                last.filter(|last| matches!(last.info.status, Status::Failed | Status::Superseded))
            }),
            Action::Rollback(_) => last,
            _ => None,
        };
        let replaces = replaces.map(|record| record.version);
        self.begin(Operation::Act(action), version + i64::from(makes), replaces);
    }

    /// Notes an operation on the revision `record` as running.
    pub fn begin(&mut self, operation: Operation, record: i64, replaces: Option<i64>) {
        self.memory.running = Some(Running {
            operation,
            done: self.done.clone(),
            cursor: Cursor::default(),
            generation: self.release.generation(),
            chart: self
                .wanted
                .as_ref()
                .map(|(facts, _)| facts.clone())
                .unwrap_or_default(),
            since: self.milliseconds(),
            record,
            replaces,
            written: Vec::new(),
        });
    }

    fn mark_action_running(&mut self, operation: &Operation) -> Result<(), Failure> {
        let now = self.now();
        let invalid = |message| Failure::terminal(reason::FAILED, message);
        let (message, makes_release) = match operation {
            Operation::Act(action) => (
                action.running_message(&self.release).map_err(invalid)?,
                action.kind() == ActionKind::Release,
            ),
            Operation::Uninstall => {
                let action = Action::UninstallRemediation;
                (
                    action.running_message(&self.release).map_err(invalid)?,
                    false,
                )
            }
        };
        mark_running(&mut self.release, &message, makes_release, &now);
        Ok(())
    }

    /// Records the result of an action in the status. Returns the end of the attempt if it ends
    /// now.
    async fn finish_action(
        &mut self,
        operation: Operation,
        error: Option<String>,
    ) -> Result<Option<AttemptEnd>, Failure> {
        let Some(running) = self.memory.running.take() else {
            return Ok(None);
        };
        let mut written: Vec<Release> = running
            .written
            .iter()
            .filter_map(|version| self.storage.get(*version).cloned())
            .collect();
        written.append(&mut self.purged);
        let now = self.now();
        let failed =
            |error: ReleaseError| Failure::terminal(reason::FAILED, &error).caused_by(error);
        let action = match operation {
            Operation::Act(action) => action,
            Operation::Uninstall => {
                let result = match &error {
                    None => UninstallResult::Done,
                    Some(error) => UninstallResult::Failed(error),
                };
                let event = outcome::record_uninstall(&mut self.release, &written, result, &now)
                    .map_err(failed)?;
                self.emit(event);
                return Ok(Some(match error {
                    None => AttemptEnd::Uninstalled,
                    Some(error) => AttemptEnd::UninstallFailed(error),
                }));
            }
        };
        let corrected = std::mem::take(&mut self.corrected);
        let result = ActionResult {
            action: &action,
            written: &written,
            error: error.as_deref(),
            chart: &running.chart,
            corrected: &corrected,
        };
        let event = outcome::record(&mut self.release, &result, &now).map_err(failed)?;
        if matches!(action, Action::Install | Action::Upgrade) {
            let took = Duration::from_millis(self.milliseconds().saturating_sub(running.since));
            self.release.status.last_attempted_release_action_duration = Some(duration_text(took));
        }
        self.emit(event);
        if error.is_none() || left_records(&result) {
            self.refresh_inventory(&action).await;
        }
        // Objects that could not be corrected are in the event, and the next check finds them
        // again.
        let counts = !left_records(&result) && action != Action::CorrectDrift;
        let unrecorded = error.as_deref().filter(|_| counts);
        let pause = decide_after(&mut self.release, &action, unrecorded, &now).map_err(failed)?;
        self.done.push(action.kind());
        Ok(pause.map(AttemptEnd::Paused))
    }

    /// Updates `status.inventory` after an action that left a record; objects of a failed release
    /// count also.
    async fn refresh_inventory(&mut self, action: &Action) {
        match action {
            Action::UninstallRemediation => self.release.status.inventory = None,
            Action::Install | Action::Upgrade | Action::Rollback(_) => {
                let Some(last) = self.storage.last().cloned() else {
                    return;
                };
                let Ok((items, _)) = super::objects::known_items(&self.target, &last).await else {
                    return;
                };
                let mut objects: Vec<Object> = items.into_iter().map(|item| item.object).collect();
                if let Ok(chart) = self.chart().await
                    && let Ok(definitions) = super::definitions::definitions(&chart, &last.config)
                {
                    objects.extend(definitions);
                }
                self.release.status.inventory = Some(inventory::listed(&objects));
            }
            _ => {}
        }
    }

    fn emit(&self, event: Option<ReleaseEvent>) {
        if let Some(event) = event {
            let ReleaseEvent {
                warning,
                reason,
                message,
                metadata,
            } = event;
            self.event(warning, reason, &message, &metadata);
        }
    }

    /// Emits an event about the release.
    pub fn event(&self, warning: bool, reason: &str, message: &str, metadata: &EventMetadata) {
        let events = &self.context.events;
        events.record_annotated(warning, reason, message, &metadata.entries());
    }
}
