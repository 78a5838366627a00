//! Runs every step until nothing moves any more. Time jumps: a wait costs nothing.

use super::define;
use super::report::Report;
use crate::embedded::{Made, Row, StandIn, State, World};
use crate::error::Error;
use crate::fleet::{Files, Fleet, encrypted};
use driftless_core::flux::{FluxKind, ObjectRef, reason};
use driftless_core::ports::{Cause, Clock as _, Patch, Request};
use driftless_core::testing::{MemoryQueue, TestClock};
use driftless_core::{step, sweep};
use driftless_manifest::Object;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two rounds: longer than the timer gives a lost message, and than a failure waits for its first retry.
const ROUND: Duration = Duration::from_secs(60);
/// Longer than any timeout of a health check.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Rounds until a fleet that never comes to rest is told as it is.
const ROUNDS: usize = 60;
/// Steps of one round.
const STEPS: usize = 100_000;
/// The reason of what counts as ready because it cannot be looked at.
pub const ASSUMED: &str = "NotChecked";
const MANAGER: &str = "driftless-check";

type Id = (String, ObjectRef);

/// A fleet on its way to rest.
pub struct Drive<'a> {
    world: &'a World,
    queue: Arc<MemoryQueue>,
    clock: Arc<TestClock>,
    /// What waits, and until when.
    waiting: BTreeMap<Id, (Duration, Request)>,
    /// What counts as ready, and why.
    assumed: BTreeMap<Id, String>,
    made: Vec<StandIn>,
    definitions: define::Definitions,
    progress: ProgressBar,
}

impl<'a> Drive<'a> {
    /// A world where nothing has happened yet.
    pub fn new(world: &'a World, queue: Arc<MemoryQueue>, clock: Arc<TestClock>) -> Self {
        Self {
            world,
            queue,
            clock,
            waiting: BTreeMap::new(),
            assumed: BTreeMap::new(),
            made: Vec::new(),
            definitions: define::Definitions::default(),
            progress: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
        }
    }

    /// Until two rounds end alike.
    ///
    /// # Errors
    /// What a server of the world refuses, or a store.
    pub async fn run(&mut self) -> Result<(), Error> {
        let (mut before, mut forced) = (Vec::new(), false);
        for _ in 0..ROUNDS {
            if !forced {
                sweep::sweep(&self.world.ports).await?;
            }
            self.drain().await?;
            let rows = self.world.snapshot().await?;
            if self.resolve(&rows).await? {
                continue;
            }
            let now: Vec<_> = rows
                .iter()
                .map(|row| {
                    (
                        row.id.clone(),
                        row.hub.clone(),
                        row.state,
                        row.reason.clone(),
                        row.revision.clone(),
                    )
                })
                .collect();
            let rests = now == before;
            before = now;
            // What waits for its health gets the time that it allows itself.
            let waits = rows.iter().any(|row| row.state == State::Progressing);
            if rests && (!waits || forced) {
                break;
            }
            forced = rests;
            self.pass(if rests { DAY } else { ROUND });
        }
        self.progress.finish_and_clear();
        Ok(())
    }

