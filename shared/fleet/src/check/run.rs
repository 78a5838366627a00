//! Runs every step until the state of the fleet no longer changes. The clock is simulated, so that
//! waiting takes no time.

use super::Progress;
use super::assumed::{ASSUMED, AssumedReady};
use super::diagnostic::{Diagnostic, Diagnostics, Occurrences, UNSERVED};
use super::endless_waits::Dependencies;
use super::given_objects::GivenObjects;
use super::hosts::FileStandIns;
use super::lenient_clusters::LenientState;
use super::missing_objects::MadeUp;
use super::observed::Observed;
use super::policies;
use super::report::Report;
use super::steps::Steps;
use crate::embedded::{Finding, Row, State, World};
use crate::error::Error;
use crate::fleet::{Files, Fleet, Location, encrypted};
use driftless_core::{step, sweep};
use driftless_flux::{FluxKind, ObjectRef, reason};
use driftless_kernel::ports::{Cause as RequestCause, Clock as _, Request};
use driftless_memory::{MemoryQueue, TestClock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The time between two rounds: longer than the timer's interval for lost messages, and than the
/// first back-off of a failure.
const ROUND: Duration = Duration::from_secs(60);
/// Longer than any timeout of a health check.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The number of rounds after which a fleet that still changes is reported unchanged.
const MAX_ROUNDS: usize = 200;
/// The rounds of one day each for objects that wait for health checks: a failed check restarts, and
/// its failure is visible in the next round.
const HEALTH_CHECK_ROUNDS: usize = 3;
/// The highest number of steps in one round.
const MAX_STEPS: usize = 100_000;

type Id = (String, ObjectRef);

/// The run of a check: the queue, the clock, and the stand-ins so far.
pub struct CheckRun<'a> {
    world: &'a World,
    fleet: &'a Fleet,
    queue: Arc<MemoryQueue>,
    clock: Arc<TestClock>,
    /// The queued requests by object, each with the time when it is due.
    waiting: BTreeMap<Id, (Duration, Request)>,
    /// Every object that was ever queued.
    requested: BTreeSet<Id>,
    given_objects: GivenObjects,
    assumed: AssumedReady,
    made: MadeUp,
    refused: LenientState,
    allow_unserved: bool,
    files: FileStandIns,
    steps: Steps<'a>,
}

/// The inputs of a run.
pub struct Plan<'a> {
    /// The fleet repository and its hubs.
    pub fleet: &'a Fleet,
    /// The objects of `--with`.
    pub given_objects: GivenObjects,
    /// Writes that clusters refuse because of placeholders.
    pub refused: LenientState,
    /// The value of the feature gate ExternalArtifact, if it is set.
    pub external_artifacts: Option<bool>,
    /// True if what driftless refuses to serve is a note, and not an error.
    pub allow_unserved: bool,
    /// Placeholders for files that are not fetched.
    pub files: FileStandIns,
    /// The receiver of the progress.
    pub progress: Progress<'a>,
}

