//! Runs the hooks of an event, each to its end before the next.

use super::attempt::Attempt;
use super::history::is_selected;
use super::phase::{PhaseError, Step};
use super::run::{health_text, list};
use driftless_helm::hooks::{HookEvent, HookStep, steps, steps_after_failure};
use driftless_helm::record::{HookPhase, RecordedHook, Release, Time};
use driftless_kernel::applier::Strategy;
use driftless_kernel::ports::ErrorKind;
use driftless_kernel::target::health::expressions;
use driftless_kernel::target::objects::Item;
use driftless_kernel::target::polling::{Pauses, PollDecision};
use driftless_manifest::Object;
use driftless_manifest::yaml::{Dialect, Limits, documents};
use driftless_plans::apply::fingerprint::expires;
use driftless_plans::health::{Health, HealthExprs};
use serde_json::Value;

/// Helm 3's message about a hook that exceeds its timeout.
const TIMED_OUT: &str = "timed out waiting for the condition";

impl Attempt<'_> {
    /// Runs the hooks of an event, each to its end before the next.
    ///
    /// # Errors
    /// A hook failed; the message is Helm's.
    pub async fn hooks(&mut self, event: HookEvent) -> Result<Step, PhaseError> {
        loop {
            let record = self.record()?;
            let at = self.running().map_err(PhaseError::Transient)?.cursor.step;
            let Some(step) = self.hook_steps(&record, event).get(at).copied() else {
                return Ok(Step::Done);
            };
            match self.hook_step(&record, event, step).await {
                Ok(Step::Done) => self
                    .running()
                    .map_err(PhaseError::Transient)?
                    .cursor
                    .next_step(),
                Ok(waiting) => return Ok(waiting),
                Err(PhaseError::Failed(cause)) => {
                    return Err(PhaseError::Failed(event.failure(&cause)));
                }
                Err(transient) => return Err(transient),
            }
        }
    }

    fn hook_steps(&self, record: &Release, event: HookEvent) -> Vec<HookStep> {
        let mut all = steps(&record.hooks, event);
        if event == HookEvent::Test {
            let filters = self.release.test().filters.clone().unwrap_or_default();
            all.retain(|step| is_selected(&record.hooks[hook_index(*step)].name, &filters));
        }
        all
    }

    async fn hook_step(
        &mut self,
        record: &Release,
        event: HookEvent,
        step: HookStep,
    ) -> Result<Step, PhaseError> {
        let Some(hook) = record.hooks.get(hook_index(step)) else {
            return Ok(Step::Done);
        };
        match step {
            HookStep::Delete(_) => self.delete_hook(record, hook).await,
            HookStep::Create(at) => self.create_hook(record, at, event).await,
            HookStep::Watch(at) => self.watch_hook(record, at, event).await,
            // Logs are for a user who runs the Helm CLI in a terminal.
            HookStep::Log(_) => Ok(Step::Done),
        }
    }

    async fn delete_hook(
        &mut self,
        record: &Release,
        hook: &RecordedHook,
    ) -> Result<Step, PhaseError> {
        let mut pauses = Pauses::new();
        loop {
            let mut left = Vec::new();
            for item in self.hook_items(record, hook).await? {
                let (object, resource) = (&item.object, &item.resource);
                let (namespace, name) = (object.namespace(), object.name());
                let live = self.target.cluster.get(resource, namespace, name).await?;
                let Some(live) = live else {
                    continue;
                };
                if live.meta("deletionTimestamp").is_empty() {
                    let applier = self.target.applier(Strategy::HELM);
                    let deletion = applier.delete(resource, &live, "Background", &|_| true);
                    deletion.await?;
                    self.record_deleted(&live);
                }
                if self
                    .target
                    .cluster
                    .get(resource, namespace, name)
                    .await?
                    .is_some()
                {
                    left.push((live.id(), health_text(Health::Terminating, "")));
                }
            }
            let paused = self.pause_for(&left, &mut pauses, Self::termination_timeout_message);
            if let Some(end) = paused.await? {
                return Ok(end);
            }
        }
    }

    async fn create_hook(
        &mut self,
        record: &Release,
        at: usize,
        event: HookEvent,
    ) -> Result<Step, PhaseError> {
        let items = self.hook_items(record, &record.hooks[at]).await?;
        let was_started = record.hooks[at].last_run.phase == HookPhase::Running;
        let mut started = record.clone();
        started.hooks[at].start(self.moment());
        self.write(started).await?;
        for item in items {
            let applier = self.target.applier(Strategy::HELM);
            let created = match record.is_server_side() {
                true => applier.apply(&item.resource, &item.object).await,
                false => applier.create(&item.resource, &item.object).await,
            };
            if let Ok(created) = &created {
                self.record_applied(None, created);
            }
            if let Err(error) = created {
                // A previous step may have created the object before it crashed.
                if was_started && error.kind == ErrorKind::Conflict {
                    continue;
                }
                let error = PhaseError::from(error);
                if let PhaseError::Failed(cause) = &error {
                    let now = self.moment();
                    self.note_hook(at, now, false);
                    let message = record.hooks[at].create_failure(event, cause);
                    return Err(PhaseError::Failed(message));
                }
                return Err(error);
            }
        }
        Ok(Step::Done)
    }

    async fn watch_hook(
        &mut self,
        record: &Release,
        at: usize,
        event: HookEvent,
    ) -> Result<Step, PhaseError> {
        let is_legacy = self.release.waits_as_helm_3();
        let exprs = expressions(&self.release.spec.health_check_exprs, &self.context.fuel)
            .map_err(|failure| PhaseError::Failed(failure.message))?;
        let exprs = (!is_legacy).then_some(&exprs);
        let mut pauses = Pauses::new();
        let cause = loop {
            let (mut open, mut failed, mut causes) = (Vec::new(), Vec::new(), Vec::new());
            for item in self.hook_items(record, &record.hooks[at]).await? {
                let (object, resource) = (&item.object, &item.resource);
                let live = self
                    .target
                    .cluster
                    .get(resource, object.namespace(), object.name())
                    .await?;
                match verdict(object, live.as_ref(), exprs) {
                    Verdict::Done => {}
                    Verdict::Open => open.push((object.id(), health_text(Health::InProgress, ""))),
                    Verdict::Failed(cause) => {
                        failed.push((object.id(), health_text(Health::Failed, "")));
                        causes.push(cause);
                    }
                }
            }
            // One failed object does not end the wait for the others, which may be migrations.
            match (causes.first(), open.is_empty()) {
                (Some(cause), _) if is_legacy => break cause.clone(),
                (Some(_), true) => {
                    let failed = list(&failed);
                    break format!("failed early due to stalled resources: [{failed}]");
                }
                (None, true) => {
                    let now = self.moment();
                    self.note_hook(at, now, true);
                    return Ok(Step::Done);
                }
                (_, false) => {}
            }
            match self.pause(&mut pauses).await? {
                PollDecision::Poll => {}
                PollDecision::StepEnds => return Ok(Step::Waiting(list(&open))),
                PollDecision::TooLate if is_legacy => break TIMED_OUT.to_owned(),
                PollDecision::TooLate => {
                    open.append(&mut failed);
                    break self.timeout_message(&open);
                }
            }
        };
        let now = self.moment();
        self.note_hook(at, now, false);
        for step in steps_after_failure(&record.hooks, event, at) {
            if let HookStep::Delete(at) = step {
                for item in self.hook_items(record, &record.hooks[at]).await? {
                    let (object, resource) = (&item.object, &item.resource);
                    let (namespace, name) = (object.namespace(), object.name());
                    if let Some(live) = self.target.cluster.get(resource, namespace, name).await? {
                        let applier = self.target.applier(Strategy::HELM);
                        let deletion = applier.delete(resource, &live, "Background", &|_| true);
                        deletion.await?;
                    }
                }
            }
        }
        Err(PhaseError::Failed(cause))
    }

    /// Notes the result of a hook in the record in memory; the next write of the record stores it.
    fn note_hook(&mut self, at: usize, now: Time, succeeded: bool) {
        let version = self
            .memory
            .running
            .as_ref()
            .map_or(0, |running| running.record);
        let record = self.storage.get_mut(version);
        if let Some(hook) = record.and_then(|record| record.hooks.get_mut(at)) {
            hook.finish(now, succeeded);
            self.dirty = true;
        }
    }

    /// Returns the objects of a hook. They do not have Helm's ownership labels and annotations.
    async fn hook_items(
        &self,
        record: &Release,
        hook: &RecordedHook,
    ) -> Result<Vec<Item>, PhaseError> {
        let unreadable = |error: &dyn std::fmt::Display| {
            PhaseError::Failed(format!(
                "unable to build kubernetes object for hook {}: {error}",
                hook.path
            ))
        };
        let text = hook.manifest.as_bytes();
        let values = documents(text, &hook.path, Dialect::V2, &Limits::default());
        let mut items = Vec::new();
        for value in values.map_err(|error| unreadable(&error))? {
            if value.is_null() {
                continue;
            }
            let mut object = Object::new(value).map_err(|error| unreadable(&error))?;
            let resource = self.resource(&object).await?;
            if resource.namespaced && object.namespace().is_empty() {
                object.set_namespace(&record.namespace);
            }
            driftless_plans::apply::normalize::object(&mut object);
            items.push(Item { object, resource });
        }
        Ok(items)
    }
}

