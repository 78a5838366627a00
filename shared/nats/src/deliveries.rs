//! The receiving end of the queue.

use crate::connection::{ACK_WAIT, Nats};
use crate::error::{of_publish, unavailable};
use crate::queue::QueueName;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{AckKind, Message};
use driftless_kernel::document::{self, DocumentError};
use driftless_kernel::ports::{Request, Result, SweepRequest};
use futures::StreamExt as _;
use std::time::Duration;
use tokio::sync::Mutex;

/// The number of deliveries after which a message that fails is put among the dead messages, as
/// from the queue on AWS.
pub const MAX_DELIVERIES: u64 = 5;
/// The time for which the server keeps a request for a message. A request cannot be taken back
/// without the loss of a message that is on its way, so that an isolated step waits for its end.
const WAIT: Duration = Duration::from_secs(5);
/// The header of a dead message with the reason.
const REASON: &str = "Driftless-Reason";

/// The receiving end of one queue, for any number of tasks.
pub struct Deliveries {
    nats: Nats,
    queue: QueueName,
    /// Absent before the first message, and after a failure.
    consumer: Mutex<Option<PullConsumer>>,
}

/// The work that a message requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A step of an object.
    Step(Box<Request>),
    /// A sweep of the hub of this name.
    Sweep(String),
}

/// A message that was delivered. Unless it is done, retried or buried, the server delivers it again
/// 30 s after the last sign of progress.
pub struct Delivery {
    nats: Nats,
    queue: QueueName,
    message: Message,
    /// The number of times that the message was delivered, with this one.
    pub deliveries: u64,
}

impl Deliveries {
    /// Creates the receiving end of a queue.
    pub fn new(nats: &Nats, queue: QueueName) -> Self {
        Self {
            nats: nats.clone(),
            queue,
            consumer: Mutex::default(),
        }
    }

    /// Returns the queue.
    pub fn queue(&self) -> QueueName {
        self.queue
    }

    /// Waits for a message, for five seconds at most; `None` if it does not come.
    ///
    /// # Errors
    /// No server is connected, or the connection was lost.
    pub async fn next(&self) -> Result<Option<Delivery>> {
        let mut losses = self.nats.losses.clone();
        losses.mark_unchanged();
        let operation = format!("receive from the queue {}", self.queue.as_str());
        let received = tokio::select! {
            received = self.receive(&operation) => received,
            _ = losses.changed() => Err(unavailable(&operation, "the connection was lost")),
        };
        if received.is_err() {
            // The server may have lost the consumer as well.
            *self.consumer.lock().await = None;
        }
        received
    }

    async fn receive(&self, operation: &str) -> Result<Option<Delivery>> {
        let consumer = self.consumer().await?;
        // Without heartbeats: after one, the client does not notify the waiting task. A server that
        // no longer answers is found by the pings of the connection.
        let batch = consumer.batch().max_messages(1).expires(WAIT);
        let batch = batch.messages().await;
        let mut batch = batch.map_err(|error| unavailable(operation, error))?;
        let Some(next) = batch.next().await else {
            return Ok(None);
        };
        let message = next.map_err(|error| unavailable(operation, error))?;
        let info = message.info();
        let info = info.map_err(|error| unavailable(operation, error))?;
        Ok(Some(Delivery {
            nats: self.nats.clone(),
            queue: self.queue,
            deliveries: u64::try_from(info.delivered).unwrap_or(1),
            message,
        }))
    }

    async fn consumer(&self) -> Result<PullConsumer> {
        let mut known = self.consumer.lock().await;
        if let Some(consumer) = known.as_ref() {
            return Ok(consumer.clone());
        }
        let consumer = self.nats.consumer(self.queue.as_str()).await?;
        Ok(known.insert(consumer).clone())
    }
}

impl Delivery {
    /// The interval of signs of progress.
    pub const PROGRESS: Duration = Duration::from_secs(ACK_WAIT.as_secs() / 3);

    /// Returns the queue that the message is from.
    pub fn queue(&self) -> QueueName {
        self.queue
    }

    /// Reads the message.
    ///
    /// # Errors
    /// The message is damaged, or of a newer version, which another worker may have.
    pub fn work(&self) -> std::result::Result<Work, DocumentError> {
        let body = &self.message.payload;
        match self.queue {
            QueueName::Steps | QueueName::Isolated => document::decode(body).map(Work::Step),
            QueueName::Sweeps => {
                document::decode(body).map(|SweepRequest { sweep }| Work::Sweep(sweep))
            }
        }
    }

    /// Reports to the server that a worker still has the message.
    pub async fn progress(&self) {
        self.acknowledge(AckKind::Progress).await;
    }

    /// Deletes the message: its work is done.
    pub async fn done(self) {
        self.acknowledge(AckKind::Ack).await;
    }

    /// Returns the message to the queue; it is delivered again after this time.
    pub async fn retry(self, after: Duration) {
        self.acknowledge(AckKind::Nak(Some(after))).await;
    }

    /// Moves the message to the dead messages.
    ///
    /// # Errors
    /// The stream of dead messages does not take it; it is delivered again.
    pub async fn bury(self, reason: &str) -> Result<()> {
        let operation = "keep a message that failed";
        self.nats.ready(operation).await?;
        let subject = format!("{}.dead.{}", self.nats.prefix, self.queue.as_str());
        // A reason of several lines is not a header.
        let reason = reason.replace(char::is_control, " ");
        let mut message = PublishMessage::build()
            .payload(self.message.payload.clone())
            .header(REASON, reason.as_str());
        if let Ok(info) = self.message.info() {
            // A second burial of the same message is dropped.
            message = message.message_id(format!("{}/{}", info.stream, info.stream_sequence));
        }
        let sent = self.nats.context.send_publish(subject, message).await;
        let sent = sent.map_err(|error| of_publish(operation, &error))?;
        sent.await.map_err(|error| of_publish(operation, &error))?;
        self.done().await;
        Ok(())
    }

    /// Sends an acknowledgement. If it is lost, the message is delivered again, and its step finds
    /// that nothing is left to do.
    async fn acknowledge(&self, kind: AckKind) {
        if let Err(error) = self.message.ack_with(kind).await {
            tracing::debug!("the acknowledgement of a message is lost: {error}");
        }
    }
}
