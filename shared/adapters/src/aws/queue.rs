//! The queue on SQS.

use super::error::to_error;
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use driftless_core::ports::{ErrorKind, PortError, Queue, Request, Result, SweepRequest};
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// The number of messages of one call.
const BATCH: usize = 10;
/// The number of concurrent calls.
const CONCURRENT_CALLS: usize = 8;
/// The number of attempts for messages that the queue did not accept.
const TRIES: u32 = 4;
/// The delay before the second attempt; it doubles for each further one.
const BACKOFF: Duration = Duration::from_millis(100);
/// The longest delay of SQS, in seconds.
const MAX_DELAY: i32 = 900;

/// A standard queue of SQS.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    client: Client,
    url: String,
    sweeps: Option<String>,
}

/// The state of a queue. Numbers of messages are approximate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// The number of messages that can be received.
    pub waiting: u64,
    /// The number of messages that were received and not deleted.
    pub in_flight: u64,
    /// The visibility timeout in seconds.
    pub visibility_seconds: u64,
    /// The number of messages in the dead-letter queue; `None` without such a queue.
    pub dead_letters: Option<u64>,
}

fn number(
    attributes: &HashMap<QueueAttributeName, String>,
    name: QueueAttributeName,
) -> Result<u64> {
    let value = attributes.get(&name).and_then(|text| text.parse().ok());
    value.ok_or_else(|| {
        let message = format!("the queue's attribute {} is not a number", name.as_str());
        PortError::new(ErrorKind::Unreadable, message)
    })
}

impl SqsQueue {
    /// Creates a client of the queue at a URL.
    pub fn new(settings: &SdkConfig, url: impl Into<String>) -> Self {
        Self {
            client: Client::new(settings),
            url: url.into(),
            sweeps: None,
        }
    }

    /// Adds the URL of a second queue, for the sweeps of hubs: `{"sweep": "HUB"}`.
    #[must_use]
    pub fn with_sweeps(self, url: impl Into<String>) -> Self {
        Self {
            sweeps: Some(url.into()),
            ..self
        }
    }

    /// Reads the state of the queue and of its dead-letter queue.
    ///
    /// # Errors
    /// Fails if the service does, or if an attribute is not valid.
    pub async fn state(&self) -> Result<QueueState> {
        let attributes = self.attributes(&self.url).await?;
        let dead = attributes.get(&QueueAttributeName::RedrivePolicy);
        let dead_letters = match dead {
            None => None,
            Some(policy) => Some(self.dead_letters(policy).await?),
        };
        Ok(QueueState {
            waiting: number(&attributes, QueueAttributeName::ApproximateNumberOfMessages)?,
            in_flight: number(
                &attributes,
                QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            )?,
            visibility_seconds: number(&attributes, QueueAttributeName::VisibilityTimeout)?,
            dead_letters,
        })
    }

    /// Returns the number of messages in the queue that a redrive policy names.
    async fn dead_letters(&self, policy: &str) -> Result<u64> {
        let unreadable = || {
            PortError::new(
                ErrorKind::Unreadable,
                "the queue's redrive policy has no target",
            )
        };
        let policy: serde_json::Value = serde_json::from_str(policy).map_err(|_| unreadable())?;
        let target = policy["deadLetterTargetArn"].as_str();
        let name = target.and_then(|arn| arn.rsplit(':').next());
        let request = self.client.get_queue_url();
        let found = request
            .queue_name(name.ok_or_else(unreadable)?)
            .send()
            .await;
        let found = found.map_err(|error| to_error("find the dead-letter queue", &error))?;
        let url = found.queue_url().ok_or_else(unreadable)?;
        let attributes = self.attributes(url).await?;
        number(&attributes, QueueAttributeName::ApproximateNumberOfMessages)
    }

