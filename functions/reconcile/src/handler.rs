use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use driftless_core::ports::{Ports, Request};
use driftless_core::step;
use futures::StreamExt as _;
use lambda_runtime::{Error, LambdaEvent};
use std::time::{Duration, SystemTime};

/// How many messages of a batch are worked on at once.
const CONCURRENCY: usize = 10;
/// How long a step may wait for health before it puts itself back.
const PATIENCE: Duration = Duration::from_secs(8);
/// What is left of the function's time for the writes behind a wait.
const RESERVE: Duration = Duration::from_secs(60);

/// Runs the step of each message; the messages whose step could not even be tried go back to the queue.
pub async fn handle(ports: &Ports, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, Error> {
    let patience = patience(event.context.deadline());
    let steps = event.payload.records.into_iter().map(|message| async move {
        let id = message.message_id.clone().unwrap_or_default();
        match one(ports, &message, patience).await {
            Ok(()) => None,
            Err(why) => {
                tracing::error!(message = id, "{why}: the message goes back to the queue");
                let mut failure = BatchItemFailure::default();
                failure.item_identifier = id;
                Some(failure)
            }
        }
    });
    let failures: Vec<_> = futures::stream::iter(steps).buffer_unordered(CONCURRENCY).collect().await;
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = failures.into_iter().flatten().collect();
    Ok(response)
}

async fn one(ports: &Ports, message: &SqsMessage, patience: Duration) -> Result<(), String> {
    let body = message.body.as_deref().unwrap_or_default();
    let request: Request = serde_json::from_str(body).map_err(|error| format!("not a request: {error}"))?;
    step::run(ports, &request, patience).await.map(|_| ()).map_err(|error| format!("{}: {error}", request.object))
}

/// A wait must leave time for what comes after it.
fn patience(deadline: SystemTime) -> Duration {
    let left = deadline.duration_since(SystemTime::now()).unwrap_or_default();
    left.saturating_sub(RESERVE).min(PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_before_the_deadline() {
        let now = SystemTime::now();
        assert_eq!(patience(now), Duration::ZERO);
        assert_eq!(patience(now + Duration::from_secs(120)), PATIENCE);
        assert!(patience(now + Duration::from_secs(63)) <= Duration::from_secs(3));
    }
}
