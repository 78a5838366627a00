//! All watches of one hub: their events become messages of the queue.

use super::accounts::Accounts;
use super::alerts::Alerts;
use super::applied_objects::AppliedObjects;
use super::corrections::{Corrections, Live};
use super::flux_objects::FluxObjects;
use super::follower::{Followers, Message};
use super::references::References;
use super::topic::Topic;
use super::wanted::Wanted;
use driftless_core::sweep::drift_watch::{self, DriftCheck};
use driftless_flux::{FluxKind, ObjectRef, REFERENCE_KINDS};
use driftless_kernel::failure::Failure;
use driftless_kernel::hub;
use driftless_kernel::ports::{Cause, FollowEvent, Ports, Request};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The events that wait at most: a watch that sends more waits itself.
const CHANNEL: usize = 256;
/// The time after which one sweep follows the first LISTs of the kinds.
const FIRST_LISTS: Duration = Duration::from_millis(300);

/// The watches of a hub, and what is known by them.
pub(super) struct HubWatch {
    ports: Ports,
    hub: String,
    wanted: Arc<Wanted>,
    watches_drift: bool,
    objects: FluxObjects,
    alerts: Alerts,
    references: References,
    accounts: Accounts,
    applied: AppliedObjects,
    corrections: Corrections,
    /// The time of the sweep after first LISTs.
    sweep: Option<Instant>,
    is_polled: bool,
    followers: Followers,
    checks: JoinSet<(ObjectRef, Live, Result<DriftCheck, Failure>)>,
    events: Receiver<Message>,
}

impl HubWatch {
    pub(super) fn new(ports: Ports, hub: String, wanted: Arc<Wanted>, drift: bool) -> Self {
        let (sender, events) = mpsc::channel(CHANNEL);
        Self {
            followers: Followers::new(ports.clone(), hub.clone(), sender),
            ports,
            hub,
            wanted,
            watches_drift: drift,
            objects: FluxObjects::default(),
            alerts: Alerts::default(),
            references: References::default(),
            accounts: Accounts::default(),
            applied: AppliedObjects::default(),
            corrections: Corrections::default(),
            sweep: None,
            is_polled: false,
            checks: JoinSet::new(),
            events,
        }
    }

    /// Watches until the task is aborted.
    pub(super) async fn run(mut self) {
        let settings = hub::settings(&self.ports, &self.hub).await;
        if settings.is_ok_and(|settings| settings.capsule_proxy.is_some()) {
            self.accounts = Accounts::followed();
        }
        let topics = FluxKind::ALL.into_iter().map(Topic::Flux);
        let topics = topics.chain(REFERENCE_KINDS.into_iter().map(Topic::Reference));
        let accounts = self.accounts.all().cloned().map(Topic::Capsule);
        for topic in topics.chain(accounts).collect::<Vec<_>>() {
            self.followers.follow(topic);
        }
        loop {
            let due = [self.sweep, self.corrections.next()];
            let due = due.into_iter().flatten().min();
            tokio::select! {
                Some(message) = self.events.recv() => self.handle(message).await,
                Some(Ok((owner, live, result))) = self.checks.join_next() => {
                    self.checked(owner, live, result).await;
                }
                // An ended watch of applied objects.
                Some(()) = self.followers.join_next() => {}
                () = until(due) => self.due(),
            }
        }
    }

    async fn handle(&mut self, message: Message) {
        match message {
            Message::Seen(Topic::Flux(kind), event) => self.flux(kind, event).await,
            Message::Seen(Topic::Reference(kind), event) => {
                let referrers = self.references.event(kind, event, &self.objects);
                self.queue(referrers, &Cause::Changed).await;
            }
            Message::Seen(Topic::Capsule(followed), event) => {
                if self.accounts.event(&followed, event) {
                    self.wanted.capsule.notify_one();
                }
            }
            Message::Seen(Topic::Applied(watched), event) => {
                if let Some(changed) = self.applied.event(&watched, event)
                    && self.objects.contains(&changed.owner)
                {
                    self.corrections.add(changed.owner, changed.id, changed.now);
                }
            }
            Message::Interrupted(Topic::Flux(FluxKind::Alert)) => {
                self.alerts.forget();
                self.ports.watches.set_alerts(&self.hub, None);
            }
            Message::Interrupted(_) => {}
            Message::Unsupported(Topic::Flux(_)) if !self.is_polled => {
                let hub = &self.hub;
                tracing::warn!(hub, "this hub cannot be watched: it is read every 2 s");
                self.is_polled = true;
                self.followers.poll(self.wanted.clone());
            }
            Message::Unsupported(topic) => {
                tracing::debug!(hub = self.hub, %topic, "left to the sweep");
            }
        }
    }

    /// Handles an event of Flux objects.
    async fn flux(&mut self, kind: FluxKind, event: FollowEvent) {
        if self.alerts.event(kind, &event) {
            self.ports.watches.set_alerts(&self.hub, self.alerts.all());
        }
        let effect = self.objects.event(kind, event);
        if effect.is_first_list {
            self.sweep = Some(Instant::now() + FIRST_LISTS);
        }
        if self.watches_drift {
            for watched in &effect.removed {
                self.applied.remove(watched);
            }
            for watched in effect.added {
                let start = |watched| self.followers.follow(Topic::Applied(watched));
                self.applied.add(watched, start);
            }
        }
        if let Some(id) = effect.step {
            self.queue([id], &Cause::Changed).await;
        }
    }

    /// Does what is due.
    fn due(&mut self) {
        if self.sweep.is_some_and(|at| at <= Instant::now()) {
            self.sweep = None;
            self.wanted.sweep.notify_one();
        }
        for (owner, live) in self.corrections.take_due() {
            let (ports, hub) = (self.ports.clone(), self.hub.clone());
            self.checks.spawn(async move {
                let result = drift_watch::check(&ports, &hub, &owner, &live).await;
                (owner, live, result)
            });
        }
    }

    /// Queues an owner whose objects have drifted.
    async fn checked(&mut self, owner: ObjectRef, live: Live, result: Result<DriftCheck, Failure>) {
        if let Err(failure) = &result {
            tracing::info!(hub = self.hub, object = %owner, "left to the sweep: {failure}");
        }
        if self.corrections.checked(&owner, live, result.ok()) {
            self.queue([owner], &Cause::Drift).await;
        }
    }

    async fn queue(&self, ids: impl IntoIterator<Item = ObjectRef>, cause: &Cause) {
        let request = |id| Request::new(&self.hub, id, cause.clone());
        let requests = ids.into_iter().map(|id| (request(id), Duration::ZERO));
        let requests: Vec<_> = requests.collect();
        if requests.is_empty() {
            return;
        }
        if let Err(error) = self.ports.queue.send(requests).await {
            tracing::warn!(
                hub = self.hub,
                "not queued, the next sweep will find it: {error}"
            );
        }
    }
}

/// Waits until a time; `None` is a time that never comes.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
