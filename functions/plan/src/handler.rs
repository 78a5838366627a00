//! Handles messages of the queue of plans.

use crate::course::{Course, Delivery, Outcome};
use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use driftless_core::ports::{PlanRequest, Ports, PullRequests};
use lambda_runtime::{Error, LambdaEvent};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The number of times that a message is received before it goes to the dead-letter queue
/// (`infra/template.yaml`).
pub const MAX_RECEIVES: u32 = 5;
/// The part of the function's time that is reserved for the comment and the response.
const RESERVE: Duration = Duration::from_secs(30);
/// The delay before a failed message is delivered again: with those of all receives longer than the
/// lease of another worker.
const REDELIVERY: Duration = Duration::from_secs(100);

/// The function with what it keeps between events.
pub struct Function {
    ports: Ports,
    pull_requests: Arc<dyn PullRequests>,
}

impl Function {
    /// Creates the function.
    pub fn new(ports: Ports, pull_requests: Arc<dyn PullRequests>) -> Self {
        Self {
            ports,
            pull_requests,
        }
    }

    /// Makes the plan of each message. Messages whose plan was not made return to the queue.
    ///
    /// # Errors
    /// None: each message reports its failure.
    pub async fn handle(&self, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, Error> {
        let deadline = event.context.deadline();
        let mut response = SqsBatchResponse::default();
        for message in event.payload.records {
            let id = message.message_id.clone().unwrap_or_default();
            let Err(reason) = self.plan(&message, deadline).await else {
                continue;
            };
            tracing::error!(message = id, "{reason}: the message returns to the queue");
            self.redeliver(&message).await;
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            response.batch_item_failures.push(failure);
        }
        Ok(response)
    }

    async fn plan(&self, message: &SqsMessage, deadline: SystemTime) -> Result<(), String> {
        let body = message.body.as_deref().unwrap_or_default();
        // Report the position only: the untrusted body must not be logged.
        let request: PlanRequest = serde_json::from_str(body).map_err(|error| {
            format!(
                "the message is not the request of a plan: line {}, column {}",
                error.line(),
                error.column()
            )
        })?;
        let received = message.attributes.get("ApproximateReceiveCount");
        let received = received.and_then(|count| count.parse::<u32>().ok());
        let delivery = Delivery {
            is_last: received.is_some_and(|count| count >= MAX_RECEIVES),
            time: left(deadline, self.ports.clock.now()).saturating_sub(RESERVE),
        };
        let course = Course {
            ports: &self.ports,
            pull_requests: self.pull_requests.as_ref(),
            request: &request,
        };
        let (repository, number) = (&request.repository, request.number);
        let outcome = course.run(delivery).await;
        let outcome = outcome.map_err(|error| format!("{repository}, #{number}: {error}"))?;
        match outcome {
            Outcome::Planned(summary) => tracing::info!(repository, number, "planned: {summary}"),
            Outcome::Dropped(reason) => tracing::info!(repository, number, "dropped: {reason}"),
        }
        Ok(())
    }

    /// Sets the delay of a message's redelivery, which is the visibility timeout of the queue
    /// otherwise.
    async fn redeliver(&self, message: &SqsMessage) {
        let Some(receipt) = &message.receipt_handle else {
            return;
        };
        let source = message.event_source_arn.as_deref().unwrap_or_default();
        if let Err(error) = self.ports.queue.redeliver(source, receipt, REDELIVERY).await {
            tracing::warn!(%error, "the message is redelivered only after the visibility timeout");
        }
    }
}

/// Returns the rest of the function's time; `now` is the time since 1970. `cargo lambda watch` 1.9
/// sets the deadline to the time limit itself: ten minutes after 1970.
fn left(deadline: SystemTime, now: Duration) -> Duration {
    let since_1970 = deadline
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    if since_1970 < Duration::from_secs(24 * 60 * 60) {
        return since_1970;
    }
    since_1970.saturating_sub(now)
}
