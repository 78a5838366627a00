//! Handles messages of the queue of plans.

use crate::course::{Delivery, Outcome};
use crate::error::PlanError;
use crate::work::Work;
use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use driftless_adapters::lambda::{self, UnreadableMessage};
use driftless_kernel::ports::{PlanRequest, Ports, PullRequests};
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
            let source = message.event_source_arn.as_deref();
            let receipt = message.receipt_handle.as_deref();
            lambda::redeliver(&self.ports, source, receipt, REDELIVERY).await;
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            response.batch_item_failures.push(failure);
        }
        Ok(response)
    }

    async fn plan(&self, message: &SqsMessage, deadline: SystemTime) -> Result<(), FailedMessage> {
        let body = message.body.as_deref();
        let request: PlanRequest = lambda::read(body, "the request of a plan")?;
        let received = message.attributes.get("ApproximateReceiveCount");
        let received = received.and_then(|count| count.parse::<u32>().ok());
        let delivery = Delivery {
            is_last: received.is_some_and(|count| count >= MAX_RECEIVES),
            time: lambda::time_left(deadline, self.ports.clock.now()).saturating_sub(RESERVE),
        };
        let work = Work {
            ports: &self.ports,
            pull_requests: self.pull_requests.as_ref(),
            request: &request,
        };
        let (repository, number) = (&request.repository, request.number);
        let outcome = Box::pin(work.run(delivery)).await;
        let outcome = outcome.map_err(|error| FailedMessage {
            place: format!("{repository}, #{number}: "),
            error,
        })?;
        match outcome {
            Outcome::Planned(summary) => tracing::info!(repository, number, "planned: {summary}"),
            Outcome::Dropped(reason) => tracing::info!(repository, number, "dropped: {reason}"),
        }
        Ok(())
    }
}

/// A message whose plan was not made.
#[derive(Debug, thiserror::Error)]
#[error("{place}{error}")]
struct FailedMessage {
    /// The pull request; empty if the message names none.
    place: String,
    error: PlanError,
}

impl From<UnreadableMessage> for FailedMessage {
    fn from(error: UnreadableMessage) -> Self {
        Self {
            place: String::new(),
            error: error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::hub::{self, Settings};
    use driftless_kernel::ports::{Check, PullRequest};
    use driftless_memory::{MemoryPullRequests, MemoryQueue};
    use lambda_runtime::Context;

    const EVENT: &str = include_str!("../../../events/plan-sqs.json");
    const HEAD: &str = "0a5a9c8f3b1e4d6d9f5e2c7b8a1d3e4f5a6b7c8d";

    struct World {
        ports: Ports,
        queue: Arc<MemoryQueue>,
        pulls: Arc<MemoryPullRequests>,
    }

    /// The pull request of the sample, and the two hubs that follow its base.
    async fn world() -> World {
        let (queue, pulls) = (
            Arc::<MemoryQueue>::default(),
            Arc::<MemoryPullRequests>::default(),
        );
        let ports = driftless_memory::ports(Arc::default(), queue.clone(), Arc::default());
        for name in ["staging", "production"] {
            let settings = Settings {
                name: name.to_owned(),
                root_repository: Some("ssh://git@github.com/Acme/fleet.git".to_owned()),
                ..Settings::default()
            };
            hub::register(&ports, &settings).await.unwrap();
        }
        let pull = PullRequest {
            is_open: true,
            head_sha: HEAD.to_owned(),
            base_ref: "main".to_owned(),
            base_sha: "6dcb09b5b57875f334f61aebed695e2e4193db5e".to_owned(),
            is_fork: false,
            is_public: false,
        };
        pulls.change(|state| drop(state.pulls.insert(12, pull)));
        World {
            ports,
            queue,
            pulls,
        }
    }

    async fn invoke(world: &World, event: &str) -> usize {
        let mut context = Context::default();
        let deadline = world.ports.clock.now() + Duration::from_secs(300);
        context.deadline = deadline.as_millis().try_into().unwrap();
        let event = LambdaEvent::new(serde_json::from_str(event).unwrap(), context);
        let function = Function::new(world.ports.clone(), world.pulls.clone());
        let response = function.handle(event).await.unwrap();
        response.batch_item_failures.len()
    }

    fn received(count: u32) -> String {
        let count = format!("\"ApproximateReceiveCount\": \"{count}\"");
        EVENT.replace("\"ApproximateReceiveCount\": \"1\"", &count)
    }

    #[tokio::test]
    async fn an_unwanted_plan_is_dropped_and_an_invalid_message_returns() {
        let world = world().await;
        let changes: [fn(&mut PullRequest); 3] = [
            |pull| pull.is_open = false,
            |pull| pull.head_sha = "b".repeat(40),
            |pull| pull.base_ref = "dev".to_owned(),
        ];
        for change in changes {
            let mut pull = world.pulls.state().pulls[&12].clone();
            change(&mut pull);
            let known = world.pulls.state().pulls[&12].clone();
            world
                .pulls
                .change(|state| drop(state.pulls.insert(12, pull)));
            assert_eq!(invoke(&world, EVENT).await, 0);
            world
                .pulls
                .change(|state| drop(state.pulls.insert(12, known)));
        }
        let foreign = EVENT.replace("acme/fleet", "acme/another");
        assert_eq!(invoke(&world, &foreign).await, 0, "no hub has this root");
        assert_eq!(invoke(&world, &EVENT.replace("headSha", "head")).await, 1);
        assert_eq!(world.queue.take_redelivered().len(), 1);
        let state = world.pulls.state();
        assert!(state.comments.is_empty() && state.checks.is_empty());
    }

    #[tokio::test]
    async fn a_failure_is_reported_once_it_is_final() {
        let world = world().await;
        world.pulls.change(|state| state.is_broken = true);
        assert_eq!(invoke(&world, EVENT).await, 1);
        assert!(world.pulls.state().comments.is_empty());
        assert_eq!(invoke(&world, &received(MAX_RECEIVES)).await, 0);
        let state = world.pulls.state();
        let (_, comment) = &state.comments[0];
        assert!(
            comment.body.contains("internal failure"),
            "{}",
            comment.body
        );
        let (commit, Check { conclusion, .. }) = state.checks.last().unwrap();
        assert_eq!(commit, HEAD);
        assert!(conclusion.is_some());
    }

    #[tokio::test]
    async fn attempts_that_were_cut_off_are_not_repeated_for_ever() {
        let world = world().await;
        world.pulls.change(|state| state.has_no_checks = true);
        for _ in 0..2 {
            let name = "github.com/acme/fleet";
            let taken = crate::record::take(&world.ports, name, 12, HEAD).await;
            assert!(matches!(taken.unwrap(), crate::record::Lease::Held(_)));
            // The function is killed: the lease ends by itself.
            let key = "plans/github.com/acme/fleet/12.json";
            let (bytes, _) = world.ports.blobs.get(key).await.unwrap().unwrap();
            let mut record: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            record["leasedUntil"] = 0.into();
            let bytes = record.to_string().into();
            let none = driftless_kernel::ports::Precondition::None;
            world.ports.blobs.put(key, bytes, none).await.unwrap();
        }
        assert_eq!(invoke(&world, EVENT).await, 0);
        let state = world.pulls.state();
        assert!(state.comments[0].1.body.contains("internal failure"));
        assert!(state.checks.is_empty());
    }
}
