//! The sending of the events that wait for a Provider.

use super::connection::{Link, link};
use super::content;
use super::digest::{self, DigestOutcome};
use driftless_flux::{
    Alert, FluxEvent, FluxKind, FluxObject as _, NOTIFICATION_CONTROLLER, ObjectRef, Provider,
    Severity, reason,
};
use driftless_kernel::context::Context;
use driftless_kernel::context::events::pending::{self, Pending};
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::ports::in_time;
use driftless_manifest::Object;
use driftless_notify as notify;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The most events that one step handles.
const MOST: usize = 200;
/// The longest time for which an event waits to be sent.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The time after which a step sends no further notification: the next one continues.
const SENDING: Duration = Duration::from_secs(20);
/// The limit of the time of one notification, which may need several requests.
const LIMIT: Duration = Duration::from_secs(40);
/// The number of failures after which a step sends no further notification.
const FAILURES: usize = 3;

/// The result of the step of an Alert or a Provider.
#[derive(Default)]
pub(crate) struct Done {
    /// True if the status of the object is the one that it had.
    pub keeps_status: bool,
    /// The number of notifications that were sent.
    pub sent: usize,
    /// True if more events wait.
    pub has_more: bool,
    /// The Provider that has events to send.
    pub requests: Option<ObjectRef>,
    /// The time after which a push that has not landed is checked again.
    pub check_after: Option<Duration>,
}

/// The result for an event that waits.
enum SendOutcome {
    /// It was sent now.
    Sent,
    /// It is no longer wanted, or was sent before.
    Dropped,
    /// It is about a push, which is checked again after this time.
    Held(Duration),
}

/// Sends the events that wait for a Provider, oldest first. Each event leaves the bucket when it
/// was sent, or never will be. One that may be sent later stays.
///
/// # Errors
/// An event was not sent. A later attempt may send it, unless the failure is terminal.
pub(super) async fn send(context: &Context<'_>, provider: &Provider) -> Result<Done, Failure> {
    let (ports, hub) = (context.ports, &context.hub.settings.name);
    let waiting = pending::list(ports, hub, &provider.id, MOST + 1).await?;
    let mut done = Done {
        has_more: waiting.len() > MOST,
        ..Done::default()
    };
    if context.is_rehearsal && !waiting.is_empty() {
        // A rehearsal sends nothing: there is work for a step.
        done.has_more = true;
        return Ok(done);
    }
    let mut sender = Sender {
        context,
        provider,
        link: None,
        alerts: BTreeMap::new(),
        conflicts: BTreeMap::new(),
        objects: None,
    };
    let mut held = 0;
    let start = ports.clock.now();
    let (mut refused, mut failed) = (None, Vec::new());
    for event in waiting.iter().take(MOST) {
        if ports.clock.now().saturating_sub(start) > SENDING {
            done.has_more = true;
            break;
        }
        match sender.send(event).await {
            Ok(SendOutcome::Sent) => done.sent += 1,
            Ok(SendOutcome::Dropped) => {}
            Ok(SendOutcome::Held(after)) => {
                held += 1;
                let known = done.check_after.unwrap_or(after);
                done.check_after = Some(known.min(after));
            }
            Err(failure) if failure.class == Class::Terminal => {
                pending::remove(ports, hub, &provider.id, event).await?;
                refused = Some(failure);
            }
            Err(failure) if event.age(ports) > LONGEST_WAIT => {
                pending::remove(ports, hub, &provider.id, event).await?;
                refused = Some(failure.context("not sent for an hour, and given up"));
            }
            // One event must not keep the others, and a service that is down is not asked for each.
            Err(failure) => failed.push(failure),
        }
        if failed.len() >= FAILURES {
            break;
        }
    }
    done.keeps_status = waiting.len() == held && is_failing(provider);
    // If all of them are held, the next step could do no more now.
    done.has_more &= held < MOST;
    sender.report_conflicts().await;
    match failed.into_iter().next().or(refused) {
        Some(failure) => Err(failure),
        None => Ok(done),
    }
}

/// Returns whether the last notification of this generation was not sent.
fn is_failing(provider: &Provider) -> bool {
    let ready = provider.status.conditions.ready();
    let generation = provider.generation();
    ready.is_some_and(|ready| {
        ready.reason == reason::NOTIFICATION_FAILED && ready.observed_generation == generation
    })
}

/// Removes the events that wait for a Provider.
///
/// # Errors
/// The bucket's.
pub(super) async fn discard(context: &Context<'_>) -> Result<(), Failure> {
    let (ports, hub) = (context.ports, &context.hub.settings.name);
    for event in pending::list(ports, hub, &context.id, MOST).await? {
        pending::remove(ports, hub, &context.id, &event).await?;
    }
    Ok(())
}

/// Removes the events that wait for a Provider which does not exist. An apply may create it soon,
/// so young events stay.
///
/// # Errors
/// The bucket's.
pub(crate) async fn forget(context: &Context<'_>) -> Result<(), Failure> {
    let (ports, hub) = (context.ports, &context.hub.settings.name);
    for event in pending::list(ports, hub, &context.id, MOST).await? {
        if event.age(ports) > LONGEST_WAIT {
            pending::remove(ports, hub, &context.id, &event).await?;
        }
    }
    Ok(())
}

struct Sender<'s, 'c> {
    context: &'s Context<'c>,
    provider: &'s Provider,
    link: Option<Arc<Link>>,
    alerts: BTreeMap<String, Option<Arc<Alert>>>,
    /// The keys that several sources of the metadata of an event have, by the name of the Alert.
    conflicts: BTreeMap<String, BTreeMap<String, String>>,
    /// The objects of the hub that pushes reach.
    objects: Option<Arc<Vec<Object>>>,
}

