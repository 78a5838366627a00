//! The timer, which finds objects that are due, whose message was lost, or that have drifted. Each
//! minute it requests a sweep of each hub, which LISTs the hub's Flux objects and queues those that
//! need a step; a lost message costs at most that minute.

mod cluster_watch;
mod clusters;
mod dark_clusters;
pub mod drift_watch;
mod drifted_objects;
mod due;
pub mod edits;
mod kubeconfigs;
mod read_only;
mod rehearsal;
mod snapshot;

use crate::notification::{self, Following};
use driftless_flux::{FluxKind, ObjectRef, reason};
use driftless_kernel::concurrent;
use driftless_kernel::context::events::pending;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{
    Cause, Clock, PortError, Ports, Precondition, PutOutcome, Request, Version, in_time,
};
use driftless_kernel::schedule::Records;
use driftless_kernel::state::{self, key_part};
use driftless_manifest::Object;
use due::Entry;
use futures::future::{BoxFuture, Either, select};
use futures::{FutureExt as _, StreamExt as _};
use rehearsal::Rehearsals;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Hubs that are swept concurrently.
const HUBS: usize = 16;
/// The limit of the time to queue what is due on a hub: a hub that hangs must not delay the others.
const QUEUE_LIMIT: Duration = Duration::from_secs(20);
/// The limit of the time of a sweep: a function has 55 s, and must still report the hubs that it
/// did not finish.
const LIMIT: Duration = Duration::from_secs(45);

/// The most findings that are sent in one request to the queue: those that are known at once.
const BATCH: usize = 10;

/// The result of a sweep of one hub.
#[derive(Debug)]
pub struct Report {
    /// The name of the hub.
    pub hub: String,
    /// The requests that were queued.
    pub queued: Vec<Request>,
    /// The reason why the sweep is not complete, if it is not.
    pub failure: Option<Failure>,
}

impl Report {
    fn fail(&mut self, failure: Failure) {
        tracing::warn!(
            hub = self.hub,
            reason = failure.reason,
            "{}",
            failure.message
        );
        match &mut self.failure {
            Some(first) => first.message = format!("{}; {}", first.message, failure.message),
            None => self.failure = Some(failure),
        }
    }
}

/// The result of the timer's event.
#[derive(Debug)]
pub enum SweepStart {
    /// The queue has a message for each of these hubs.
    Queued(Vec<String>),
    /// The queue does not carry such messages: the hubs were swept in this invocation.
    Swept(Vec<Report>),
}

/// Handles the timer's event: queues a sweep of each registered hub, or sweeps the hubs itself if
/// the queue does not carry sweeps.
///
/// # Errors
/// The registry cannot be read, or the queue does not answer.
pub async fn start(ports: &Ports) -> Result<SweepStart, PortError> {
    let names = hub::names(ports).await?;
    if names.is_empty() || ports.queue.sweep(&names).await? {
        return Ok(SweepStart::Queued(names));
    }
    Ok(SweepStart::Swept(sweep_all(ports, names).await))
}

/// Sweeps every registered hub in this process. A hub that cannot be reached does not delay the
/// others.
///
/// # Errors
/// The registry cannot be read.
pub async fn sweep(ports: &Ports) -> Result<Vec<Report>, PortError> {
    Ok(sweep_all(ports, hub::names(ports).await?).await)
}

/// Flux objects, each with the name of its hub.
pub type KnownObjects = Vec<(String, ObjectRef, Object)>;

/// Returns the Flux objects of all hubs, with the names of these, as the last sweep of this process
/// has read them.
///
/// # Errors
/// The registry cannot be read, or a hub does not answer.
pub async fn known_objects(ports: &Ports) -> Result<KnownObjects, Failure> {
    let mut known = Vec::new();
    let names = hub::names(ports).await;
    let names = names.map_err(|error| Failure::port(reason::FAILED, &error))?;
    for name in names {
        let hub = hub::connect(ports, &name).await?;
        for kind in FluxKind::ALL {
            let objects = cluster_watch::known_flux_objects(ports, &hub, kind).await;
            let objects = objects.map_err(|error| Failure::port(reason::FAILED, &error))?;
            let objects = objects.into_iter();
            known.extend(objects.map(|(id, object)| (name.clone(), id, object)));
        }
    }
    Ok(known)
}

