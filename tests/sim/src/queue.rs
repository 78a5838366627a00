//! SQS: a standard queue with delays, visibility timeout, duplicates, any order, a dead-letter
//! queue, and loop detection.

use crate::bugs::{Bug, DEDUPLICATION};
use crate::gate::{Gate, Kind, Trouble};
use crate::lambda;
use crate::rng::Rng;
use async_trait::async_trait;
use driftless_kernel::document;
use driftless_kernel::ports::{Cause, ErrorKind, PortError, Queue, Request, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The maximum of `DelaySeconds`: 15 minutes.
const MAX_DELAY: Duration = Duration::from_secs(900);
/// `VisibilityTimeout` of infra/template.yaml.
pub const VISIBILITY: Duration = Duration::from_secs(720);
/// `maxReceiveCount` of infra/template.yaml.
const MAX_RECEIVES: u32 = 5;
/// The number of invocations of one lineage after which Lambda's recursive loop detection cuts a
/// loop.
const MAX_LINEAGE: u32 = 16;
/// The most messages of one `SendMessageBatch`.
const BATCH: usize = 10;

/// A message of the queue.
#[derive(Clone, Debug)]
pub struct Message {
    /// The number of the message.
    pub id: u64,
    /// The body that was sent.
    pub body: String,
    /// The number of messages of its lineage before it.
    pub depth: u32,
    visible: Instant,
    received: u32,
    /// The time of the last receive.
    received_at: Instant,
    in_flight: bool,
}

impl Message {
    /// Returns a message of the sweep queue.
    pub fn of_sweep(body: String) -> Self {
        Self {
            id: 0,
            body,
            depth: 0,
            visible: Instant::now(),
            received: 1,
            received_at: Instant::now(),
            in_flight: true,
        }
    }

    /// Returns the receipt handle of the last receive.
    pub fn receipt(&self) -> String {
        format!("{}/{}", self.id, self.received)
    }

    /// Returns whether the message is of an isolated step, which has its own queue.
    pub fn is_isolated(&self) -> bool {
        self.body.contains(r#""isolated":true"#)
    }

    /// Returns how many times the message was received.
    pub fn received(&self) -> u32 {
        self.received
    }
}

/// The reconcile queue and the sweep queue.
pub struct Sqs {
    gate: Arc<Gate>,
    state: Mutex<State>,
    /// Notifies the poller of a new message.
    pub bell: Notify,
    bug: Option<Bug>,
}

struct State {
    rng: Rng,
    messages: BTreeMap<u64, Message>,
    dead: Vec<Message>,
    next: u64,
    /// The number of messages that each invocation sent.
    sent_by: BTreeMap<u64, usize>,
    sent: u64,
    /// The number of messages, of 10,000, that are delivered two times.
    duplicates: u32,
    /// The end of all trouble, or the beginning of the run.
    calm_since: Instant,
    /// The string that no message may contain.
    canary: String,
    /// The hubs in the messages of the sweep queue.
    sweeps: Vec<String>,
    /// The messages that each invocation has sent, for [`Bug::SendsAtTheEnd`].
    held: BTreeMap<u64, Vec<(String, Duration)>>,
    /// The time at which each body was sent, for [`Bug::Deduplicated`].
    recent: BTreeMap<String, Instant>,
}

impl State {
    /// Returns whether an equal message was sent within the deduplication interval.
    fn is_duplicate(&mut self, body: &str) -> bool {
        let now = Instant::now();
        self.recent.retain(|_, sent| now - *sent < DEDUPLICATION);
        let is_known = self.recent.contains_key(body);
        self.recent.entry(body.to_owned()).or_insert(now);
        is_known
    }
}

impl Sqs {
    /// Returns an empty queue.
    pub fn new(gate: Arc<Gate>, rng: Rng, duplicates: u32, canary: &str, bug: Option<Bug>) -> Self {
        let state = State {
            rng,
            messages: BTreeMap::new(),
            dead: Vec::new(),
            next: 0,
            sent_by: BTreeMap::new(),
            sent: 0,
            duplicates,
            calm_since: Instant::now(),
            canary: canary.to_owned(),
            sweeps: Vec::new(),
            held: BTreeMap::new(),
            recent: BTreeMap::new(),
        };
        Self {
            gate,
            state: Mutex::new(state),
            bell: Notify::new(),
            bug,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("the queue")
    }

    /// Notes the end of all trouble: messages are no longer duplicated.
    pub fn calm(&self) {
        let mut state = self.state();
        (state.duplicates, state.calm_since) = (0, Instant::now());
    }

    fn take_in(&self, messages: &[(String, Duration)]) {
        let invocation = lambda::current();
        let function = invocation.as_ref().map_or("", |one| one.function);
        let depth = invocation.as_ref().map_or(0, |one| one.depth + 1);
        let mut state = self.state();
        for (body, delay) in messages {
            let lost = match self.bug {
                Some(Bug::TimerMessagesLost) => function == "drift",
                Some(Bug::WakeLost) => body.contains(r#""cause":"dependency""#),
                Some(Bug::Deduplicated) => state.is_duplicate(body),
                _ => false,
            };
            if let Some(invocation) = &invocation {
                *state.sent_by.entry(invocation.id).or_default() += 1;
            }
            state.sent += 1;
            if body.contains(&state.canary) {
                self.gate
                    .trace
                    .violation('S', "a message carries the canary");
            }
            if lost {
                continue;
            }
            let id = state.next;
            state.next += 1;
            // Delivery may take a moment, so order is not kept.
            let jitter = Duration::from_millis(state.rng.between(0, 400));
            let message = Message {
                id,
                body: body.clone(),
                depth,
                visible: Instant::now() + *delay + jitter,
                received: 0,
                received_at: Instant::now(),
                in_flight: false,
            };
            state.messages.insert(id, message);
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Returns up to ten visible messages, in any order, or one of an isolated step, which has its
    /// own queue; those that were received too often move to the dead-letter queue.
    pub fn receive(&self) -> Vec<Message> {
        let now = Instant::now();
        let mut state = self.state();
        let mut seen: Vec<u64> = state
            .messages
            .values()
            .filter(|message| message.visible <= now)
            .map(|message| message.id)
            .collect();
        let most = state.rng.between(1, BATCH as u64) as usize;
        let (mut batch, mut copies) = (Vec::<Message>::new(), Vec::new());
        while batch.len() < most && !seen.is_empty() {
            let at = state.rng.below(seen.len());
            let id = seen.swap_remove(at);
            let isolated = state.messages.get(&id).is_some_and(Message::is_isolated);
            if isolated && !batch.is_empty() {
                continue;
            }
            let is_duplicated = {
                let duplicates = state.duplicates;
                state.rng.chance(duplicates)
            };
            let soon = Duration::from_millis(state.rng.between(50, 5_000));
            let cut = self.bug == Some(Bug::RecursionCut);
            let Some(message) = state.messages.get_mut(&id) else {
                continue;
            };
            message.received += 1;
            if message.received > MAX_RECEIVES || (cut && message.depth >= MAX_LINEAGE) {
                if let Some(message) = state.messages.remove(&id) {
                    let line = format!("message {} is dead: {}", message.id, message.body);
                    self.gate.trace.line(&line);
                    state.dead.push(message);
                }
                continue;
            }
            message.in_flight = true;
            message.received_at = now;
            message.visible = now + VISIBILITY;
            batch.push(message.clone());
            if is_duplicated {
                // At-least-once delivery: a copy is visible soon, even if this message was deleted
                // by then.
                copies.push((message.clone(), soon));
            }
            if message.is_isolated() {
                break;
            }
        }
        for (mut copy, soon) in copies {
            copy.id = state.next;
            state.next += 1;
            (copy.in_flight, copy.visible) = (false, now + soon);
            state.messages.insert(copy.id, copy);
        }
        batch
    }

    /// Deletes a message that was processed.
    pub fn delete(&self, id: u64) {
        self.state().messages.remove(&id);
    }

    /// Sends processed messages again.
    pub fn resend(&self, messages: &[Message]) {
        let bodies = messages
            .iter()
            .map(|one| (one.body.clone(), Duration::from_secs(20)));
        self.take_in(&bodies.collect::<Vec<_>>());
    }

    /// Queues the messages that an invocation sent and that [`Bug::SendsAtTheEnd`] holds back.
    pub fn release(&self, invocation: u64) {
        let held = self.state().held.remove(&invocation).unwrap_or_default();
        self.take_in(&held);
    }

    /// Takes the messages of the sweep queue, with the delay of each. It is also a standard queue:
    /// a message may come two times.
    pub fn take_sweeps(&self) -> Vec<(String, Duration)> {
        let mut state = self.state();
        let mut taken = Vec::new();
        for hub in std::mem::take(&mut state.sweeps) {
            let duplicates = state.duplicates;
            let copies = 1 + usize::from(state.rng.chance(duplicates));
            for _ in 0..copies {
                let jitter = Duration::from_millis(state.rng.between(0, 400));
                taken.push((hub.clone(), jitter));
            }
        }
        taken
    }

    /// Returns the time at which the next message is visible.
    pub fn next(&self) -> Option<Instant> {
        let state = self.state();
        state.messages.values().map(|message| message.visible).min()
    }

    /// Returns the number of messages that an invocation sent.
    pub fn sent_by(&self, invocation: u64) -> usize {
        let state = self.state();
        state.sent_by.get(&invocation).copied().unwrap_or_default()
    }

    /// Returns the number of all messages that were sent.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// Returns the bodies of the waiting messages, without those in flight, and of the dead ones. A
    /// message that failed too often before all trouble ended is not among them.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        let state = self.state();
        let body = |message: &Message| message.body.clone();
        let waiting = state.messages.values().filter(|one| !one.in_flight);
        let dead = state.dead.iter();
        let dead = dead.filter(|one| one.received_at >= state.calm_since);
        (waiting.map(body).collect(), dead.map(body).collect())
    }
}

/// Rounds a delay up to whole seconds, as the adapter does.
fn seconds(delay: Duration) -> Duration {
    let whole = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    Duration::from_secs(whole).min(MAX_DELAY)
}

#[async_trait]
impl Queue for Sqs {
    async fn sweep(&self, hubs: &[String]) -> Result<bool> {
        let effect = || {
            self.state().sweeps.extend_from_slice(hubs);
            Ok(true)
        };
        let refuse = |trouble| {
            Err(PortError::new(
                ErrorKind::Unavailable,
                format!("send to the sweep queue: {trouble:?}"),
            ))
        };
        self.gate
            .call(Kind::Send, "send sweeps", None, effect, refuse)
            .await
    }

    async fn redeliver(&self, _: &str, receipt: &str, after: Duration) -> Result<()> {
        let effect = || {
            let mut state = self.state();
            // An older receipt handle, or that of a deleted message, changes nothing.
            let is_last = |one: &&mut Message| one.receipt() == receipt;
            if let Some(message) = state.messages.values_mut().find(is_last) {
                message.visible = Instant::now() + after;
            }
            drop(state);
            self.bell.notify_one();
            Ok(())
        };
        let refuse = |trouble| {
            let message = format!("change the visibility of a message: {trouble:?}");
            Err(PortError::new(ErrorKind::Unavailable, message))
        };
        self.gate
            .call(Kind::Send, "change visibility", None, effect, refuse)
            .await
    }

    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        let mut messages = Vec::with_capacity(requests.len());
        for (request, delay) in &requests {
            let mut request = request.clone();
            match self.bug {
                Some(Bug::NoTokens) => request.token = None,
                Some(Bug::SourceAsTimer) if request.cause == Cause::Source => {
                    request.cause = Cause::Timer;
                }
                _ => {}
            }
            let mut body = document::encode(&request).expect("a request is JSON");
            if self.bug == Some(Bug::LeakedSecret) {
                body = format!("{body} {}", self.state().canary);
            }
            messages.push((body, seconds(*delay)));
        }
        if self.bug == Some(Bug::SendsAtTheEnd)
            && let Some(invocation) = lambda::current()
            && invocation.function == "drift"
        {
            let mut state = self.state();
            state
                .held
                .entry(invocation.id)
                .or_default()
                .extend(messages);
            return Ok(());
        }
        for batch in messages.chunks(BATCH) {
            if self.bug == Some(Bug::EarlyAnswer)
                && lambda::current().is_some_and(|one| one.function == "webhook")
            {
                return Ok(());
            }
            let name = batch
                .iter()
                .map(|(body, delay)| format!("{body}+{}", delay.as_secs()))
                .collect::<Vec<_>>()
                .join(" ");
            let effect = || {
                self.take_in(batch);
                Ok(())
            };
            // Also if the queue took a part of a batch: the adapter sends the others again, and
            // fails in the end.
            let refuse = |_: Trouble| {
                let message = "send to the queue: the messages are not taken";
                Err(PortError::new(ErrorKind::Unavailable, message))
            };
            self.gate
                .call(Kind::Send, &name, None, effect, refuse)
                .await?;
        }
        Ok(())
    }
}
