//! Runs every step until nothing moves any more. Time jumps: a wait costs nothing.

use super::assume::Assumed;
use super::cause::{Cause, Causes};
use super::lenient::Refused;
use super::make::MadeUp;
use super::report::Report;
use super::steps::Steps;
use super::supply::Supply;
use crate::embedded::{Objects, Row, State, World};
use crate::error::Error;
use crate::fleet::{Files, Fleet, encrypted};
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
        let (mut before, mut forced) = (Vec::new(), false);
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
            if rests && self.make_up(&rows, &objects).await? {
                (before, forced) = (Vec::new(), false);
                self.ask_open(&rows).await?;
                continue;
            }
            // What waits for its health gets the time that it allows itself.
            let waits = rows.iter().any(|row| row.state == State::Progressing);
            if rests && (!waits || forced) {
                break;
            }
            forced = rests;
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
        for row in &rows {
            match row.state {
                State::Ready => {}
                State::Failed => report.fail(row, &self.errors(row).await?),
                State::Waiting => waits(row, &mut causes),
                State::Suspended => one(row, "it is suspended", &mut causes),
                State::Progressing => one(row, "it did not come to rest", &mut causes),
            }
        }
        self.refused_objects(&rows, &mut causes);
        if self.fleet.sops_keys.is_none() {
            self.encrypted(&mut causes)?;
        }
        report.notes = causes;
        Ok(report)
    }

    /// What is wrong with an object that failed.
    async fn errors(&self, row: &Row) -> Result<Vec<crate::embedded::Finding>, Error> {
        let source = row
            .source
            .as_ref()
            .filter(|source| source.kind == FluxKind::ExternalArtifact);
        let Some(source) = source.filter(|_| row.reason == reason::ARTIFACT_FAILED) else {
            return self.world.tell(row).await;
        };
        // As Flux's controllers say it where they do not allow the kind.
        let message = format!("can't access '{source}', ExternalArtifact feature gate is disabled");
        let refused = Row {
            message,
            ..row.clone()
        };
        self.world.tell(&refused).await
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

    /// Files that nobody can read here, as one.
    fn encrypted(&self, causes: &mut Causes) -> Result<(), Error> {
        let mut places = Vec::new();
        for (root, tree) in self.world.git.all()? {
            let files = encrypted::files(&tree).into_iter();
            places.extend(files.map(|(path, _)| Files::place_in(&root, &path)));
        }
        places.sort();
        let Some((first, rest)) = places.split_first() else {
            return Ok(());
        };
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

/// How the objects stand, to compare two rounds by.
fn stand(rows: &[Row]) -> Vec<(Id, State, String, String)> {
    let stand = |row: &Row| {
        let id = (row.hub.clone(), row.id.clone());
        (id, row.state, row.reason.clone(), row.revision.clone())
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