async fn sweep_all(ports: &Ports, mut names: Vec<String>) -> Vec<Report> {
    let start = ports.clock.now();
    // Each minute another hub is the first: if the time is too short for all of them, none is left
    // out for ever.
    let first = usize::try_from(start.as_secs() / 60).unwrap_or_default();
    let count = names.len().max(1);
    names.rotate_left(first % count);
    let sweeps = names
        .into_iter()
        .map(|name| sweep_since(ports, name, start).boxed());
    let mut reports = concurrent::run(HUBS, sweeps.collect()).await;
    reports.sort_by(|one, other| one.hub.cmp(&other.hub));
    reports
}

/// Sweeps one hub in bounded time: queues the objects that are due, then those that have drifted.
pub async fn sweep_hub(ports: &Ports, name: String) -> Report {
    let start = ports.clock.now();
    sweep_since(ports, name, start).await
}

async fn sweep_since(ports: &Ports, name: String, start: Duration) -> Report {
    let clock = ports.clock.as_ref();
    let left = || LIMIT.saturating_sub(clock.now().saturating_sub(start));
    let mut report = Report {
        hub: name.clone(),
        queued: Vec::new(),
        failure: None,
    };
    let queue = queue_due(ports, &name, &mut report).boxed();
    let limit = left().min(QUEUE_LIMIT);
    let queued = within(clock, limit, "the check for due objects", queue).await;
    let found = match queued {
        Ok(found) => found,
        Err(failure) => {
            report.fail(failure);
            return report;
        }
    };
    if let Err(failure) = queue_rest(ports, found, left(), &mut report).await {
        report.fail(failure);
    }
    report
}

/// Runs `work` with a timeout; `task` describes it in the error.
async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    task: &str,
    work: BoxFuture<'_, Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = in_time(clock, limit, work).await;
    done.unwrap_or_else(|| Err(late(task, limit)))
}

/// Returns the failure of a task that took longer than its limit.
fn late(task: &str, limit: Duration) -> Failure {
    let seconds = limit.as_secs();
    let message = format!("{task} did not finish within {seconds} s");
    Failure::retry(reason::FAILED, message)
}

/// A hub whose due objects are queued.
struct DueObjects {
    hub: Hub,
    objects: Vec<(ObjectRef, Object)>,
    records: Arc<Records>,
    schedule: Schedule,
    /// Objects whose step may do nothing, which a rehearsal decides.
    rehearsed: BTreeSet<ObjectRef>,
    /// Objects that are not due.
    quiet: BTreeSet<ObjectRef>,
}

/// The times at which the timer queued each object.
struct Schedule {
    key: String,
    version: Option<Version>,
    entries: BTreeMap<String, Entry>,
    now: Duration,
}

/// The record of a schedule.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    /// The entries by the key of the object.
    objects: BTreeMap<String, Entry>,
}