    async fn attributes(&self, url: &str) -> Result<HashMap<QueueAttributeName, String>> {
        let request = self.client.get_queue_attributes().queue_url(url);
        let answer = request
            .attribute_names(QueueAttributeName::All)
            .send()
            .await;
        let answer = answer.map_err(|error| to_error("read the state of the queue", &error))?;
        Ok(answer.attributes.unwrap_or_default())
    }

    /// Sends messages with their delays until the queue has accepted all of them.
    async fn send_all(&self, url: &str, messages: &[(String, i32)]) -> Result<()> {
        let batches: Vec<Vec<_>> = messages.chunks(BATCH).map(<[_]>::to_vec).collect();
        futures::stream::iter(batches)
            .map(|batch| self.batch(url, batch))
            .buffer_unordered(CONCURRENT_CALLS)
            .try_collect()
            .await
    }

    /// Sends at most ten messages until the queue has accepted all of them.
    async fn batch(&self, url: &str, mut messages: Vec<(String, i32)>) -> Result<()> {
        let mut wait = BACKOFF;
        for attempt in 1..=TRIES {
            let mut entries = Vec::with_capacity(messages.len());
            for (at, (body, delay)) in messages.iter().enumerate() {
                let entry = SendMessageBatchRequestEntry::builder()
                    .id(at.to_string())
                    .message_body(body)
                    .delay_seconds(*delay)
                    .build()
                    .map_err(|_| {
                        PortError::new(
                            ErrorKind::Invalid,
                            "send to the queue: a message is not valid",
                        )
                    })?;
                entries.push(entry);
            }
            let request = self
                .client
                .send_message_batch()
                .queue_url(url)
                .set_entries(Some(entries));
            let answer = request
                .send()
                .await
                .map_err(|error| to_error("send to the queue", &error))?;
            if let Some(failed) = answer.failed.iter().find(|failed| failed.sender_fault) {
                let message = format!("send to the queue: a message was refused: {}", failed.code);
                return Err(PortError::new(ErrorKind::Invalid, message));
            }
            // Only messages that the answer lists as successful are sent.
            let sent: Vec<&str> = answer
                .successful
                .iter()
                .map(|one| one.id.as_str())
                .collect();
            let mut at = 0;
            messages.retain(|_| {
                at += 1;
                !sent.contains(&(at - 1).to_string().as_str())
            });
            if messages.is_empty() {
                return Ok(());
            }
            if attempt < TRIES {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
        }
        let message = format!(
            "send to the queue: {} messages were not accepted after {TRIES} attempts",
            messages.len()
        );
        Err(PortError::new(ErrorKind::Unavailable, message))
    }
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        let mut messages = Vec::with_capacity(requests.len());
        for (request, delay) in &requests {
            messages.push((body(request)?, seconds(*delay)));
        }
        self.send_all(&self.url, &messages).await
    }

    async fn sweep(&self, hubs: &[String]) -> Result<bool> {
        let Some(url) = &self.sweeps else {
            return Ok(false);
        };
        let mut messages = Vec::with_capacity(hubs.len());
        for hub in hubs {
            let sweep = hub.clone();
            messages.push((body(&SweepRequest { sweep })?, 0));
        }
        self.send_all(url, &messages).await?;
        Ok(true)
    }

    async fn redeliver(&self, receipt: &str, after: Duration) -> Result<()> {
        let request = self
            .client
            .change_message_visibility()
            .queue_url(&self.url)
            .receipt_handle(receipt)
            .visibility_timeout(seconds(after));
        let answer = request.send().await;
        answer.map_err(|error| to_error("return a message to the queue", &error))?;
        Ok(())
    }
}

/// Serializes the body of a message.
fn body(request: &impl Serialize) -> Result<String> {
    serde_json::to_string(request).map_err(|error| {
        let message = format!("write a request as JSON: {error}");
        PortError::new(ErrorKind::Invalid, message)
    })
}

/// Converts a delay to whole seconds, rounded up and capped at the longest delay of SQS.
fn seconds(delay: Duration) -> i32 {
    let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(MAX_DELAY).min(MAX_DELAY)
}
