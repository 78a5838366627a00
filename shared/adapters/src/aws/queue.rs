//! The queue on SQS.

use super::error::to_error;
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use driftless_kernel::document;
use driftless_kernel::ports::{
    ErrorKind, PlanRequest, PortError, Queue, Request, Result, SweepRequest,
};
use driftless_kernel::state::key_part;
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use sha2::{Digest, Sha256};
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
/// The bytes of the messages of one call from which another one begins. SQS allows 1 MiB; a batch
/// of ten messages, which Lambda passes to a function at once, then has at most 2 MB.
const BATCH_BYTES: usize = 200 << 10;
/// The longest group of a message, in bytes.
const MAX_GROUP: usize = 128;

/// A standard queue of SQS, and further ones for isolated steps, for sweeps and for plans.
///
/// Each message has a group (`MessageGroupId`): the namespace of its object. If one group has many
/// messages, SQS delivers those of the other groups first (fair queues).
#[derive(Clone, Debug)]
pub struct SqsQueue {
    client: Client,
    url: String,
    isolated: Option<String>,
    sweeps: Option<String>,
    plans: Option<String>,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    body: String,
    /// The delay in seconds.
    delay: i32,
    group: String,
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
            isolated: None,
            sweeps: None,
            plans: None,
        }
    }

    /// Adds the URL of a second queue, for isolated steps.
    #[must_use]
    pub fn with_isolated(self, url: impl Into<String>) -> Self {
        Self {
            isolated: Some(url.into()),
            ..self
        }
    }

    /// Adds the URL of another queue, for the sweeps of hubs: `{"sweep": "HUB"}`.
    #[must_use]
    pub fn with_sweeps(self, url: impl Into<String>) -> Self {
        Self {
            sweeps: Some(url.into()),
            ..self
        }
    }

    /// Adds the URL of another queue, for the plans of pull requests.
    #[must_use]
    pub fn with_plans(self, url: impl Into<String>) -> Self {
        Self {
            plans: Some(url.into()),
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
    async fn send_all(&self, url: &str, messages: &[Message]) -> Result<()> {
        let batches = batches(messages);
        futures::stream::iter(batches)
            .map(|batch| self.batch(url, batch))
            .buffer_unordered(CONCURRENT_CALLS)
            .try_collect()
            .await
    }

    /// Sends at most ten messages until the queue has accepted all of them.
    async fn batch(&self, url: &str, mut messages: Vec<Message>) -> Result<()> {
        let mut wait = BACKOFF;
        for attempt in 1..=TRIES {
            let mut entries = Vec::with_capacity(messages.len());
            for (at, message) in messages.iter().enumerate() {
                let entry = SendMessageBatchRequestEntry::builder()
                    .id(at.to_string())
                    .message_body(&message.body)
                    .message_group_id(&message.group)
                    .delay_seconds(message.delay)
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

/// Returns the messages of each call.
fn batches(messages: &[Message]) -> Vec<Vec<Message>> {
    let mut batches: Vec<Vec<Message>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        bytes += message.body.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes <= BATCH_BYTES => {
                batch.push(message.clone());
            }
            _ => {
                bytes = message.body.len();
                batches.push(vec![message.clone()]);
            }
        }
    }
    batches
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        let (mut ordinary, mut isolated) = (Vec::with_capacity(requests.len()), Vec::new());
        for (request, delay) in &requests {
            let message = Message {
                body: body(request)?,
                delay: seconds(*delay),
                group: group(&[&request.hub, &request.object.namespace]),
            };
            match request.isolated {
                true => isolated.push(message),
                false => ordinary.push(message),
            }
        }
        self.send_all(&self.url, &ordinary).await?;
        let url = self.isolated.as_ref().unwrap_or(&self.url);
        self.send_all(url, &isolated).await
    }

    async fn sweep(&self, hubs: &[String]) -> Result<bool> {
        let Some(url) = &self.sweeps else {
            return Ok(false);
        };
        let mut messages = Vec::with_capacity(hubs.len());
        for hub in hubs {
            let sweep = hub.clone();
            messages.push(Message {
                body: body(&SweepRequest { sweep })?,
                delay: 0,
                group: group(&[hub]),
            });
        }
        self.send_all(url, &messages).await?;
        Ok(true)
    }

    async fn plan(&self, request: &PlanRequest) -> Result<bool> {
        let Some(url) = &self.plans else {
            return Ok(false);
        };
        let message = Message {
            body: body(request)?,
            delay: 0,
            group: group(&[&request.repository]),
        };
        self.send_all(url, &[message]).await?;
        Ok(true)
    }

    async fn redeliver(&self, source: &str, receipt: &str, after: Duration) -> Result<()> {
        let mut others = [&self.isolated, &self.plans].into_iter().flatten();
        let other = others.find(|url| is_same_queue(source, url));
        let request = self
            .client
            .change_message_visibility()
            .queue_url(other.unwrap_or(&self.url))
            .receipt_handle(receipt)
            .visibility_timeout(seconds(after));
        let answer = request.send().await;
        answer.map_err(|error| to_error("return a message to the queue", &error))?;
        Ok(())
    }
}

/// Returns whether an ARN and a URL name the same queue of one account and region.
fn is_same_queue(arn: &str, url: &str) -> bool {
    arn.rsplit(':').next() == url.rsplit('/').next()
}

/// Returns the group of a message from the parts of its name: their hash if they are too long.
/// SQS accepts letters, digits and punctuation of ASCII.
fn group(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| key_part(part)).collect();
    let group = parts.join("/");
    match group.len() <= MAX_GROUP {
        true => group,
        false => hex::encode(Sha256::digest(group)),
    }
}

/// Serializes the body of a message.
fn body(request: &impl Serialize) -> Result<String> {
    document::encode(request).map_err(|error| {
        let message = format!("write a request as JSON: {error}");
        PortError::new(ErrorKind::Invalid, message)
    })
}

/// Converts a delay to whole seconds, rounded up and capped at the longest delay of SQS.
fn seconds(delay: Duration) -> i32 {
    let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(MAX_DELAY).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_short_printable_and_different_for_each_namespace() {
        assert_eq!(group(&["staging", "team-a"]), "staging/team-a");
        assert_eq!(group(&["eu/staging", "team-a"]), "eu%2Fstaging/team-a");
        assert_ne!(group(&["eu", "a/b"]), group(&["eu/a", "b"]));
        let long = "n".repeat(200);
        for parts in [&["ä", "team"][..], &[&long, "a"], &[&long]] {
            let group = group(parts);
            assert!(group.len() <= MAX_GROUP, "{group}");
            assert!(group.bytes().all(|byte| byte.is_ascii_graphic()), "{group}");
        }
        assert_ne!(group(&[&long, "a"]), group(&[&long, "b"]));
    }

    #[test]
    fn a_call_has_at_most_ten_messages_and_the_bytes_that_are_allowed() {
        let message = |bytes: usize| Message {
            body: "x".repeat(bytes),
            delay: 0,
            group: String::new(),
        };
        let sizes = |messages: &[Message]| -> Vec<usize> {
            batches(messages).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&vec![message(100); 25]), [10, 10, 5]);
        assert_eq!(sizes(&vec![message(90 << 10); 5]), [2, 2, 1]);
        assert_eq!(
            sizes(&[message(10), message(201 << 10), message(10)]),
            [1, 1, 1]
        );
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn an_arn_names_its_queue_alone() {
        let arn = "arn:aws:sqs:eu-west-1:012345678901:driftless-isolated";
        let url = "https://sqs.eu-west-1.amazonaws.com/012345678901/";
        assert!(is_same_queue(arn, &format!("{url}driftless-isolated")));
        assert!(!is_same_queue(arn, &format!("{url}isolated")));
        assert!(!is_same_queue("", &format!("{url}driftless-isolated")));
    }
}