impl Sender<'_, '_> {
    /// Sends one event, unless that is done, no longer wanted, or too early.
    async fn send(&mut self, waiting: &Pending) -> Result<SendOutcome, Failure> {
        let (context, provider) = (self.context, self.provider);
        let (ports, hub) = (context.ports, &context.hub.settings.name);
        let Some(alert) = self.alert(&waiting.alert).await? else {
            pending::remove(ports, hub, &provider.id, waiting).await?;
            return Ok(SendOutcome::Dropped);
        };
        if pending::was_sent(ports, hub, &provider.id, waiting).await? {
            pending::remove(ports, hub, &provider.id, waiting).await?;
            return Ok(SendOutcome::Dropped);
        }
        let event = match self.event(&alert, waiting).await? {
            DigestOutcome::Wait(after) => return Ok(SendOutcome::Held(after)),
            DigestOutcome::Nothing => {
                pending::set_sent(ports, hub, &provider.id, waiting).await?;
                return Ok(SendOutcome::Dropped);
            }
            DigestOutcome::Send(event) => *event,
        };
        if !content::is_for(provider, &event) {
            pending::remove(ports, hub, &provider.id, waiting).await?;
            return Ok(SendOutcome::Dropped);
        }
        let conflicts = content::conflicts(&alert, &event);
        let event = content::combined(&alert, &event);
        let commit_status = content::commit_status(provider, &alert, &event, &context.fuel);
        let commit_status = commit_status.map_err(|error| {
            let prefix = "failed to create commit status: failed to evaluate the spec.commitStatusExpr CEL expression for the event";
            Failure::terminal(reason::NOTIFICATION_FAILED, format!("{prefix}: {error}"))
        })?;
        let link = self.link().await?;
        let settings = link.settings(&alert, commit_status);
        let transport = ports.notifiers.transport(link.connection.clone());
        let now = i64::try_from(ports.clock.now().as_secs()).unwrap_or(i64::MAX);
        let event = notification(event);
        let sending = notify::send(&settings, &event, transport.as_ref(), now);
        match in_time(ports.clock.as_ref(), LIMIT, Box::pin(sending)).await {
            Some(Ok(())) => pending::set_sent(ports, hub, &provider.id, waiting).await?,
            Some(Err(error)) => return Err(failure(&error.message, error.is_retryable)),
            None => return Err(failure("the service did not answer in time", true)),
        }
        if !conflicts.is_empty() {
            let known = self.conflicts.entry(waiting.alert.clone()).or_default();
            known.extend(conflicts);
        }
        Ok(SendOutcome::Sent)
    }

    /// Returns the event to send for one that waits: itself, or the digest of its push.
    async fn event(&mut self, alert: &Alert, waiting: &Pending) -> Result<DigestOutcome, Failure> {
        let Some(push) = &waiting.push else {
            return Ok(DigestOutcome::Send(Box::new(waiting.event.clone())));
        };
        let objects = match &self.objects {
            Some(objects) => objects.clone(),
            None => {
                let read = Arc::new(digest::objects(self.context).await?);
                self.objects.insert(read).clone()
            }
        };
        let (context, provider) = (self.context, self.provider);
        digest::decide(context, provider, alert, (waiting, push), &objects).await
    }

    /// Writes an event about each Alert with keys of metadata that another source has too: one for
    /// all notifications of the step.
    async fn report_conflicts(&self) {
        for (name, conflicts) in &self.conflicts {
            let Some(Some(alert)) = self.alerts.get(name) else {
                continue;
            };
            let (reason, message) = (content::CONFLICT_REASON, content::CONFLICT_MESSAGE);
            let source = NOTIFICATION_CONTROLLER;
            let about = &alert.object;
            let written =
                self.context
                    .warn_about(about, source, reason, message, conflicts.clone());
            written.await;
        }
    }

    /// Returns an Alert; `None` if it is gone, suspended, or has another Provider now.
    async fn alert(&mut self, name: &str) -> Result<Option<Arc<Alert>>, Failure> {
        if let Some(known) = self.alerts.get(name) {
            return Ok(known.clone());
        }
        let id = ObjectRef::new(FluxKind::Alert, &self.provider.id.namespace, name);
        let found = self.context.hub.get(&id).await?;
        let found = found.and_then(|object| Alert::from_object(object).ok());
        let wants = |alert: &Alert| !alert.is_suspended() && alert.provider() == self.provider.id;
        let found = found.filter(wants).map(Arc::new);
        self.alerts.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    async fn link(&mut self) -> Result<Arc<Link>, Failure> {
        if let Some(link) = &self.link {
            return Ok(link.clone());
        }
        let found = Arc::new(link(self.context, self.provider).await?);
        self.link = Some(found.clone());
        Ok(found)
    }
}

fn failure(message: &str, is_retryable: bool) -> Failure {
    let message = format!("failed to send notification: {message}");
    match is_retryable {
        true => Failure::retry(reason::NOTIFICATION_FAILED, message),
        false => Failure::terminal(reason::NOTIFICATION_FAILED, message),
    }
}

/// Converts an event for the crate of the services.
fn notification(event: FluxEvent) -> notify::Event {
    let involved = event.involved_object;
    notify::Event {
        involved_object: notify::InvolvedObject {
            api_version: involved.api_version,
            kind: involved.kind,
            namespace: involved.namespace,
            name: involved.name,
            uid: involved.uid,
            resource_version: involved.resource_version,
        },
        severity: match event.severity {
            Severity::Trace | Severity::Info => notify::Severity::Info,
            Severity::Error => notify::Severity::Error,
        },
        timestamp: event.timestamp,
        message: event.message,
        reason: event.reason,
        metadata: event.metadata,
        reporting_controller: event.reporting_controller,
        reporting_instance: event.reporting_instance,
    }
}
