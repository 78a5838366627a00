//! The queue in a stream.
//!
//! A message with a delay is a schedule (ADR-51 of NATS): the server itself publishes it to its
//! queue when its time has come. So delayed messages cost no worker anything, and survive all of
//! them. The clocks of the workers and of the server must agree to about a second.

use crate::connection::Nats;
use crate::error::{of_publish, unavailable};
use async_nats::header::{NATS_SCHEDULE, NATS_SCHEDULE_TARGET};
use async_nats::jetstream::message::PublishMessage;
use async_trait::async_trait;
use driftless_kernel::document;
use driftless_kernel::ports::{ErrorKind, PortError, Queue, Request, Result, SweepRequest};
use jiff::Timestamp;
use serde::Serialize;
use std::time::Duration;

/// The longest delay, which is that of SQS.
const MAX_DELAY: Duration = Duration::from_secs(15 * 60);
/// The messages that are sent before their answers are awaited.
const BATCH: usize = 128;

/// A queue of the stream: each has its own receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueName {
    /// The requests of steps.
    Steps,
    /// The requests of steps that run alone in their worker.
    Isolated,
    /// The sweeps of hubs.
    Sweeps,
}

impl QueueName {
    /// Returns the last token of the queue's subject.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Isolated => "isolated",
            Self::Sweeps => "sweeps",
        }
    }
}

/// The queue of an installation.
#[derive(Clone)]
pub struct NatsQueue {
    nats: Nats,
    sweep_interval: Duration,
}

impl NatsQueue {
    /// Creates the sending end of the queue. In each interval, at most one sweep of a hub is
    /// queued, by all workers together; each of them must have the same interval, of 1 s to 10
    /// minutes.
    pub fn new(nats: &Nats, sweep_interval: Duration) -> Self {
        Self {
            nats: nats.clone(),
            sweep_interval,
        }
    }

    /// Returns the number of messages that wait or are being worked on, with those that have a
    /// delay.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn waiting(&self) -> Result<u64> {
        let operation = "read the state of the queue";
        self.nats.ready(operation).await?;
        let info = self.nats.queue.get_info().await;
        let info = info.map_err(|error| unavailable(operation, error))?;
        Ok(info.state.messages)
    }

    fn subject(&self, queue: QueueName) -> String {
        format!("{}.queue.{}", self.nats.prefix, queue.as_str())
    }

    /// Returns the subject and the message of a request.
    fn message(&self, request: &Request, delay: Duration) -> Result<(String, PublishMessage)> {
        let queue = match request.isolated {
            true => QueueName::Isolated,
            false => QueueName::Steps,
        };
        let message = PublishMessage::build().payload(body(request)?.into());
        let target = self.subject(queue);
        if delay.is_zero() {
            return Ok((target, message));
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| unavailable("queue a request", error))?;
        let at = Timestamp::now().checked_add(delay.min(MAX_DELAY));
        let at = at.map_err(|error| {
            PortError::new(ErrorKind::Invalid, format!("queue a request: {error}"))
        })?;
        let message = message
            .header(NATS_SCHEDULE, format!("@at {at}"))
            .header(NATS_SCHEDULE_TARGET, target);
        let subject = format!("{}.queue.later.{}", self.nats.prefix, hex::encode(id));
        Ok((subject, message))
    }

    /// Sends messages, and returns when the stream has them all.
    async fn send_all(&self, messages: Vec<(String, PublishMessage)>) -> Result<()> {
        let operation = "queue a request";
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            self.nats.ready(operation).await?;
            let mut sent = Vec::new();
            for (subject, message) in messages.by_ref().take(BATCH) {
                let publish = self.nats.context.send_publish(subject, message).await;
                sent.push(publish.map_err(|error| of_publish(operation, &error))?);
            }
            for answer in sent {
                answer
                    .await
                    .map_err(|error| of_publish(operation, &error))?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Queue for NatsQueue {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        let messages = requests.iter().map(|(request, delay)| {
            let delay = *delay;
            self.message(request, delay)
        });
        self.send_all(messages.collect::<Result<_>>()?).await
    }

    /// Queues a sweep of each hub, unless a worker has done so in this interval. A sweep that no
    /// worker has begun after two intervals is dropped: later ones wait behind it.
    async fn sweep(&self, hubs: &[String]) -> Result<bool> {
        let interval = self.sweep_interval.as_secs().max(1);
        let now = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
        let slot = now / interval;
        let subject = self.subject(QueueName::Sweeps);
        let messages = hubs.iter().map(|hub| {
            let request = SweepRequest { sweep: hub.clone() };
            let message = PublishMessage::build()
                .payload(body(&request)?.into())
                .message_id(format!("sweep/{hub}/{interval}/{slot}"))
                .ttl(Duration::from_secs(2 * interval));
            Ok((subject.clone(), message))
        });
        self.send_all(messages.collect::<Result<_>>()?).await?;
        Ok(true)
    }
}

/// Serializes the body of a message.
fn body(request: &impl Serialize) -> Result<String> {
    document::encode(request).map_err(|error| {
        let message = format!("write a request as JSON: {error}");
        PortError::new(ErrorKind::Invalid, message)
    })
}