/// Queues the objects that are due, before any slow work.
async fn queue_due(ports: &Ports, name: &str, report: &mut Report) -> Result<DueObjects, Failure> {
    let hub = hub::connect(ports, name).await?;
    let listed = list(ports, &hub).await?;
    let mut schedule = Schedule::read(ports, name).await?;
    let records = Records::read(ports, name).await?;
    let causes = schedule.causes(name, &listed.objects, &records);
    let old = std::mem::take(&mut schedule.entries);
    // Objects of a kind that could not be listed keep their entries.
    let is_unlisted = |key: &String| listed.failed.iter().any(|prefix| key.starts_with(prefix));
    let kept = old.iter().filter(|(key, _)| is_unlisted(key));
    schedule.entries = kept
        .map(|(key, entry)| (key.clone(), entry.clone()))
        .collect();

    let (mut requests, mut rehearsed, mut quiet) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut notifying = senders(ports, name, &listed.objects, &records, schedule.now).await;
    notifying.extend(followers(name, &listed.objects, &records, schedule.now));
    for ((id, object), cause) in listed.objects.iter().zip(causes) {
        // These have work to do, which no rehearsal needs to show.
        let is_notifying = notifying.contains(id);
        let cause = cause.or_else(|| is_notifying.then_some(Cause::Timer));
        let known = old.get(&id.key());
        let is_rehearsed = cause == Some(Cause::Timer)
            && !is_notifying
            && due::may_be_noop(object, known, schedule.now);
        let entry = match known {
            Some(known) if cause.is_none() || is_rehearsed => known.clone(),
            _ => Entry::queued(object, schedule.now),
        };
        schedule.entries.insert(id.key(), entry);
        match cause {
            Some(_) if is_rehearsed => {
                rehearsed.insert(id.clone());
            }
            Some(cause) => requests.push(Request::new(name, id.clone(), cause)),
            None => {
                quiet.insert(id.clone());
            }
        }
    }
    send(ports, requests, report).await?;
    if schedule.entries != old {
        schedule.write(ports).await?;
    }
    if let Some(failure) = listed.failure {
        report.fail(failure);
    }
    Ok(DueObjects {
        hub,
        objects: listed.objects,
        records: Arc::new(records),
        schedule,
        rehearsed,
        quiet,
    })
}

/// Returns the Providers with events to send whose message was lost. Without the answer of the
/// bucket, they wait for the next sweep.
async fn senders(
    ports: &Ports,
    hub: &str,
    objects: &[(ObjectRef, Object)],
    records: &Records,
    now: Duration,
) -> BTreeSet<ObjectRef> {
    let is_provider = |(id, _): &(ObjectRef, Object)| id.kind == FluxKind::Provider;
    if !objects.iter().any(is_provider) {
        return BTreeSet::new();
    }
    let waiting = pending::providers(ports, hub).await;
    let mut waiting = waiting.unwrap_or_else(|error| {
        tracing::warn!(hub, %error, "the events that wait to be sent are not known");
        BTreeSet::new()
    });
    let is_busy = |id: &ObjectRef| {
        let record = records.of(hub, id);
        record.is_some_and(|record| record.is_busy(now))
    };
    waiting.retain(|id| !is_busy(id));
    waiting
}

/// Returns the Alerts with a reminder that is due, or with an object that is ready again, from what
/// the sweep has read.
fn followers(
    hub: &str,
    objects: &[(ObjectRef, Object)],
    records: &Records,
    now: Duration,
) -> BTreeSet<ObjectRef> {
    let alerts = objects.iter().filter(|(id, _)| id.kind == FluxKind::Alert);
    let alerts: Vec<_> = alerts.collect();
    if alerts.is_empty() {
        return BTreeSet::new();
    }
    let by_key: BTreeMap<String, &Object> =
        objects.iter().map(|(id, one)| (id.key(), one)).collect();
    let is_due = |(id, alert): &&&(ObjectRef, Object)| {
        let record = records.of(hub, id);
        if record.as_ref().is_some_and(|record| record.is_busy(now)) {
            return false;
        }
        let memory = record.map(|record| record.memory::<Following>());
        let find = |key: &str| by_key.get(key).copied();
        notification::is_due(alert, &memory.unwrap_or_default(), find, now)
    };
    let due = alerts.iter().filter(is_due);
    due.map(|(id, _)| id.clone()).collect()
}

/// A result about objects that are not queued yet.
enum Finding {
    /// The step of the object was rehearsed; true if it would do nothing.
    Rehearsed(ObjectRef, bool),
    /// A kubeconfig that these objects wait for was written.
    Written(Vec<ObjectRef>),
    /// The cluster that these objects wait for answers again.
    Answering(Vec<ObjectRef>),
    /// These objects have drifted.
    Drifted(BTreeSet<ObjectRef>),
}

