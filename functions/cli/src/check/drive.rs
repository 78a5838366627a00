//! Runs every step until the state of the fleet no longer changes. The clock is simulated, so that waiting takes no time.

use super::assume::{ASSUMED, Assumed};
use super::cause::{Cause, Causes, Met, UNSERVED};
use super::hosts::FileStandIns;
use super::lenient::Refused;
use super::make::MadeUp;
use super::policies;
use super::report::Report;
use super::steps::Steps;
use super::supply::Supply;
use super::waiting::Dependencies;
use crate::embedded::{Finding, Objects, Row, State, World};
use crate::error::Error;
use crate::fleet::{Files, Fleet, Place, encrypted};
use driftless_core::flux::{FluxKind, ObjectRef, reason};
use driftless_core::ports::{Cause as Why, Clock as _, Request};
use driftless_core::testing::{MemoryQueue, TestClock};
use driftless_core::{step, sweep};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The time between two rounds: longer than the timer's interval for lost messages, and than the first back-off of a failure.
const ROUND: Duration = Duration::from_secs(60);
/// Longer than any timeout of a health check.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The number of rounds after which a fleet that still changes is reported unchanged.
const ROUNDS: usize = 200;
/// The rounds of one day each for objects that wait for health checks: a failed check restarts, and its failure is visible in the next round.
const WAITS: usize = 3;
/// The highest number of steps in one round.
const STEPS: usize = 100_000;

type Id = (String, ObjectRef);

/// The run of a check: the queue, the clock, and the stand-ins so far.
pub struct Drive<'a> {
    world: &'a World,
    fleet: &'a Fleet,
    queue: Arc<MemoryQueue>,
    clock: Arc<TestClock>,
    /// The queued requests by object, each with the time when it is due.
    waiting: BTreeMap<Id, (Duration, Request)>,
    /// Every object that was ever queued.
    asked: BTreeSet<Id>,
    supply: Supply,
    assumed: Assumed,
    made: MadeUp,
    refused: Refused,
    allow_unserved: bool,
    files: FileStandIns,
    steps: Steps,
}

/// The inputs of a run.
pub struct Plan<'a> {
    /// The fleet repository and its hubs.
    pub fleet: &'a Fleet,
    /// The objects of `--with`.
    pub supply: Supply,
    /// Writes that clusters refuse because of placeholders.
    pub refused: Refused,
    /// The value of the feature gate ExternalArtifact, if it is set.
    pub external_artifacts: Option<bool>,
    /// True if what driftless refuses to serve is a note, and not an error.
    pub allow_unserved: bool,
    /// Placeholders for files that are not fetched.
    pub files: FileStandIns,
}

impl<'a> Drive<'a> {
    /// Creates a run before its first step.
    pub fn new(
        world: &'a World,
        plan: Plan<'a>,
        queue: Arc<MemoryQueue>,
        clock: Arc<TestClock>,
    ) -> Self {
        Self {
            world,
            fleet: plan.fleet,
            queue,
            clock,
            waiting: BTreeMap::new(),
            asked: BTreeSet::new(),
            supply: plan.supply,
            assumed: Assumed::new(plan.external_artifacts),
            made: MadeUp::new(plan.refused.clone()),
            refused: plan.refused,
            allow_unserved: plan.allow_unserved,
            files: plan.files,
            steps: Steps::new(),
        }
    }