impl<'a> CheckRun<'a> {
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
            requested: BTreeSet::new(),
            given_objects: plan.given_objects,
            assumed: AssumedReady::new(plan.external_artifacts),
            made: MadeUp::new(plan.refused.clone()),
            refused: plan.refused,
            allow_unserved: plan.allow_unserved,
            files: plan.files,
            steps: Steps::new(plan.progress),
        }
    }

    /// Runs rounds until two of them end in the same state and no stand-in is missing.
    ///
    /// # Errors
    /// A server of the world refuses a request, or a store fails.
    pub async fn run(&mut self) -> Result<(), Error> {
        self.given_objects.apply(self.world).await?;
        // Queue the objects of the bootstrap; every other object is queued by the step that creates
        // it.
        sweep::sweep(&self.world.ports).await?;
        let (mut before, mut waited) = (Vec::new(), 0);
        for _ in 0..MAX_ROUNDS {
            self.drain().await?;
            let objects = self.world.objects().await?;
            let rows = self.world.rows(&objects);
            self.steps.update(&rows);
            let observed = Observed {
                world: self.world,
                rows: &rows,
                objects: &objects,
            };
            if self.assume(observed).await? {
                self.queue_open(&rows).await?;
                continue;
            }
            let now = states(&rows);
            let rests = now == before;
            before = now;
            if rests && self.world.capsule(&rows).await? {
                (before, waited) = (Vec::new(), 0);
                self.queue_open(&rows).await?;
                continue;
            }
            if rests && self.make_up(observed).await? {
                (before, waited) = (Vec::new(), 0);
                self.queue_open(&rows).await?;
                continue;
            }
            // Give health checks the time until their timeouts.
            let waits = rows.iter().any(|row| row.state == State::Progressing);
            if rests && (!waits || waited == HEALTH_CHECK_ROUNDS) {
                break;
            }
            waited = if rests { waited + 1 } else { 0 };
            self.advance(if rests { DAY } else { ROUND });
            self.queue_open(&rows).await?;
        }
        Ok(())
    }

    /// Assumes that objects which cannot be checked are ready. Returns whether there was any.
    async fn assume(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        self.assumed.add(observed, &self.made, &self.refused).await
    }

    /// Creates stand-ins for what objects failed for, then excuses objects that still fail because
    /// of them. Returns whether there was any.
    async fn make_up(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        if self.made.add(self.fleet, observed).await? {
            self.given_objects.apply(self.world).await?;
            return Ok(true);
        }
        let assumed = &mut self.assumed;
        assumed.assume_failed_ready(observed, &self.made).await
    }

    /// Queues the objects that are not ready, and those that were never queued.
    async fn queue_open(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let is_known = self.requested.contains(&(row.hub.clone(), row.id.clone()));
            let is_open = !matches!(row.state, State::Ready | State::Suspended);
            if is_open || !is_known {
                self.world
                    .queue(&row.hub, &row.id, RequestCause::Requeue)
                    .await?;
            }
        }
        Ok(())
    }

    /// Advances the clock and makes every queued request due.
    fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
        let now = self.clock.now();
        self.waiting
            .values_mut()
            .for_each(|(at, _)| *at = now.min(*at));
    }

    /// Runs every step that is due, and those that follow from it.
    async fn drain(&mut self) -> Result<(), Error> {
        for _ in 0..MAX_STEPS {
            self.take_messages();
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

    /// Takes the messages from the queue. Requests of one object are merged, at the earliest of
    /// their times.
    fn take_messages(&mut self) {
        let now = self.clock.now();
        for (mut request, delay) in self.queue.take() {
            // Each object has one request, which is never stale; it may run before its time because
            // the clock jumps.
            request.token = None;
            let key = (request.hub.clone(), request.object.clone());
            let at = now + delay;
            self.requested.insert(key.clone());
            let known = self.waiting.entry(key).or_insert((at, request.clone()));
            known.0 = known.0.min(at);
            // This cause also reconciles the cluster, the others only read files.
            if request.cause == RequestCause::Requeue {
                known.1 = request;
            }
        }
    }

    /// Reports the results of the run, and returns the final state of each Flux object.
    ///
    /// # Errors
    /// A server of the world refuses a request.
    pub async fn report(self) -> Result<(Report, Vec<Row>), Error> {
        let objects = self.world.objects().await?;
        let rows = self.world.rows(&objects);
        let mut report = Report::new(&rows, self.world, self.fleet, self.steps.count());
        let mut diagnostics = Diagnostics::new();
        self.assumed.add_notes(&rows, &mut diagnostics);
        self.made.add_notes(
            &rows,
            &objects,
            self.fleet.sops_keys.is_some(),
            &mut diagnostics,
        );
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
                report.fail(row, &self.locate(row, never_ready.join("\n")).await?);
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
                    report.fail(row, &self.locate(row, message.unwrap_or_default()).await?);
                }
                State::Failed => report.fail(row, &self.errors(row).await?),
                State::Waiting => note_waiting(row, &mut diagnostics),
                State::Suspended => {
                    note_unchecked(row, "the object is suspended", &mut diagnostics)
                }
                State::Progressing => {
                    note_unchecked(row, "the object is still in progress", &mut diagnostics)
                }
            }
        }
        let owners = self.world.capsule_findings();
        owners.into_iter().for_each(|one| report.fail_owner(one));
        self.note_refused_objects(&rows, &mut diagnostics);
        policies::note_unevaluated(&rows, &mut diagnostics);
        policies::note_warnings(self.world, &mut diagnostics);
        self.note_unknown_settings(&mut diagnostics);
        self.add_unserved(&rows, &mut diagnostics, &mut report)
            .await?;
        self.note_encrypted_files(&mut diagnostics, &mut report)?;
        report.note_low_coverage(self.world, &rows, &mut diagnostics);
        report.notes = diagnostics;
        Ok((report, rows))
    }

    /// Locates a message that replaces the one in an object's status.
    async fn locate(&self, row: &Row, message: String) -> Result<Vec<Finding>, Error> {
        let other = Row {
            message,
            ..row.clone()
        };
        self.world.findings(&other).await
    }

    /// Adds what driftless refuses to serve, as errors or as notes.
    async fn add_unserved(
        &self,
        rows: &[Row],
        diagnostics: &mut Diagnostics,
        report: &mut Report,
    ) -> Result<(), Error> {
        let mut all = Diagnostics::new();
        for (mut diagnostic, objects) in self.assumed.unserved() {
            let mut occurrences = Occurrences::default();
            for (hub, id) in objects {
                occurrences.hubs.insert(hub.to_owned());
                if diagnostic.about.as_deref() != Some(&id.to_string()) {
                    occurrences.users.insert(id.to_string());
                }
                let row = rows.iter().find(|row| row.hub == hub && row.id == *id);
                if let (Some(row), None) = (row, &diagnostic.place) {
                    let findings = self.locate(row, diagnostic.message.clone()).await?;
                    diagnostic.place = findings.into_iter().find_map(|one| one.place);
                }
            }
            all.insert(diagnostic, occurrences);
        }
        // Kinds without a definition already have notes, with their objects.
        let of_kinds: Vec<Diagnostic> = diagnostics
            .keys()
            .filter(|diagnostic| diagnostic.is_unserved())
            .cloned()
            .collect();
        for diagnostic in of_kinds {
            let occurrences = diagnostics.remove(&diagnostic).unwrap_or_default();
            let place = self.place_of_users(&occurrences, rows).await?;
            all.insert(
                Diagnostic {
                    place,
                    ..diagnostic
                },
                occurrences,
            );
        }
        match self.allow_unserved {
            true => diagnostics.extend(all),
            false => report.errors.extend(all),
        }
        Ok(())
    }

    /// Returns the place of the first of these objects that a Kustomization applied.
    async fn place_of_users(
        &self,
        occurrences: &Occurrences,
        rows: &[Row],
    ) -> Result<Option<Location>, Error> {
        for row in rows
            .iter()
            .filter(|row| occurrences.hubs.contains(&row.hub))
        {
            let mut applied = row.inventory.iter().map(|(id, _)| id.to_string());
            if let Some(first) = applied.find(|id| occurrences.users.contains(id)) {
                let findings = self.locate(row, format!("{first} not served")).await?;
                return Ok(findings.into_iter().find_map(|one| one.place));
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
            let mut findings = self.world.findings(row).await?;
            if row.reason == reason::UNSUPPORTED {
                for finding in &mut findings {
                    finding.message = format!("{UNSERVED}{}", finding.message);
                }
            }
            return Ok(findings);
        };
        // The message of Flux's controllers when the feature gate is disabled.
        let message = format!("can't access '{source}', ExternalArtifact feature gate is disabled");
        self.locate(row, message).await
    }

    /// Adds notes about objects that need settings of an API server which are not known, and about
    /// files that are not fetched.
    fn note_unknown_settings(&self, diagnostics: &mut Diagnostics) {
        for (flag, objects) in self.refused.unknown_flags() {
            let diagnostic = Diagnostic::note(
                "API server",
                format!(
                    "objects need {flag}, which no configuration in the repository sets (give it if the clusters have it)"
                ),
            );
            diagnostics
                .entry(diagnostic)
                .or_default()
                .users
                .extend(objects);
        }
        for url in self.files.all() {
            let message =
                "the file is not fetched; the entry is a placeholder (give --allow-remote-bases)";
            diagnostics
                .entry(Diagnostic::unchecked(url, message))
                .or_default();
        }
    }

    /// Adds notes about objects that clusters refuse because of placeholders, by the Secret or
    /// ConfigMap that the values come from.
    fn note_refused_objects(&self, rows: &[Row], diagnostics: &mut Diagnostics) {
        for (id, text) in self.refused.objects() {
            let diagnostic = self.made.values.placeholder_in(&text);
            let Some(of) = diagnostic.and_then(|diagnostic| diagnostic.about) else {
                continue;
            };
            let message = "clusters refuse objects with placeholders for its values; the check accepts them unchanged";
            let occurrences = diagnostics
                .entry(Diagnostic::unchecked(of, message))
                .or_default();
            occurrences.users.insert(id.to_string());
            let has = |row: &&Row| row.inventory.iter().any(|(applied, _)| *applied == id);
            occurrences
                .hubs
                .extend(rows.iter().filter(has).map(|row| row.hub.clone()));
        }
    }

    /// Adds one note about all encrypted files without a key, and a diagnostic for each file that
    /// no age or OpenPGP key can decrypt.
    fn note_encrypted_files(
        &self,
        diagnostics: &mut Diagnostics,
        report: &mut Report,
    ) -> Result<(), Error> {
        let mut places = Vec::new();
        for (root, tree) in self.world.git.all()? {
            for (path, format) in encrypted::files(&tree) {
                let place = Files::place_in(&root, &path);
                let Some(services) = encrypted::other_services(&tree, &path, format) else {
                    places.push(place);
                    continue;
                };
                let message = format!(
                    "the file is encrypted for {services} only, which no given key can decrypt: add an age or OpenPGP \
                     recipient (.sops.yaml, then sops updatekeys)"
                );
                let diagnostic = Diagnostic {
                    place: Some(place),
                    about: None,
                    ..Diagnostic::unserved("", message)
                };
                let all = match self.allow_unserved {
                    true => &mut *diagnostics,
                    false => &mut report.errors,
                };
                all.entry(diagnostic).or_default();
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
        let message = "the file is encrypted; its values are placeholders (give --sops-key)";
        let diagnostic = Diagnostic {
            place: Some(first.clone()),
            about: None,
            ..Diagnostic::unchecked("", message)
        };
        let occurrences = diagnostics.entry(diagnostic).or_default();
        occurrences
            .users
            .extend(rest.iter().map(ToString::to_string));
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

/// Returns the states of the objects, to compare two rounds. A failing health check restarts and
/// therefore counts as one state.
fn states(rows: &[Row]) -> Vec<(Id, State, String, String)> {
    let state = |row: &Row| {
        let id = (row.hub.clone(), row.id.clone());
        let is_checked =
            row.state == State::Progressing || row.reason == reason::HEALTH_CHECK_FAILED;
        match is_checked {
            true => (id, State::Progressing, String::new(), row.revision.clone()),
            false => (id, row.state, row.reason.clone(), row.revision.clone()),
        }
    };
    rows.iter().map(state).collect()
}

/// Adds a note about an object that waits for another one; objects with the same message share it.
fn note_waiting(row: &Row, diagnostics: &mut Diagnostics) {
    let diagnostic = Diagnostic {
        about: None,
        ..Diagnostic::unchecked("", &row.message)
    };
    let occurrences = diagnostics.entry(diagnostic).or_default();
    occurrences.hubs.insert(row.hub.clone());
    occurrences.users.insert(row.id.to_string());
}

/// Adds a note about an object that was not checked.
fn note_unchecked(row: &Row, message: &str, diagnostics: &mut Diagnostics) {
    let occurrences = diagnostics
        .entry(Diagnostic::unchecked(&row.id, message))
        .or_default();
    occurrences.hubs.insert(row.hub.clone());
}
