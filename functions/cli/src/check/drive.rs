//! Runs every step until nothing moves any more. Time jumps: a wait costs nothing.

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

/// Between two rounds: longer than the timer gives a lost message, and than a failure waits for its first retry.
const ROUND: Duration = Duration::from_secs(60);
/// Longer than any timeout of a health check.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Rounds until a fleet that never comes to rest is told as it is.
const ROUNDS: usize = 200;
/// Rounds of a day each that wait for objects' health: one that fails begins anew, and is seen as failed in the round after.
const WAITS: usize = 3;
/// Steps of one round.
const STEPS: usize = 100_000;

type Id = (String, ObjectRef);

/// A fleet on its way to rest.
pub struct Drive<'a> {
    world: &'a World,
    fleet: &'a Fleet,
    queue: Arc<MemoryQueue>,
    clock: Arc<TestClock>,
    /// What waits, and until when.
    waiting: BTreeMap<Id, (Duration, Request)>,
    /// Every object that was asked for.
    asked: BTreeSet<Id>,
    supply: Supply,
    assumed: Assumed,
    made: MadeUp,
    refused: Refused,
    allow_unserved: bool,
    files: FileStandIns,
    steps: Steps,
}

/// What a drive goes by, beside its world.
pub struct Plan<'a> {
    /// The fleet.
    pub fleet: &'a Fleet,
    /// What the clusters have and the repository does not.
    pub supply: Supply,
    /// What clusters refuse because of placeholders.
    pub refused: Refused,
    /// Whether sources of the kind ExternalArtifact were allowed or refused.
    pub external_artifacts: Option<bool>,
    /// Whether what driftless refuses to serve is a note.
    pub allow_unserved: bool,
    /// What stands in for files that are not fetched.
    pub files: FileStandIns,
}

impl<'a> Drive<'a> {
    /// A world where nothing has happened yet.
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

    /// Until two rounds end alike, and nothing more can be made up.
    ///
    /// # Errors
    /// What a server of the world refuses, or a store.
    pub async fn run(&mut self) -> Result<(), Error> {
        self.supply.apply(self.world).await?;
        // What is there from the beginning; every other object is asked for by whatever makes it.
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
            // What waits for its health gets the time that it allows itself.
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

    /// Takes what cannot be looked at as ready. Whether there was any.
    async fn assume(&mut self, rows: &[Row], objects: &Objects) -> Result<bool, Error> {
        let (world, made, refused) = (self.world, &self.made, &self.refused);
        self.assumed.add(world, rows, objects, made, refused).await
    }

    /// Makes up what objects failed for, and then excuses what still fails for it. Whether there was any.
    async fn make_up(&mut self, rows: &[Row], objects: &Objects) -> Result<bool, Error> {
        let world = self.world;
        if self.made.add(world, self.fleet, rows, objects).await? {
            self.supply.apply(world).await?;
            return Ok(true);
        }
        self.assumed.excuse(world, rows, objects, &self.made).await
    }

    /// Asks for what is not at its end, and for what nobody asked for yet.
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

    /// Takes the queue over. Requests for one object are one, at the earliest of their times.
    fn take(&mut self) {
        let now = self.clock.now();
        for (mut request, delay) in self.queue.take() {
            // There is one request an object, none is stale; and time jumps, so that it may come before its time.
            request.token = None;
            let key = (request.hub.clone(), request.object.clone());
            let at = now + delay;
            self.asked.insert(key.clone());
            let known = self.waiting.entry(key).or_insert((at, request.clone()));
            known.0 = known.0.min(at);
            // The cause that looks at the cluster, too, and not at the files alone.
            if request.cause == Why::Requeue {
                known.1 = request;
            }
        }
    }

    /// What came out.
    ///
    /// # Errors
    /// What a server of the world refuses.
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
                // The release that asks for a chart is what stands in a file.
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

    /// What there is to say of an object instead of the message of its status.
    async fn tell(&self, row: &Row, message: String) -> Result<Vec<Finding>, Error> {
        let other = Row {
            message,
            ..row.clone()
        };
        self.world.tell(&other).await
    }

    /// What driftless refuses to serve, as errors or as notes.
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
        // Kinds without a definition were noted where their objects are known.
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

    /// The place of the first object of some that Kustomizations applied.
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

    /// What is wrong with an object that failed.
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
        // As Flux's controllers say it where they do not allow the kind.
        let message = format!("can't access '{source}', ExternalArtifact feature gate is disabled");
        self.tell(row, message).await
    }

    /// What is taken although a cluster of its own may refuse it, and what is not fetched.
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

    /// Objects that clusters refuse because of placeholders, under what the values would come from.
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

    /// Files that nobody can read here, as one; those that no key of age or OpenPGP can open, each with what it needs.
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
            // What a key does not open is an error of its Kustomization.
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

/// The charts that failed.
fn failed_charts(rows: &[Row]) -> BTreeMap<(&str, &ObjectRef), &Row> {
    let charts = rows
        .iter()
        .filter(|row| row.id.kind == FluxKind::HelmChart && row.state == State::Failed);
    charts.map(|row| ((&*row.hub, &row.id), row)).collect()
}

/// Whether a release that is not ready asks for a chart.
fn is_used_chart(chart: &Row, rows: &[Row]) -> bool {
    chart.id.kind == FluxKind::HelmChart
        && rows.iter().any(|row| {
            row.hub == chart.hub
                && row.source.as_ref() == Some(&chart.id)
                && matches!(row.state, State::Failed | State::Waiting)
        })
}

/// How the objects stand, to compare two rounds by. A health check that fails begins anew: it counts as one state.
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

/// An object that waits for another one, with the others that do.
fn waits(row: &Row, causes: &mut Causes) {
    let cause = Cause {
        about: None,
        ..Cause::unchecked("", &row.message)
    };
    let met = causes.entry(cause).or_default();
    met.hubs.insert(row.hub.clone());
    met.users.insert(row.id.to_string());
}

/// An object that was not checked, for a reason of its own.
fn one(row: &Row, why: &str, causes: &mut Causes) {
    let met = causes.entry(Cause::unchecked(&row.id, why)).or_default();
    met.hubs.insert(row.hub.clone());
}
