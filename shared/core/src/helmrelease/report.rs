//! What a step learned, and how it goes into the object's status, as helm-controller writes it.

use super::Work;
use super::action::Pause;
use super::attempt::End;
use super::conditions::{mark, mark_stalled, reasons};
use crate::failure::{Class, Failure};
use crate::flux::{HELM_CONTROLLER, HelmRelease, HelmReleaseStatus, REQUESTED_AT, reason, rfc3339};
use crate::kernel::status;
use crate::kernel::{Context, Outcome};
use crate::ports::Cause;
use std::time::Duration;

/// The failures before an action that helm-controller sends an event about; actions tell of themselves.
const TOLD: [&str; 6] = [
    reason::INVALID_CEL,
    reason::DEPENDENCY_NOT_READY,
    reason::ACCESS_DENIED,
    reason::ARTIFACT_FAILED,
    reasons::VALUES_ERROR,
    // Ours alone: what Flux serves and this cannot.
    reason::UNSUPPORTED,
];
/// How soon a wait is looked at again.
const WAIT_AGAIN: Duration = Duration::from_secs(5);
/// The first and the longest delay before the next attempt.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(600);
/// The longest delay of a message.
const LONGEST_DELAY: Duration = Duration::from_secs(900);
/// How often something that must appear first is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What the object's status said before the step.
pub struct Report {
    before: HelmReleaseStatus,
}

impl Report {
    /// At the start of a step.
    pub fn new(release: &HelmRelease) -> Self {
        Self {
            before: release.status.clone(),
        }
    }

    /// The end without a failure of the step; the release may have failed.
    ///
    /// # Errors
    /// The status could not be written.
    pub async fn end(
        self,
        context: &Context<'_>,
        mut work: Work,
        end: End,
    ) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::default();
        let observed = match end {
            End::Waiting(what) => {
                outcome.requeue_after = Some(WAIT_AGAIN);
                outcome.summary = format!("waiting for: {what}");
                false
            }
            End::Uninstalled => {
                let status = &mut work.release.status;
                status.history.clear();
                status.clear_failures();
                status.storage_namespace.clear();
                outcome.requeue_after = Some(Duration::ZERO);
                outcome.summary = "uninstalled: the release is another one now".to_owned();
                false
            }
            End::UninstallFailed(what) => {
                outcome.requeue_after = Some(self.backoff(&work));
                outcome.summary = format!("uninstall failed: {what}");
                false
            }
            End::Paused(pause) => self.pause(&work, pause, &mut outcome),
        };
        if observed {
            work.release.status.observed_generation = Some(work.release.generation());
        }
        outcome.notifies = work.release.status.conditions.is_true("Ready");
        self.write(context, work, outcome).await
    }

    /// Returns whether the generation was dealt with.
    fn pause(&self, work: &Work, pause: Pause, outcome: &mut Outcome) -> bool {
        let ready = work.release.status.conditions.get("Ready");
        let message = ready.map_or("", |ready| ready.message.as_str());
        message.clone_into(&mut outcome.summary);
        match pause {
            Pause::Done => true,
            Pause::Again => {
                outcome.requeue_after = Some(self.backoff(work));
                false
            }
            Pause::After(interval) => {
                outcome.requeue_after = Some(interval.min(LONGEST_DELAY));
                true
            }
            Pause::Stalled(what) => {
                outcome.summary = what;
                true
            }
        }
    }

    fn backoff(&self, work: &Work) -> Duration {
        let failures = u32::try_from(work.release.status.failures).unwrap_or(0);
        let factor = 2_u32.saturating_pow(failures.saturating_sub(1).min(10));
        FIRST_RETRY.saturating_mul(factor).min(LONGEST_RETRY)
    }

    /// The end with a failure of the step.
    ///
    /// # Errors
    /// The status could not be written.
    pub async fn fail(
        self,
        context: &Context<'_>,
        mut work: Work,
        failure: Failure,
    ) -> Result<Outcome, Failure> {
        let now = rfc3339(context.ports.clock.now());
        let release = &mut work.release;
        let message = status::shorten(&failure.message, 20_000);
        mark(release, "Ready", "False", failure.reason, &message, &now);
        if failure.class == Class::Terminal {
            release.status.observed_generation = Some(release.generation());
            mark_stalled(release, failure.reason, &message, &now);
        }
        let told = self.before.conditions.get("Ready");
        let is_news =
            told.map(|told| (&*told.reason, &*told.message)) != Some((failure.reason, &*message));
        if is_news && TOLD.contains(&failure.reason) {
            let revision = &release.status.last_attempted_revision;
            let events = context.event(&release.object, HELM_CONTROLLER);
            // To wait for others is no trouble.
            let warning = failure.reason != reason::DEPENDENCY_NOT_READY;
            events
                .send(warning, failure.reason, &message, revision)
                .await;
        }
        let failures = work.memory.failures.saturating_sub(1);
        let outcome = Outcome::failed(failure, failures, LOOK_AGAIN);
        self.write(context, work, outcome).await
    }

    /// Writes what changed of the status, and says who is looked at next.
    async fn write(
        &self,
        context: &Context<'_>,
        mut work: Work,
        mut outcome: Outcome,
    ) -> Result<Outcome, Failure> {
        let requests = work.woken.drain(..);
        let requests = requests.map(|id| context.request(id, Cause::Changed));
        outcome.enqueue.extend(requests.collect::<Vec<_>>());
        let HelmRelease { object, status, .. } = &mut work.release;
        if let Some(requested) = object.annotation(REQUESTED_AT) {
            requested.clone_into(&mut status.last_handled_reconcile_at);
        }
        let (before, now) = (status::to_value(&self.before)?, status::to_value(&*status)?);
        let merged = status::overlay(object, &now, &before);
        status::write(context, object, &merged, HELM_CONTROLLER).await?;
        Ok(outcome)
    }
}
