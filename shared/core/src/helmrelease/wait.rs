//! Waiting for the objects of a release to be ready or gone.

use super::attempt::Attempt;
use super::memory::Doing;
use super::objects::{self, CONCURRENCY, Item};
use super::run::{Broken, Step, list};
use crate::concurrent;
use crate::flux::timestamp;
use crate::health::{self, Health, HealthExprs};
use crate::kustomization::wait::{expressions, health_of};
use driftless_manifest::{Object, ObjectId};
use futures::FutureExt as _;
use std::time::Duration;

/// The first pause between two looks; they grow.
pub const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
impl Attempt<'_> {
    /// The time that one operation of what is under way may take.
    fn timeout(&mut self) -> Result<Duration, Broken> {
        let doing = &self.running().map_err(Broken::Later)?.doing.clone();
        let timeout = match doing {
            Doing::Act(action) => action.timeout(&self.release),
            Doing::Uninstall => self.release.uninstall_timeout(),
        };
        timeout.map_err(Broken::Failed)
    }

    /// Whether what is waited for took too long; else pauses if the step has the patience for it.
    pub async fn pause(&mut self, pause: &mut Duration) -> Result<Paused, Broken> {
        let timeout = self.timeout()?;
        let clock = self.context.ports.clock.clone();
        let now = clock.now();
        let running = self.running().map_err(Broken::Later)?;
        if running.cursor.is_late(now, timeout) {
            return Ok(Paused::TooLate);
        }
        if now + *pause > self.deadline {
            return Ok(Paused::NoPatience);
        }
        clock.sleep(*pause).await;
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        Ok(Paused::Look)
    }

    /// Waits until every object of the release is ready.
    ///
    /// # Errors
    /// One failed, or it takes too long.
    pub async fn wait(&mut self, jobs: bool) -> Result<Step, Broken> {
        let record = self.record()?;
        let items = objects::items(&self.target, &record).await?;
        let exprs = expressions(&self.release.spec.health_check_exprs)
            .map_err(|failure| Broken::Failed(failure.message))?;
        let mut pause = FIRST_PAUSE;
        loop {
            let live = objects::live(&self.target, &self.release, &items).await?;
            let now = self.context.ports.clock.now();
            let looks = items.iter().map(|item| {
                let live = live.get(&item.object.id());
                self.assess(item, live, &exprs, jobs, now).boxed()
            });
            let looks = concurrent::run(CONCURRENCY, looks.collect()).await;
            let of = |wanted: fn(Health) -> bool| -> Vec<(ObjectId, String)> {
                let some = looks.iter().filter(|(_, health)| wanted(*health));
                some.map(|(id, health)| (id.clone(), health.to_string()))
                    .collect()
            };
            let failed = of(|health| health == Health::Failed);
            if !failed.is_empty() {
                let what = format!("failed early due to stalled resources: [{}]", list(&failed));
                return Err(Broken::Failed(what));
            }
            let open = of(|health| health != Health::Current);
            if open.is_empty() {
                return Ok(Step::Done);
            }
            match self.pause(&mut pause).await? {
                Paused::Look => {}
                Paused::NoPatience => return Ok(Step::Waiting(list(&open))),
                Paused::TooLate => {
                    let what = format!("timeout waiting for: [{}]", list(&open));
                    return Err(Broken::Failed(what));
                }
            }
        }
    }

    async fn assess(
        &self,
        item: &Item,
        live: Option<&Object>,
        exprs: &HealthExprs,
        jobs: bool,
        now: Duration,
    ) -> (ObjectId, Health) {
        let id = item.object.id();
        let Some(live) = live else {
            return (id, Health::NotFound);
        };
        let is_job = (live.group(), live.kind()) == ("batch", "Job");
        let health = if is_job && !jobs {
            health::kstatus(live, timestamp(now)).map_or(Health::Unknown, |found| found.status)
        } else {
            health_of(&self.target, live, exprs, now).await.status
        };
        (id, health)
    }

    /// Waits until the deleted objects are gone.
    ///
    /// # Errors
    /// It takes too long.
    pub async fn wait_gone(&mut self) -> Result<Step, Broken> {
        let record = self.record()?;
        let (items, _) = objects::known_items(&self.target, &record).await?;
        let mut pause = FIRST_PAUSE;
        loop {
            let live = objects::live(&self.target, &self.release, &items).await?;
            let left = live
                .into_values()
                .filter(|live| !live.meta("deletionTimestamp").is_empty());
            let left: Vec<_> = left
                .map(|live| (live.id(), Health::Terminating.to_string()))
                .collect();
            if left.is_empty() {
                return Ok(Step::Done);
            }
            match self.pause(&mut pause).await? {
                Paused::Look => {}
                Paused::NoPatience => return Ok(Step::Waiting(list(&left))),
                Paused::TooLate => {
                    let what = format!("timeout waiting for: [{}]", list(&left));
                    return Err(Broken::Failed(what));
                }
            }
        }
    }
}

/// What to do about something that is not there yet.
pub enum Paused {
    /// Look again.
    Look,
    /// Look with the next step.
    NoPatience,
    /// Give up.
    TooLate,
}
