//! SQS: a standard queue with delays, visibility, duplicates, any order, a dead-letter queue, and the rule against loops.

use crate::bugs::{Bug, DEDUPLICATION};
use crate::gate::{Gate, Kind, Trouble};
use crate::lambda;
use crate::rng::Rng;
use async_trait::async_trait;
use driftless_core::ports::{Cause, ErrorKind, PortError, Queue, Request, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// `DelaySeconds` goes to 15 minutes.
const LONGEST_DELAY: Duration = Duration::from_secs(900);
/// `VisibilityTimeout` of infra/template.yaml.
pub const VISIBILITY: Duration = Duration::from_secs(720);
/// `maxReceiveCount` of infra/template.yaml.
const MOST_RECEIVES: u32 = 5;
/// Lambda cuts a loop after about so many invocations of one lineage, where the queue's rule is on.
const LONGEST_LINEAGE: u32 = 16;
/// `SendMessageBatch` takes so many.
const BATCH: usize = 10;

/// A message as it is received.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its number.
    pub id: u64,
    /// What was sent.
    pub body: String,
    /// How many messages of its lineage came before.
    pub depth: u32,
    visible: Instant,
    received: u32,
    in_flight: bool,
}

/// The queue.
pub struct Sqs {
    gate: Arc<Gate>,
    state: Mutex<State>,
    /// Rings when a message came.
    pub bell: Notify,
    bug: Option<Bug>,
}

struct State {
    rng: Rng,
    messages: BTreeMap<u64, Message>,
    dead: Vec<Message>,
    next: u64,
    /// How many messages each invocation sent.
    sent_by: BTreeMap<u64, usize>,
    sent: u64,
    /// Of 10,000 deliveries, how many come twice.
    duplicates: u32,
    /// What must be in no message.
    canary: String,
    /// The hubs whose sweeps were asked for.
    sweeps: Vec<String>,
    /// When each body was sent, for a planted bug.
    recent: BTreeMap<String, Instant>,
}

impl State {
    /// Whether an equal message was sent a moment ago.
    fn is_duplicate(&mut self, body: &str) -> bool {
        let now = Instant::now();
        self.recent.retain(|_, sent| now - *sent < DEDUPLICATION);
        let is_known = self.recent.contains_key(body);
        self.recent.entry(body.to_owned()).or_insert(now);
        is_known
    }
}

impl Sqs {
    /// An empty queue.
    pub fn new(gate: Arc<Gate>, rng: Rng, duplicates: u32, canary: &str, bug: Option<Bug>) -> Self {
        let state = State {
            rng,
            messages: BTreeMap::new(),
            dead: Vec::new(),
            next: 0,
            sent_by: BTreeMap::new(),
            sent: 0,
            duplicates,
            canary: canary.to_owned(),
            sweeps: Vec::new(),
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

    /// No message comes twice from now on.
    pub fn calm(&self) {
        self.state().duplicates = 0;
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
                in_flight: false,
            };
            state.messages.insert(id, message);
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Up to ten messages that can be seen, in any order; those that were received too often are dead.
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
        let (mut batch, mut copies) = (Vec::new(), Vec::new());
        while batch.len() < most && !seen.is_empty() {
            let at = state.rng.below(seen.len());
            let id = seen.swap_remove(at);
            let twice = {
                let duplicates = state.duplicates;
                state.rng.chance(duplicates)
            };
            let soon = Duration::from_millis(state.rng.between(50, 5_000));
            let cut = self.bug == Some(Bug::RecursionCut);
            let Some(message) = state.messages.get_mut(&id) else {
                continue;
            };
            message.received += 1;
            if message.received > MOST_RECEIVES || (cut && message.depth >= LONGEST_LINEAGE) {
                if let Some(message) = state.messages.remove(&id) {
                    let what = format!("message {} is dead: {}", message.id, message.body);
                    self.gate.trace.line(&what);
                    state.dead.push(message);
                }
                continue;
            }
            message.in_flight = true;
            message.visible = now + VISIBILITY;
            batch.push(message.clone());
            if twice {
                // At least once: a copy of it is seen soon, also when this one was deleted by then.
                copies.push((message.clone(), soon));
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

    /// Takes a message out that was worked on.
    pub fn delete(&self, id: u64) {
        self.state().messages.remove(&id);
    }

    /// Sends messages again that were worked on.
    pub fn again(&self, messages: &[Message]) {
        let bodies = messages
            .iter()
            .map(|one| (one.body.clone(), Duration::from_secs(20)));
        self.take_in(&bodies.collect::<Vec<_>>());
    }

    /// The messages of the sweep queue, and how long each of them is on its way. A standard queue, too: one may come twice.
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

    /// When the next message can be seen.
    pub fn next(&self) -> Option<Instant> {
        let state = self.state();
        state.messages.values().map(|message| message.visible).min()
    }

    /// How many messages an invocation sent.
    pub fn sent_by(&self, invocation: u64) -> usize {
        let state = self.state();
        state.sent_by.get(&invocation).copied().unwrap_or_default()
    }

    /// How many messages were sent in all.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// What is waiting, without what was received and not deleted, and what is dead.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        let state = self.state();
        let body = |message: &Message| message.body.clone();
        let waiting = state.messages.values().filter(|one| !one.in_flight);
        (
            waiting.map(body).collect(),
            state.dead.iter().map(body).collect(),
        )
    }
}

/// As the adapter rounds it.
fn seconds(delay: Duration) -> Duration {
    let whole = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    Duration::from_secs(whole).min(LONGEST_DELAY)
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
            let mut body = serde_json::to_string(&request).expect("a request is JSON");
            if self.bug == Some(Bug::LeakedSecret) {
                body = format!("{body} {}", self.state().canary);
            }
            messages.push((body, seconds(*delay)));
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
            // Also where the queue took some of a batch: the adapter sends the others again, and gives up at last.
            let refuse = |_: Trouble| {
                let what = "send to the queue: the messages are not taken";
                Err(PortError::new(ErrorKind::Unavailable, what))
            };
            self.gate
                .call(Kind::Send, &name, None, effect, refuse)
                .await?;
        }
        Ok(())
    }
}
