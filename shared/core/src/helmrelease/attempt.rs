//! One attempt to bring a release to what is wanted: state, decision, action, and again until the answer is a pause.

use super::Memory;
use super::action::{Action, ActionKind, Decision, Pause, after, decide, take_request};
use super::chart;
use super::conditions::{DRIFTED, mark, mark_running, reasons};
use super::memory::{ChartFacts, Operation, Running};
use super::outcome::{self, About, Ran, ReleaseEvent, Uninstalled, left_something};
use super::plan::Cursor;
use super::run::{PhaseError, Progress};
use super::state::{Desired, State, changed_target, determine, failures_are_stale};
use super::storage::Storage;
use super::{history, values};
use crate::credentials;
use crate::failure::Failure;
use crate::flux::{
    ArtifactStatus, ConditionStatus, DriftMode, HelmRelease, ObjectRef, RESET_AT, duration_text,
    reason, rfc3339,
};
use crate::inventory;
use crate::kernel::Context;
use crate::target::Target;
use driftless_helm::Chart;
use driftless_helm::record::{Release, Status, config_digest};
use driftless_helm::values::Table;
use driftless_manifest::Object;
use std::sync::Arc;
use std::time::Duration;

/// How an attempt ended.
#[derive(Debug)]
pub enum AttemptEnd {
    /// The action waits for this.
    Waiting(String),
    /// As decided.
    Paused(Pause),
    /// The release was uninstalled, and not to make a failure good.
    Uninstalled,
    /// The uninstall failed.
    UninstallFailed(String),
}

/// An attempt under way.
pub struct Attempt<'a> {
    /// What it works with.
    pub context: &'a Context<'a>,
    /// Where the release is.
    pub target: Target,
    /// The object, with its status as it will be written.
    pub release: HelmRelease,
    /// What is remembered.
    pub memory: &'a mut Memory,
    /// The records.
    pub storage: Storage,
    /// The chart's object and artifact.
    pub source: Option<(ObjectRef, ArtifactStatus)>,
    /// What is wanted; `None` when an action only goes on.
    pub wanted: Option<(ChartFacts, Table)>,
    /// The chart, once it was needed.
    pub loaded: Option<Arc<Chart>>,
    /// The actions of this attempt so far.
    pub done: Vec<ActionKind>,
    /// Until when the step may wait.
    pub deadline: Duration,
    /// The record in memory is newer than the one in the cluster.
    pub dirty: bool,
    /// What was deleted with its records.
    pub purged: Vec<Release>,
    /// What drifted, as it was found last.
    pub drifted: Vec<super::correct::Found>,
    /// What of it was set right.
    pub corrected: Vec<String>,
    /// Flux objects of the hub that were applied.
    pub woken: Vec<ObjectRef>,
}

impl<'a> Attempt<'a> {
    /// At its start.
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
            deadline: context.ports.clock.now() + context.wait_budget,
            dirty: false,
            purged: Vec::new(),
            drifted: Vec::new(),
            corrected: Vec::new(),
            woken: Vec::new(),
        }
    }
}

