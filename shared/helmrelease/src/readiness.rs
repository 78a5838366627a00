//! Waits until the objects of a release are ready or gone.

use super::attempt::Attempt;
use super::objects;
use super::phase::{PhaseError, Step};
use super::plan::Operation;
use super::run::{health_text, list};
use driftless_flux::timestamp;
use driftless_kernel::concurrent;
use driftless_kernel::ports::ListRequest;
use driftless_kernel::target::health::{expressions, health_of};
use driftless_kernel::target::objects::{CONCURRENCY, Item};
use driftless_kernel::target::polling::{Pauses, PollDecision};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::fingerprint::expires;
use driftless_plans::health::{self, Assessment, Health, HealthExprs, legacy};
use futures::FutureExt as _;
use serde_json::Value;
use std::time::Duration;

/// Go's message about an exceeded deadline.
const DEADLINE: &str = "context deadline exceeded";

impl Attempt<'_> {
    /// Returns the timeout of one operation of the running action.
    fn timeout(&mut self) -> Result<Duration, PhaseError> {
        let operation = &self
            .running()
            .map_err(PhaseError::Transient)?
            .operation
            .clone();
        let timeout = match operation {
            Operation::Act(action) => action.timeout(&self.release),
            Operation::Uninstall => self.release.uninstall_timeout(),
        };
        timeout.map_err(|error| PhaseError::Failed(error.to_string()))
    }

    /// Pauses, unless the wait exceeds its timeout or the step may not wait longer.
    pub async fn pause(&mut self, pauses: &mut Pauses) -> Result<PollDecision, PhaseError> {
        let timeout = self.timeout()?;
        let clock = self.context.ports.clock.clone();
        let running = self.running().map_err(PhaseError::Transient)?;
        let is_late = running.cursor.is_late(clock.now(), timeout);
        Ok(pauses.pause(clock.as_ref(), is_late, self.deadline).await)
    }

    /// Pauses for open objects. Returns the end of the wait instead, if no object is open or the
    /// step may not wait longer.
    ///
    /// # Errors
    /// The wait exceeds its timeout; `late` makes the message.
    pub async fn pause_for(
        &mut self,
        open: &[(ObjectId, String)],
        pauses: &mut Pauses,
        late: fn(&Self, &[(ObjectId, String)]) -> String,
    ) -> Result<Option<Step>, PhaseError> {
        if open.is_empty() {
            return Ok(Some(Step::Done));
        }
        match self.pause(pauses).await? {
            PollDecision::Poll => Ok(None),
            PollDecision::StepEnds => Ok(Some(Step::Waiting(list(open)))),
            PollDecision::TooLate => Err(PhaseError::Failed(late(self, open))),
        }
    }

    /// Waits until every object of the release is ready.
    ///
    /// # Errors
    /// An object failed, or the timeout is exceeded.
    pub async fn wait(&mut self, jobs: bool) -> Result<Step, PhaseError> {
        let record = self.record()?;
        let mut items = objects::items(&self.target, &record, "").await?;
        items.retain(|item| !is_paused(&item.object));
        let exprs = expressions(&self.release.spec.health_check_exprs, &self.context.fuel)
            .map_err(|failure| PhaseError::Failed(failure.message))?;
        let mut pauses = Pauses::new();
        loop {
            let live = objects::live(&self.target, &self.release, &items).await?;
            let now = self.context.ports.clock.now();
            let assessments = items.iter().map(|item| {
                let live = live.get(&item.object.id());
                self.assess(item, live, &exprs, jobs, now).boxed()
            });
            let assessments = concurrent::run(CONCURRENCY, assessments.collect()).await;
            let assessments: Vec<_> = assessments.into_iter().collect::<Result<_, _>>()?;
            let select = |matches: fn(Health) -> bool| -> Vec<(ObjectId, String)> {
                let selected = assessments
                    .iter()
                    .filter(|(_, found)| matches(found.status));
                selected
                    .map(|(id, found)| (id.clone(), health_text(found.status, &found.message)))
                    .collect()
            };
            let failed = select(|health| health == Health::Failed);
            if !failed.is_empty() {
                let failed = list(&failed);
                return Err(PhaseError::Failed(format!(
                    "failed early due to stalled resources: [{failed}]"
                )));
            }
            let open = select(|health| health != Health::Current);
            let paused = self.pause_for(&open, &mut pauses, Self::timeout_message);
            if let Some(end) = paused.await? {
                return Ok(end);
            }
        }
    }

    /// Returns the message of a wait that exceeds its timeout.
    pub fn timeout_message(&self, open: &[(ObjectId, String)]) -> String {
        match self.release.waits_as_helm_3() {
            true => DEADLINE.to_owned(),
            false => format!("timeout waiting for: [{}]", list(open)),
        }
    }

    /// Returns the message of objects that are not gone in time.
    pub fn termination_timeout_message(&self, left: &[(ObjectId, String)]) -> String {
        match left.first() {
            Some((id, _)) if !self.release.waits_as_helm_3() => {
                format!("{id} termination timeout: {DEADLINE}")
            }
            _ => DEADLINE.to_owned(),
        }
    }

    async fn assess(
        &self,
        item: &Item,
        live: Option<&Object>,
        exprs: &HealthExprs,
        jobs: bool,
        now: Duration,
    ) -> Result<(ObjectId, Assessment), PhaseError> {
        let id = item.object.id();
        let bare = |status| Assessment {
            status,
            message: String::new(),
        };
        let Some(live) = live else {
            let health = match expires(&item.object) {
                true => Health::Current,
                false => Health::NotFound,
            };
            return Ok((id, bare(health)));
        };
        if self.release.waits_as_helm_3() {
            let listed = self.helpers(live).await?;
            let is_ready = legacy::is_ready(live, &listed, jobs)
                .map_err(|error| PhaseError::Failed(error.to_string()))?;
            let health = match is_ready {
                true => Health::Current,
                false => Health::InProgress,
            };
            return Ok((id, bare(health)));
        }
        let is_job = (live.group(), live.kind()) == ("batch", "Job");
        let found = if is_job && !jobs {
            health::kstatus(live, timestamp(now)).unwrap_or_else(|_| bare(Health::Unknown))
        } else {
            health_of(&self.target, live, exprs, now).await
        };
        Ok((id, found))
    }

    async fn helpers(&self, live: &Object) -> Result<Vec<Object>, PhaseError> {
        let Some(helpers) = legacy::helpers(live) else {
            return Ok(Vec::new());
        };
        let cluster = self.target.cluster.as_ref();
        let Some(resource) = cluster.resource(&helpers.gvk).await? else {
            return Ok(Vec::new());
        };
        let request = ListRequest {
            resource: &resource,
            namespace: live.namespace(),
            selector: &helpers.selector,
        };
        Ok(cluster.list(&request).await?)
    }

    /// Waits until the deleted objects are gone.
    ///
    /// # Errors
    /// The timeout is exceeded.
    pub async fn wait_gone(&mut self) -> Result<Step, PhaseError> {
        let items = objects::possible_items(&self.target, &self.storage).await?;
        let mut pauses = Pauses::new();
        loop {
            let live = objects::live_owned(&self.target, &self.release, &items).await?;
            let left = live
                .into_values()
                .filter(|live| !live.meta("deletionTimestamp").is_empty());
            let left: Vec<_> = left
                .map(|live| (live.id(), health_text(Health::Terminating, "")))
                .collect();
            let paused = self.pause_for(&left, &mut pauses, |attempt, left| {
                let error = attempt.termination_timeout_message(left);
                format!("uninstallation completed with 1 error(s): {error}")
            });
            if let Some(end) = paused.await? {
                return Ok(end);
            }
        }
    }
}

/// Returns whether an object is a paused Deployment, which is not waited for.
fn is_paused(object: &Object) -> bool {
    (object.api_version(), object.kind()) == ("apps/v1", "Deployment")
        && object.pointer("/spec/paused") == Some(&Value::Bool(true))
}
