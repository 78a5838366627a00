//! The course of one plan: whether it is still wanted, the lease, the check run, the plan, the
//! comment.

use crate::comment::{self, Comments};
use crate::error::PlanError;
use crate::record::{self, Held, Lease};
use crate::report::{self, Made};
use crate::states::{self, Fault};
use crate::work::{ConcernedHub, Work};
use driftless_kernel::hub;
use driftless_kernel::ports::{Check, PlanRequest, PortError, PullRequest};
use driftless_kernel::repository::hosted;
use driftless_source::index;
use std::time::Duration;

/// The number of attempts for a head that were cut off, after which no further one is made.
const MAX_ATTEMPTS: u32 = 2;

/// The delivery of a message.
#[derive(Clone, Copy)]
pub struct Delivery {
    /// True if a failure sends the message to the dead-letter queue.
    pub is_last: bool,
    /// The time that the plan may take.
    pub time: Duration,
}

/// The outcome of a message.
#[derive(Debug)]
pub enum Outcome {
    /// The comment is written; with the summary of the plan.
    Planned(String),
    /// No plan is wanted, with the reason.
    Dropped(String),
}

/// The need for a plan.
enum Wanted {
    /// The pull request still has the head and the base of the request.
    Yes(PullRequest),
    /// No plan is wanted, with the reason.
    No(&'static str),
}

impl Work<'_> {
    /// Makes the plan and writes the comment and the check run.
    ///
    /// # Errors
    /// The plan was not made, or the comment was not written: the message returns to the queue.
    pub async fn run(&self, delivery: Delivery) -> Result<Outcome, PlanError> {
        let pull = match self.check_wanted().await? {
            Wanted::Yes(pull) => pull,
            Wanted::No(reason) => return Ok(Outcome::Dropped(reason.to_owned())),
        };
        let hubs = self.concerned_hubs().await;
        if hubs.is_empty() {
            let reason = "the repository is not registered as the root of one of the hubs";
            return Ok(Outcome::Dropped(reason.to_owned()));
        }
        let name =
            index::repository(&self.request.repository).ok_or(PlanError::InvalidRepository)?;
        let lease = record::take(self.ports, &name, self.request.number, &pull.head_sha).await;
        let mut held = match lease? {
            Lease::Held(held) => held,
            Lease::Busy => return Err(PlanError::Busy),
        };
        match self.attempt(&pull, &hubs, &name, &mut held, delivery).await {
            Ok(outcome) => {
                // The comment is written. The lease ends by itself if this write fails.
                if let Err(error) = held.end().await {
                    tracing::warn!(%error, "the lease of the pull request was not ended");
                }
                Ok(outcome)
            }
            Err(error) => {
                if let Err(error) = held.release().await {
                    tracing::warn!(%error, "the lease of the pull request was not ended");
                }
                Err(error)
            }
        }
    }

    /// Reads the pull request, and checks whether its plan is still wanted.
    async fn check_wanted(&self) -> Result<Wanted, PlanError> {
        let PlanRequest {
            repository,
            number,
            head_sha,
            base_ref,
            ..
        } = self.request;
        let pull = self.pull_requests.pull_request(repository, *number).await;
        let Some(pull) = pull? else {
            return Ok(Wanted::No(
                "the pull request does not exist, or the login at GitHub may not read it",
            ));
        };
        Ok(match &pull {
            pull if !pull.is_open => Wanted::No("the pull request is closed"),
            pull if pull.head_sha != *head_sha => {
                Wanted::No("the pull request has another head by now")
            }
            pull if pull.base_ref != *base_ref => {
                Wanted::No("the pull request has another base by now")
            }
            _ => Wanted::Yes(pull),
        })
    }

    /// Returns the hubs of the request whose operator registered the repository as that of a root.
    async fn concerned_hubs(&self) -> Vec<ConcernedHub> {
        let repository = hosted(&self.request.repository);
        let is_same = |url: &str| {
            let pair = repository.as_ref().zip(hosted(url));
            pair.is_some_and(|(one, other)| one.is_same(&other))
        };
        let mut concerned = Vec::new();
        for name in &self.request.hubs {
            let settings = hub::settings(self.ports, name).await;
            let settings = match settings {
                Ok(settings) => settings,
                Err(failure) => {
                    tracing::warn!(hub = name, "the hub is left out: {failure}");
                    continue;
                }
            };
            let roots = settings.roots().into_iter();
            let roots = roots.filter(|(_, url)| is_same(url));
            let roots: Vec<String> = roots.map(|(root, _)| root.to_owned()).collect();
            if !roots.is_empty() {
                concerned.push(ConcernedHub { settings, roots });
            }
        }
        concerned
    }

    async fn attempt(
        &self,
        pull: &PullRequest,
        hubs: &[ConcernedHub],
        name: &str,
        held: &mut Held<'_>,
        delivery: Delivery,
    ) -> Result<Outcome, PlanError> {
        let repository = &self.request.repository;
        let check = self
            .pull_requests
            .create_check(repository, &pull.head_sha, &report::in_progress())
            .await?;
        if check.is_none() {
            tracing::info!(
                repository,
                "no check run: the login may not create check runs, which only a GitHub App may"
            );
        }
        let made = match held.attempts() > MAX_ATTEMPTS {
            // The function was killed each time, and would be again.
            true => Err(Fault::Internal(format!(
                "{MAX_ATTEMPTS} attempts were cut off"
            ))),
            false => {
                let work = Box::pin(states::plan(self, pull, hubs));
                let limited = tokio::time::timeout(delivery.time, work).await;
                limited.unwrap_or_else(|_| {
                    Err(Fault::Internal("the plan did not end in time".to_owned()))
                })
            }
        };
        let is_over = delivery.is_last || held.attempts() > MAX_ATTEMPTS;
        let (made, failure) = match made {
            Ok(planned) => (Made::of(planned, hubs.len()), None),
            Err(Fault::Fleet(message)) => (Made::refused(&message), None),
            Err(Fault::Internal(reason)) if is_over => (Made::failed(), Some(reason)),
            Err(Fault::Internal(reason)) => return Err(PlanError::Internal(reason)),
        };
        if let Wanted::No(reason) = self.check_wanted().await? {
            self.complete(check, &report::superseded()).await?;
            return Ok(Outcome::Dropped(reason.to_owned()));
        }
        if !held.is_valid(self.ports.clock.now()) {
            return Err(PlanError::LeaseOver);
        }
        let comments = Comments {
            ports: self.ports,
            pull_requests: self.pull_requests,
            repository,
            number: self.request.number,
        };
        let key = record::whole_plan(name, self.request.number, &pull.head_sha);
        let text = comment::text(self.ports, &key, &made, pull).await?;
        if let Err(error) = comments.write(held, &text).await {
            if delivery.is_last {
                self.complete(check, &Made::failed().check).await?;
            }
            return Err(error.into());
        }
        self.complete(check, &made.check).await?;
        match failure {
            None => Ok(Outcome::Planned(made.check.title)),
            Some(reason) => {
                tracing::error!(
                    repository,
                    number = self.request.number,
                    "no plan: {reason}"
                );
                Ok(Outcome::Planned(
                    "the internal failure is reported".to_owned(),
                ))
            }
        }
    }

    async fn complete(&self, check: Option<u64>, content: &Check) -> Result<(), PortError> {
        let Some(id) = check else {
            return Ok(());
        };
        let repository = &self.request.repository;
        let done = self.pull_requests.update_check(repository, id, content);
        done.await
    }
}