impl Attempt<'_> {
    /// Now, as conditions write it.
    pub fn now(&self) -> String {
        rfc3339(self.context.ports.clock.now())
    }

    fn milliseconds(&self) -> u64 {
        let now = self.context.ports.clock.now().as_millis();
        u64::try_from(now).unwrap_or(u64::MAX)
    }

    /// The action that is under way.
    ///
    /// # Errors
    /// There is none.
    pub fn running(&mut self) -> Result<&mut Running, Failure> {
        let none = || Failure::retry(reason::FAILED, "no action is under way");
        self.memory.running.as_mut().ok_or_else(none)
    }

    /// The values that are wanted.
    ///
    /// # Errors
    /// They were not read: an action that only goes on does not need them.
    pub fn values(&self) -> Result<&Table, PhaseError> {
        let wanted = self.wanted.as_ref().map(|(_, values)| values);
        wanted.ok_or_else(|| {
            PhaseError::Transient(Failure::retry(reason::FAILED, "no values were read"))
        })
    }

    /// The chart, loaded when it is needed first.
    ///
    /// # Errors
    /// As [`chart::load`].
    pub async fn chart(&mut self) -> Result<Arc<Chart>, PhaseError> {
        if let Some(chart) = &self.loaded {
            return Ok(chart.clone());
        }
        let Some((id, artifact)) = &self.source else {
            let what = "the chart was not looked for";
            return Err(PhaseError::Transient(Failure::retry(reason::FAILED, what)));
        };
        let (chart, _) = chart::load(self.context, id, artifact)
            .await
            .map_err(PhaseError::Transient)?;
        Ok(self.loaded.insert(Arc::new(chart)).clone())
    }

    /// Stores what is remembered, for the step that comes after a crash.
    ///
    /// # Errors
    /// The bucket's.
    pub async fn remember(&mut self) -> Result<(), Failure> {
        self.memory.checkpoint(self.context.ports).await
    }

    /// Works until there is nothing to do, or nothing that can be done now.
    ///
    /// # Errors
    /// The cluster's, where nothing of the release depends on it.
    pub async fn drive(&mut self) -> Result<AttemptEnd, Failure> {
        if let Some(running) = &self.memory.running {
            self.done.clone_from(&running.done);
        }
        loop {
            if self.memory.running.is_none()
                && let Some(end) = self.next().await?
            {
                return Ok(end);
            }
            let operation = self.running()?.operation.clone();
            match self.advance(&operation).await? {
                Progress::Waiting(what) => {
                    self.tell_running(&operation)?;
                    return Ok(AttemptEnd::Waiting(what));
                }
                Progress::Over(error) => {
                    if error.is_some() {
                        self.tell_running(&operation)?;
                    }
                    if let Some(end) = self.finish_action(operation, error).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Decides what is next and starts it, or says how the attempt ends.
    async fn next(&mut self) -> Result<Option<AttemptEnd>, Failure> {
        if self.wanted.is_none()
            && let Some(moved) = self.prepare().await?
        {
            return Ok(moved);
        }
        let last = self.storage.last().map(|last| &last.info.status);
        if last == Some(&Status::Uninstalling) && self.done.is_empty() {
            // The writer died while it uninstalled: to go on is all that can be done.
            self.start(Action::UninstallRemediation);
            return Ok(None);
        }
        let state = self.state().await?;
        tracing::debug!(object = %self.release.id, ?state, "release");
        let now = self.now();
        let storage = &self.storage;
        let records = |version| Ok(storage.get(version).cloned());
        let decision = decide(&mut self.release, &state, &self.done, &records, &now)
            .map_err(|what| Failure::terminal(reason::FAILED, what))?;
        match decision {
            Decision::Pause(pause) => Ok(Some(AttemptEnd::Paused(pause))),
            Decision::Run(action) => {
                self.start(action);
                Ok(None)
            }
        }
    }

    /// Reads what is wanted. A release that is another one now is uninstalled first: how the attempt ends then, or `None` when
    /// there is something to uninstall.
    async fn prepare(&mut self) -> Result<Option<Option<AttemptEnd>>, Failure> {
        let values = self.read_values().await?;
        let facts = self.chart_facts().await?;
        let release = &mut self.release;
        history::adopt_legacy(release, self.storage.last())
            .map_err(|what| Failure::retry(reason::FAILED, what))?;
        if let Some(changed) = changed_target(release, &facts.name) {
            tracing::info!(object = %release.id, ?changed, "the release is another one now");
            return self.uninstall().await.map(Some);
        }
        let desired = Desired {
            chart_name: &facts.name,
            chart_version: &facts.version,
            values: &values,
        };
        let resets = take_request(release, RESET_AT);
        if resets || failures_are_stale(release, &desired).is_some() {
            release.status.clear_failures();
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

    /// Starts to uninstall the release that the status names; the end when there is nothing of it.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn uninstall(&mut self) -> Result<Option<AttemptEnd>, Failure> {
        let Some(current) = history::latest(&self.release.status.history).cloned() else {
            return Ok(Some(AttemptEnd::Uninstalled));
        };
        let namespace = self.release.status.storage_namespace.clone();
        self.storage = Storage::read(&self.target, &namespace, &current.name).await?;
        let went = match self.storage.last().map(|last| &last.info.status) {
            None => Uninstalled::NotFound,
            Some(Status::Uninstalled) => Uninstalled::Before,
            Some(_) => {
                let version = self.storage.last().map_or(0, |last| last.version);
                self.begin(Operation::Uninstall, version, None);
                return Ok(None);
            }
        };
        let now = self.now();
        outcome::record_uninstall(&mut self.release, &[], went, &now)
            .map_err(|what| Failure::terminal(reason::FAILED, what))?;
        Ok(Some(AttemptEnd::Uninstalled))
    }

    async fn read_values(&self) -> Result<Table, Failure> {
        let mut found = values::Found::new();
        for (kind, name) in values::references(&self.release) {
            let (hub, namespace) = (&self.context.hub, &self.release.id.namespace);
            if let Some(object) = credentials::read(hub, &kind, namespace, &name).await? {
                found.insert((kind, name), object);
            }
        }
        values::compose(&self.release, &found)
            .map_err(|error| Failure::retry(reasons::VALUES_ERROR, error))
    }

    /// Name and version of the chart. They are remembered: a look at a release that is as wanted opens no chart.
    async fn chart_facts(&mut self) -> Result<ChartFacts, Failure> {
        let Some((id, artifact)) = &self.source else {
            return Err(Failure::retry(
                reason::FAILED,
                "the chart was not looked for",
            ));
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
        let state = determine(&self.release, last, &desired).map_err(|what| {
            let what = format!("Could not determine release state: {what}");
            Failure::retry(reasons::STATE_ERROR, what)
        })?;
        if self.release.drift_mode() == DriftMode::Disabled {
            self.memory.seen.clear();
            return Ok(state);
        }
        if state != State::InSync {
            return Ok(state);
        }
        self.look_for_drift().await
    }

    async fn look_for_drift(&mut self) -> Result<State, Failure> {
        let found = self.drift().await?;
        self.drifted = found.drifted;
        self.memory.seen = found.seen;
        let Some(summary) = found.summary else {
            return Ok(State::InSync);
        };
        let now = self.now();
        let told = self.release.status.conditions.get(DRIFTED);
        let is_news =
            told.is_none_or(|told| told.status != ConditionStatus::True || told.message != summary);
        let why = reasons::DRIFT_DETECTED;
        mark(
            &mut self.release,
            DRIFTED,
            ConditionStatus::True,
            why,
            &summary,
            &now,
        );
        if is_news {
            self.event(true, why, &summary, &About::default());
        }
        Ok(State::Drifted)
    }

    /// Notes an action as under way.
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

    /// Notes something as under way, done to a revision.
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

    fn tell_running(&mut self, operation: &Operation) -> Result<(), Failure> {
        let now = self.now();
        let invalid = |what| Failure::terminal(reason::FAILED, what);
        let (message, makes_release) = match operation {
            Operation::Act(action) => (
                action.running(&self.release).map_err(invalid)?,
                action.kind() == ActionKind::Release,
            ),
            Operation::Uninstall => {
                let action = Action::UninstallRemediation;
                (action.running(&self.release).map_err(invalid)?, false)
            }
        };
        mark_running(&mut self.release, &message, makes_release, &now);
        Ok(())
    }

    /// Notes what came of an action, and says how the attempt ends when it does.
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
        let failed = |what| Failure::terminal(reason::FAILED, what);
        let action = match operation {
            Operation::Act(action) => action,
            Operation::Uninstall => {
                let went = match &error {
                    None => Uninstalled::Done,
                    Some(error) => Uninstalled::Failed(error),
                };
                let told = outcome::record_uninstall(&mut self.release, &written, went, &now)
                    .map_err(failed)?;
                self.tell(told);
                return Ok(Some(match error {
                    None => AttemptEnd::Uninstalled,
                    Some(error) => AttemptEnd::UninstallFailed(error),
                }));
            }
        };
        let corrected = std::mem::take(&mut self.corrected);
        let ran = Ran {
            action: &action,
            written: &written,
            error: error.as_deref(),
            chart: &running.chart,
            corrected: &corrected,
        };
        let told = outcome::record(&mut self.release, &ran, &now).map_err(failed)?;
        if matches!(action, Action::Install | Action::Upgrade) {
            let took = Duration::from_millis(self.milliseconds().saturating_sub(running.since));
            self.release.status.last_attempted_release_action_duration = Some(duration_text(took));
        }
        self.tell(told);
        if error.is_none() || left_something(&ran) {
            self.refresh_inventory(&action).await;
        }
        // What could not be corrected was told, and is found again.
        let counts = !left_something(&ran) && action != Action::CorrectDrift;
        let unrecorded = error.as_deref().filter(|_| counts);
        let pause = after(&mut self.release, &action, unrecorded, &now).map_err(failed)?;
        self.done.push(action.kind());
        Ok(pause.map(AttemptEnd::Paused))
    }

    /// `status.inventory` after an action that left a record: what is there of a failed one counts, too.
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
                    && let Ok(definitions) = super::apply::definitions(&chart, &last.config)
                {
                    objects.extend(definitions);
                }
                self.release.status.inventory = Some(inventory::listed(&objects));
            }
            _ => {}
        }
    }

    fn tell(&self, told: Option<ReleaseEvent>) {
        if let Some(told) = told {
            let ReleaseEvent {
                warning,
                reason,
                message,
                about,
            } = told;
            self.event(warning, reason, &message, &about);
        }
    }

    /// Tells about the release in an event.
    pub fn event(&self, warning: bool, why: &str, message: &str, about: &About) {
        let events = &self.context.events;
        events.annotated(warning, why, message, &about.metadata());
    }
}