    /// Time passes, and whatever waited for it is due.
    fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
        let now = self.clock.now();
        self.waiting
            .values_mut()
            .for_each(|(at, _)| *at = now.min(*at));
    }

    /// Every step that is due, and what follows from it.
    async fn drain(&mut self) -> Result<(), Error> {
        // Only a step that changed Flux objects, or missed something, can need more stand-ins.
        let mut look = true;
        for _ in 0..STEPS {
            if look {
                self.stand_in().await?;
            }
            self.take();
            let now = self.clock.now();
            let next = self
                .waiting
                .iter()
                .find(|(_, (at, _))| *at <= now)
                .map(|(key, _)| key.clone());
            let Some((_, request)) = next.and_then(|key| self.waiting.remove(&key)) else {
                break;
            };
            if self
                .assumed
                .contains_key(&(request.hub.clone(), request.object.clone()))
            {
                look = false;
                continue;
            }
            self.progress.set_message(request.object.to_string());
            self.progress.tick();
            let outcome = step::run(&self.world.ports, &request, Duration::ZERO).await?;
            let is_change = |(next, _): &(Request, Duration)| next.cause == Cause::Changed;
            look = outcome.failure.is_some() || outcome.next.iter().any(is_change);
        }
        Ok(())
    }

    /// Takes the queue over. Requests for one object are one, at the earliest of their times.
    fn take(&mut self) {
        let now = self.clock.now();
        for (request, delay) in self.queue.take() {
            let key = (request.hub.clone(), request.object.clone());
            let at = now + delay;
            let known = self.waiting.entry(key).or_insert((at, request.clone()));
            known.0 = known.0.min(at);
            // The cause that looks at the cluster, too, and not at the files alone.
            if request.cause == Cause::Again {
                known.1 = request;
            }
        }
    }

    async fn stand_in(&mut self) -> Result<(), Error> {
        for hub in &self.world.hubs {
            let made = self.world.stand_in(&hub.name).await?;
            for one in made {
                self.world
                    .ask(&one.hub, &one.object, Cause::Changed)
                    .await?;
                self.made.push(one);
            }
        }
        Ok(())
    }

    /// Takes what cannot be checked as ready and what has no definition as defined, so that the rest goes on. Whether there
    /// was any.
    async fn resolve(&mut self, rows: &[Row]) -> Result<bool, Error> {
        let mut any = false;
        for row in rows {
            if let Some(why) = self.unchecked(row) {
                self.assume(row, why).await?;
                any = true;
            } else if self.definitions.add(self.world, row).await? {
                self.world.ask(&row.hub, &row.id, Cause::Again).await?;
                any = true;
            }
        }
        if any {
            for row in rows.iter().filter(|row| row.state == State::Waiting) {
                self.world.ask(&row.hub, &row.id, Cause::Dependency).await?;
            }
        }
        Ok(any)
    }

    /// Why an object cannot be checked, if it cannot and is not assumed to be ready yet.
    fn unchecked(&self, row: &Row) -> Option<String> {
        let is_new = !self
            .assumed
            .contains_key(&(row.hub.clone(), row.id.clone()));
        if !is_new || row.state == State::Ready {
            return None;
        }
        if row.reason == reason::UNSUPPORTED && row.id.kind != FluxKind::Kustomization {
            let how = match row.id.kind {
                FluxKind::GitRepository => " (give --source URL=DIR or URL@BRANCH=DIR)",
                _ => "",
            };
            return Some(format!("{}{how}", row.message));
        }
        let source = row.source.as_ref()?;
        if self
            .assumed
            .contains_key(&(row.hub.clone(), source.clone()))
        {
            return Some(format!("its source {source} was not"));
        }
        let unhealthy = row.reason == reason::HEALTH_CHECK_FAILED;
        let is_absent = row.message.contains("status: 'NotFound'");
        if unhealthy && (!is_absent || self.brings_unknown(row)) {
            return Some(format!(
                "what makes its objects healthy is not here: {}",
                row.message
            ));
        }
        None
    }

    /// Whether something that was not checked may bring more to the cluster of an object.
    fn brings_unknown(&self, row: &Row) -> bool {
        self.assumed.keys().any(|(hub, id)| {
            *hub == row.hub
                && !matches!(
                    id.kind,
                    FluxKind::Receiver | FluxKind::Provider | FluxKind::Alert
                )
        })
    }

    async fn assume(&mut self, row: &Row, why: String) -> Result<(), Error> {
        let hub = self.world.hub(&row.hub).await?;
        if let Some(object) = hub.get(&row.id).await? {
            let resource = hub.resource(row.id.kind).await?;
            let patch = Patch::Merge(ready(&object));
            let (namespace, name) = (&row.id.namespace, &row.id.name);
            hub.cluster
                .patch(&resource, namespace, name, Some("status"), &patch, MANAGER)
                .await?;
        }
        self.assumed.insert((row.hub.clone(), row.id.clone()), why);
        Ok(())
    }

    /// What came out.
    ///
    /// # Errors
    /// What a server of the world refuses.
    pub async fn report(self, fleet: &Fleet) -> Result<Report, Error> {
        let rows = self.world.snapshot().await?;
        let mut report = Report::new(&rows, self.world, fleet);
        for ((hub, id), why) in &self.assumed {
            report.unchecked(hub, id, why);
        }
        for row in &rows {
            match row.state {
                State::Ready => {}
                State::Failed => report.fail(row, &row.told),
                State::Waiting => report.unchecked(&row.hub, &row.id, &row.message),
                State::Suspended => report.unchecked(&row.hub, &row.id, "it is suspended"),
                State::Progressing => {
                    report.unchecked(&row.hub, &row.id, "it did not come to rest")
                }
            }
        }
        for missing in self.definitions.missing() {
            match self.brings_unknown(&missing.row) {
                true => report.unchecked(&missing.row.hub, &missing.row.id, &missing.why()),
                false => report.fail(&missing.row, &missing.told),
            }
        }
        for one in &self.made {
            if let Made::Cluster(name) = &one.what {
                let text = format!("cluster {name} stands in for that of {}", one.told);
                report.note(&one.hub, &one.object, text);
            }
        }
        if fleet.age_keys.is_none() {
            for (root, tree) in self.world.git.all()? {
                for (path, _) in encrypted::files(&tree) {
                    let place = Files::place_in(&root, &path);
                    report.unchecked_file(
                        place,
                        "it is encrypted, placeholders stand in for its values (give --age-key)",
                    );
                }
            }
        }
        Ok(report)
    }
}

/// The status of an object that counts as ready.
fn ready(object: &Object) -> Value {
    let generation = driftless_core::status::generation(object);
    let attempted = object
        .pointer("/status/lastAttemptedRevision")
        .cloned()
        .unwrap_or_default();
    let condition = json!({"type": "Ready", "status": "True", "reason": ASSUMED, "message": "not checked, taken as ready",
        "observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:00:00Z"});
    let mut status = json!({"observedGeneration": generation, "conditions": [condition]});
    if attempted.is_string() {
        status["lastAppliedRevision"] = attempted;
    }
    json!({"status": status})
}