fn hook_index(step: HookStep) -> usize {
    match step {
        HookStep::Delete(at) | HookStep::Create(at) | HookStep::Watch(at) | HookStep::Log(at) => at,
    }
}

enum Verdict {
    Done,
    Open,
    Failed(String),
}

/// Returns the state of a hook's object: a Job or Pod is done when it succeeded, a kind with health
/// expressions when they are true, and any other object when it exists.
fn verdict(object: &Object, live: Option<&Object>, exprs: Option<&HealthExprs>) -> Verdict {
    let name = object.name();
    let status = |pointer: &str| live.and_then(|live| live.pointer(pointer));
    match (object.group(), object.kind()) {
        ("batch", "Job") => {
            let all = status("/status/conditions").and_then(Value::as_array);
            let holds = |kind: &str| {
                let mut all = all.into_iter().flatten();
                all.find(|one| one["type"] == kind && one["status"] == "True")
            };
            if let Some(failed) = holds("Failed") {
                let reason = failed["reason"].as_str().unwrap_or_default();
                return Verdict::Failed(format!("job {name} failed: {reason}"));
            }
            match holds("Complete").is_some() || (live.is_none() && expires(object)) {
                true => Verdict::Done,
                false => Verdict::Open,
            }
        }
        ("", "Pod") => match status("/status/phase").and_then(Value::as_str) {
            Some("Succeeded") => Verdict::Done,
            Some("Failed") => Verdict::Failed(format!("pod {name} failed")),
            _ => Verdict::Open,
        },
        _ => match exprs.and_then(|exprs| exprs.assess(live.unwrap_or(object))) {
            None => Verdict::Done,
            Some(Ok(found)) if found.status == Health::Current => Verdict::Done,
            Some(Ok(found)) if found.status == Health::Failed => Verdict::Failed(found.message),
            Some(_) => Verdict::Open,
        },
    }
}