/// Queues the objects for which a rehearsal or a read of the clusters shows that a step is needed.
/// Each request is sent at once. What the time limit cuts off is the first in the next sweep
/// (rehearsals), or has another place in the order of that sweep (clusters).
///
/// # Errors
/// The queue or the bucket does not answer, or the time was not sufficient.
async fn queue_rest(
    ports: &Ports,
    found: DueObjects,
    limit: Duration,
    report: &mut Report,
) -> Result<(), Failure> {
    let DueObjects {
        hub,
        objects,
        records,
        mut schedule,
        rehearsed,
        quiet,
    } = found;
    let name = &hub.settings.name;
    let by_id: BTreeMap<&ObjectRef, &Object> = objects.iter().map(|(id, one)| (id, one)).collect();
    let mut due: Vec<(&ObjectRef, &Object)> = rehearsed
        .iter()
        .filter_map(|id| by_id.get_key_value(id))
        .map(|(id, object)| (*id, *object))
        .collect();
    due.sort_by_key(|(id, _)| schedule.entries.get(&id.key()).map(Entry::at));
    // A rehearsal does not read what was applied; the check for drift does.
    let is_checked = |(id, _): &&(ObjectRef, Object)| quiet.contains(id) || rehearsed.contains(id);
    let checked: Vec<&Object> = objects
        .iter()
        .filter(is_checked)
        .map(|(_, object)| object)
        .collect();
    let flux: &[_] = if due.is_empty() { &[] } else { &objects };
    let rehearsals = Rehearsals::new(ports, &hub, records.clone(), flux);
    let rehearsals = rehearsals.run(due);
    let rehearsals = rehearsals.map(|(id, is_noop)| Finding::Rehearsed(id, is_noop));
    let written = kubeconfigs::written(&hub, &objects, &quiet, &schedule.entries);
    let written = written.map(Finding::Written).into_stream();
    let drifted = drifted_objects::drifted(ports, &hub, &checked, &records).map(Finding::Drifted);
    let waiting: Vec<&Object> = quiet
        .iter()
        .filter_map(|id| by_id.get(id).copied())
        .collect();
    let answering = dark_clusters::answering(ports, &hub, &waiting, &records);
    let answering = answering.map(Finding::Answering);
    let findings = [
        rehearsals.boxed(),
        written.boxed(),
        answering.boxed(),
        drifted.boxed(),
    ];
    let mut findings = futures::stream::select_all(findings).ready_chunks(BATCH);

    let mut end = ports.clock.timeout(limit);
    let (mut entries, mut queued) = (BTreeMap::new(), BTreeSet::new());
    let ended = loop {
        let chunk = match select(end, findings.next()).await {
            Either::Left(_) => break Err(late("the check for drift", limit)),
            Either::Right((Some(chunk), left)) => {
                end = left;
                chunk
            }
            Either::Right((None, _)) => break Ok(()),
        };
        let mut requests = Vec::new();
        for finding in chunk {
            let (ids, cause) = match finding {
                Finding::Rehearsed(id, true) => {
                    let known = schedule.entries.get(&id.key()).cloned();
                    let entry = known.map(|known| known.rehearsed(schedule.now));
                    entries.extend(entry.map(|entry| (id.key(), entry)));
                    continue;
                }
                Finding::Rehearsed(id, false) => (BTreeSet::from([id]), Cause::Timer),
                Finding::Written(ids) => (BTreeSet::from_iter(ids), Cause::Changed),
                Finding::Answering(ids) => (BTreeSet::from_iter(ids), Cause::Timer),
                Finding::Drifted(ids) => (ids, Cause::Drift),
            };
            for id in ids {
                if !queued.insert(id.clone()) {
                    continue;
                }
                if cause != Cause::Drift
                    && let Some(object) = by_id.get(&id)
                {
                    entries.insert(id.key(), Entry::queued(object, schedule.now));
                }
                requests.push(Request::new(name, id, cause.clone()));
            }
        }
        if let Err(failure) = send(ports, requests, report).await {
            break Err(failure);
        }
    };
    drop(findings);
    if !entries.is_empty() {
        schedule.entries.extend(entries);
        schedule.write(ports).await?;
    }
    ended
}