    /// Runs rounds until two of them end in the same state and no stand-in is missing.
    ///
    /// # Errors
    /// A server of the world refuses a request, or a store fails.
    pub async fn run(&mut self) -> Result<(), Error> {
        self.supply.apply(self.world).await?;
        // Queue the objects of the bootstrap; every other object is queued by the step that creates it.
        sweep::sweep(&self.world.ports).await?;
        let (mut before, mut waited) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            self.drain().await?;
            let objects = self.world.objects().await?;
            let rows = self.world.rows(&objects);
            self.steps.seen(&rows);
            if self.assume(&rows, &objects).await? {
                self.ask_open(&rows).await?;
                continue;
            }
            let now = stand(&rows);
            let rests = now == before;
            before = now;
            if rests && self.world.capsule(&rows).await? {
                (before, waited) = (Vec::new(), 0);
                self.ask_open(&rows).await?;
                continue;
            }
            if rests && self.make_up(&rows, &objects).await? {
                (before, waited) = (Vec::new(), 0);
                self.ask_open(&rows).await?;
                continue;
            }
            // Give health checks the time of their own timeouts.
            let waits = rows.iter().any(|row| row.state == State::Progressing);
            if rests && (!waits || waited == WAITS) {
                break;
            }
            waited = if rests { waited + 1 } else { 0 };
            self.pass(if rests { DAY } else { ROUND });
            self.ask_open(&rows).await?;
        }
        Ok(())
    }

    /// Assumes that objects which cannot be checked are ready. Returns whether there was any.
    async fn assume(&mut self, rows: &[Row], objects: &Objects) -> Result<bool, Error> {
        let (world, made, refused) = (self.world, &self.made, &self.refused);
        self.assumed.add(world, rows, objects, made, refused).await
    }

    /// Creates stand-ins for what objects failed for, then excuses objects that still fail because of stand-ins. Returns whether there was any.
    async fn make_up(&mut self, rows: &[Row], objects: &Objects) -> Result<bool, Error> {
        let world = self.world;
        if self.made.add(world, self.fleet, rows, objects).await? {
            self.supply.apply(world).await?;
            return Ok(true);
        }
        self.assumed.excuse(world, rows, objects, &self.made).await
    }

    /// Queues the objects that are not ready, and those that were never queued.
    async fn ask_open(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let is_known = self.asked.contains(&(row.hub.clone(), row.id.clone()));
            let is_open = !matches!(row.state, State::Ready | State::Suspended);
            if is_open || !is_known {
                self.world.ask(&row.hub, &row.id, Why::Requeue).await?;
            }
        }
        Ok(())
    }

    /// Advances the clock and makes every queued request due.
    fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
        let now = self.clock.now();
        self.waiting
            .values_mut()
            .for_each(|(at, _)| *at = now.min(*at));
    }

    /// Runs every step that is due, and those that follow from it.
    async fn drain(&mut self) -> Result<(), Error> {
        for _ in 0..STEPS {
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
            if self.assumed.contains(&request.hub, &request.object) {
                continue;
            }
            self.steps.step(&request);
            step::run(&self.world.ports, &request, Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Takes the messages from the queue. Requests of one object are merged, at the earliest of their times.
    fn take(&mut self) {
        let now = self.clock.now();
        for (mut request, delay) in self.queue.take() {
            // Each object has one request, which is never stale; it may run before its time because the clock jumps.
            request.token = None;
            let key = (request.hub.clone(), request.object.clone());
            let at = now + delay;
            self.asked.insert(key.clone());
            let known = self.waiting.entry(key).or_insert((at, request.clone()));
            known.0 = known.0.min(at);
            // This cause also reconciles the cluster, the others only read files.
            if request.cause == Why::Requeue {
                known.1 = request;
            }
        }
    }

    /// Reports the results of the run.
    ///
    /// # Errors
    /// A server of the world refuses a request.
    pub async fn report(self) -> Result<Report, Error> {
        let objects = self.world.objects().await?;
        let rows = self.world.rows(&objects);
        let mut report = Report::new(&rows, self.world, self.fleet, self.steps.count());
        let mut causes = Causes::new();
        self.assumed.tell(&rows, &mut causes);
        self.made
            .tell(&rows, &objects, self.fleet.sops_keys.is_some(), &mut causes);
        let charts = failed_charts(&rows);
        let dependencies = Dependencies {
            world: self.world,
            rows: &rows,
            objects: &objects,
            assumed: &self.assumed,
            made: &self.made,
        };
        for row in &rows {
            let is_checked = row.state == State::Ready && row.reason != ASSUMED;
            let never_ready = match is_checked || row.state == State::Suspended {
                true => Vec::new(),
                false => dependencies.errors(row),
            };
            if !never_ready.is_empty() {
                report.fail(row, &self.tell(row, never_ready.join("\n")).await?);
                continue;
            }
            let chart = row
                .source
                .as_ref()
                .and_then(|source| charts.get(&(&*row.hub, source)));
            match row.state {
                State::Ready => {}
                // The chart is not in a file: report it with the release that created it.
                State::Failed if is_used_chart(row, &rows) => {}
                State::Failed | State::Waiting if chart.is_some() => {
                    let message = chart.map(|chart| chart.message.clone());
                    report.fail(row, &self.tell(row, message.unwrap_or_default()).await?);
                }
                State::Failed => report.fail(row, &self.errors(row).await?),
                State::Waiting => waits(row, &mut causes),
                State::Suspended => one(row, "it is suspended", &mut causes),
                State::Progressing => one(row, "it did not come to rest", &mut causes),
            }
        }
        self.refused_objects(&rows, &mut causes);
        policies::unevaluated(&rows, &mut causes);
        policies::warned(self.world, &mut causes);
        self.unsaid(&mut causes);
        self.unserved(&rows, &mut causes, &mut report).await?;
        self.encrypted(&mut causes, &mut report)?;
        report.reach(self.world, &rows, &mut causes);
        report.notes = causes;
        Ok(report)
    }

    /// Locates a message that replaces the one in an object's status.
    async fn tell(&self, row: &Row, message: String) -> Result<Vec<Finding>, Error> {
        let other = Row {
            message,
            ..row.clone()
        };
        self.world.tell(&other).await
    }

    /// Adds what driftless refuses to serve, as errors or as notes.
    async fn unserved(
        &self,
        rows: &[Row],
        causes: &mut Causes,
        report: &mut Report,
    ) -> Result<(), Error> {
        let mut all = Causes::new();
        for (mut cause, objects) in self.assumed.unserved() {
            let mut met = Met::default();
            for (hub, id) in objects {
                met.hubs.insert(hub.to_owned());
                if cause.about.as_deref() != Some(&id.to_string()) {
                    met.users.insert(id.to_string());
                }
                let row = rows.iter().find(|row| row.hub == hub && row.id == *id);
                if let (Some(row), None) = (row, &cause.place) {
                    let told = self.tell(row, cause.message.clone()).await?;
                    cause.place = told.into_iter().find_map(|one| one.place);
                }
            }
            all.insert(cause, met);
        }
        // Kinds without a definition already have notes, with their objects.
        let of_kinds: Vec<Cause> = causes
            .keys()
            .filter(|cause| cause.is_unserved())
            .cloned()
            .collect();
        for cause in of_kinds {
            let met = causes.remove(&cause).unwrap_or_default();
            let place = self.place_of_users(&met, rows).await?;
            all.insert(Cause { place, ..cause }, met);
        }
        match self.allow_unserved {
            true => causes.extend(all),
            false => report.errors.extend(all),
        }
        Ok(())
    }

    /// Returns the place of the first of these objects that a Kustomization applied.
    async fn place_of_users(&self, met: &Met, rows: &[Row]) -> Result<Option<Place>, Error> {
        for row in rows.iter().filter(|row| met.hubs.contains(&row.hub)) {
            let mut applied = row.inventory.iter().map(|(id, _)| id.to_string());
            if let Some(first) = applied.find(|id| met.users.contains(id)) {
                let told = self.tell(row, format!("{first} not served")).await?;
                return Ok(told.into_iter().find_map(|one| one.place));
            }
        }
        Ok(None)
    }

    /// Returns the errors of an object that failed.
    async fn errors(&self, row: &Row) -> Result<Vec<Finding>, Error> {
        let source = row
            .source
            .as_ref()
            .filter(|source| source.kind == FluxKind::ExternalArtifact);
        let Some(source) = source.filter(|_| row.reason == reason::ARTIFACT_FAILED) else {
            let mut told = self.world.tell(row).await?;
            if row.reason == reason::UNSUPPORTED {
                for one in &mut told {
                    one.message = format!("{UNSERVED}{}", one.message);
                }
            }
            return Ok(told);
        };
        // The message of Flux's controllers when the feature gate is disabled.
        let message = format!("can't access '{source}', ExternalArtifact feature gate is disabled");
        self.tell(row, message).await
    }

    /// Adds notes about objects that need settings of an API server which are not known, and about files that are not fetched.
    fn unsaid(&self, causes: &mut Causes) {
        for (flag, objects) in self.refused.unsaid() {
            let cause = Cause::note(
                "API server",
                format!(
                    "objects need {flag}, which no configuration in the repository says (give it if the clusters have it)"
                ),
            );
            causes.entry(cause).or_default().users.extend(objects);
        }
        for url in self.files.all() {
            let why = "it was not fetched, a placeholder stands in for the entry (give --allow-remote-bases)";
            causes.entry(Cause::unchecked(url, why)).or_default();
        }
    }

    /// Adds notes about objects that clusters refuse because of placeholders, by the Secret or ConfigMap that the values come from.
    fn refused_objects(&self, rows: &[Row], causes: &mut Causes) {
        for (id, text) in self.refused.objects() {
            let cause = self.made.values.in_text(&text);
            let Some(of) = cause.and_then(|cause| cause.about) else {
                continue;
            };
            let why = "objects with placeholders for its values are refused, and taken as they are";
            let met = causes.entry(Cause::unchecked(of, why)).or_default();
            met.users.insert(id.to_string());
            let has = |row: &&Row| row.inventory.iter().any(|(applied, _)| *applied == id);
            met.hubs
                .extend(rows.iter().filter(has).map(|row| row.hub.clone()));
        }
    }

    /// Adds one note about all encrypted files without a key, and a diagnostic for each file that no age or OpenPGP key can decrypt.
    fn encrypted(&self, causes: &mut Causes, report: &mut Report) -> Result<(), Error> {
        let mut places = Vec::new();
        for (root, tree) in self.world.git.all()? {
            for (path, format) in encrypted::files(&tree) {
                let place = Files::place_in(&root, &path);
                let Some(services) = encrypted::other_services(&tree, &path, format) else {
                    places.push(place);
                    continue;
                };
                let why = format!(
                    "the file is encrypted for {services} alone, which no key that is given can open: add an age or OpenPGP \
                     recipient (.sops.yaml, then sops updatekeys)"
                );
                let cause = Cause {
                    place: Some(place),
                    about: None,
                    ..Cause::unserved("", why)
                };
                let all = match self.allow_unserved {
                    true => &mut *causes,
                    false => &mut report.errors,
                };
                all.entry(cause).or_default();
            }
        }
        places.sort();
        let Some((first, rest)) = places.split_first() else {
            return Ok(());
        };
        if self.fleet.sops_keys.is_some() {
            // A file that the keys do not decrypt is an error of its Kustomization.
            return Ok(());
        }
        let why = "it is encrypted, placeholders stand in for its values (give --sops-key)";
        let cause = Cause {
            place: Some(first.clone()),
            about: None,
            ..Cause::unchecked("", why)
        };
        let met = causes.entry(cause).or_default();
        met.users.extend(rest.iter().map(ToString::to_string));
        Ok(())
    }
}

fn failed_charts(rows: &[Row]) -> BTreeMap<(&str, &ObjectRef), &Row> {
    let charts = rows
        .iter()
        .filter(|row| row.id.kind == FluxKind::HelmChart && row.state == State::Failed);
    charts.map(|row| ((&*row.hub, &row.id), row)).collect()
}

/// Checks whether a release that is not ready uses a chart.
fn is_used_chart(chart: &Row, rows: &[Row]) -> bool {
    chart.id.kind == FluxKind::HelmChart
        && rows.iter().any(|row| {
            row.hub == chart.hub
                && row.source.as_ref() == Some(&chart.id)
                && matches!(row.state, State::Failed | State::Waiting)
        })
}

/// Returns the states of the objects, to compare two rounds. A failing health check restarts and therefore counts as one state.
fn stand(rows: &[Row]) -> Vec<(Id, State, String, String)> {
    let stand = |row: &Row| {
        let id = (row.hub.clone(), row.id.clone());
        let is_checked =
            row.state == State::Progressing || row.reason == reason::HEALTH_CHECK_FAILED;
        match is_checked {
            true => (id, State::Progressing, String::new(), row.revision.clone()),
            false => (id, row.state, row.reason.clone(), row.revision.clone()),
        }
    };
    rows.iter().map(stand).collect()
}

/// Adds a note about an object that waits for another one; objects with the same message share it.
fn waits(row: &Row, causes: &mut Causes) {
    let cause = Cause {
        about: None,
        ..Cause::unchecked("", &row.message)
    };
    let met = causes.entry(cause).or_default();
    met.hubs.insert(row.hub.clone());
    met.users.insert(row.id.to_string());
}

/// Adds a note about an object that was not checked.
fn one(row: &Row, why: &str, causes: &mut Causes) {
    let met = causes.entry(Cause::unchecked(&row.id, why)).or_default();
    met.hubs.insert(row.hub.clone());
}