/// Queues requests, and adds them to the report.
async fn send(ports: &Ports, requests: Vec<Request>, report: &mut Report) -> Result<(), Failure> {
    if requests.is_empty() {
        return Ok(());
    }
    let now = requests.iter().cloned().map(|one| (one, Duration::ZERO));
    ports.queue.send(now.collect()).await?;
    report.queued.extend(requests);
    Ok(())
}

impl Schedule {
    async fn read(ports: &Ports, hub: &str) -> Result<Self, Failure> {
        let key = format!("schedule/{}.json", key_part(hub));
        let (stored, version) = state::load::<Stored>(ports.blobs.as_ref(), &key).await?;
        Ok(Self {
            key,
            version,
            entries: stored.objects,
            now: ports.clock.now(),
        })
    }

    /// Writes the schedule, after the queue has the requests: a schedule that is not written costs
    /// a second step, but a request that is not sent would be lost.
    async fn write(&mut self, ports: &Ports) -> Result<(), Failure> {
        let when = self
            .version
            .clone()
            .map_or(Precondition::None, Precondition::Is);
        let blobs = ports.blobs.as_ref();
        let stored = Stored {
            objects: std::mem::take(&mut self.entries),
        };
        let written = state::write(blobs, &self.key, &stored, when).await;
        self.entries = stored.objects;
        match written? {
            PutOutcome::Done(version) => self.version = Some(version),
            PutOutcome::PreconditionFailed => {
                tracing::info!(
                    key = self.key,
                    "schedule not written: another sweep has written it meanwhile"
                )
            }
        }
        Ok(())
    }

    /// Returns the cause for which each object is due, or `None`.
    fn causes(
        &self,
        hub: &str,
        objects: &[(ObjectRef, Object)],
        records: &Records,
    ) -> Vec<Option<Cause>> {
        let artifacts = due::artifacts(objects);
        let causes = objects.iter().map(|(id, object)| {
            let known = self.entries.get(&id.key());
            let cause = due::due(id, object, known, &artifacts, self.now);
            if !due::depends_on_record(object, cause.as_ref()) {
                return cause;
            }
            match records.of(hub, id) {
                Some(record) => due::settled(cause, object, known, &record, self.now),
                None => cause,
            }
        });
        causes.collect()
    }
}

/// The Flux objects of a hub.
struct HubObjects {
    objects: Vec<(ObjectRef, Object)>,
    /// The prefixes of the keys of the kinds that could not be listed.
    failed: Vec<String>,
    failure: Option<Failure>,
}

/// Lists every Flux object of the hub, sources first. A kind that cannot be listed does not affect
/// the others.
///
/// # Errors
/// No kind can be listed.
async fn list(ports: &Ports, hub: &Hub) -> Result<HubObjects, Failure> {
    let lists = FluxKind::ALL.into_iter().map(|kind| {
        async move { (kind, cluster_watch::flux_objects(ports, hub, kind).await) }.boxed()
    });
    let mut listed = HubObjects {
        objects: Vec::new(),
        failed: Vec::new(),
        failure: None,
    };
    let mut messages: Vec<String> = Vec::new();
    let mut first = None;
    for (kind, list) in concurrent::run(FluxKind::ALL.len(), lists.collect()).await {
        match list {
            Ok(objects) => listed.objects.extend(objects),
            Err(error) => {
                listed.failed.push(format!("{}/", kind.plural()));
                messages.push(format!("{kind}: {error}"));
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if listed.failed.len() == FluxKind::ALL.len() => Err(error.into()),
        Some(_) => {
            let message = format!("not listed: {}", messages.join("; "));
            listed.failure = Some(Failure::retry(reason::FAILED, message));
            Ok(listed)
        }
        None => Ok(listed),
    }
}
