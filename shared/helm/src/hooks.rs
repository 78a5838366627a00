//! The plan of running hooks: which hooks run at an event and in which order, which objects are
//! deleted when, and what a run writes to the record. All of it is data: the caller applies, waits,
//! deletes and reads logs.

use crate::record::{HookPhase, HookRun, RecordedHook, Time};

/// The event at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookEvent {
    /// The event before an install.
    PreInstall,
    /// The event after an install.
    PostInstall,
    /// The event before an upgrade.
    PreUpgrade,
    /// The event after an upgrade.
    PostUpgrade,
    /// The event before a rollback.
    PreRollback,
    /// The event after a rollback.
    PostRollback,
    /// The event before an uninstall.
    PreDelete,
    /// The event after an uninstall.
    PostDelete,
    /// The event of running tests.
    Test,
}

impl HookEvent {
    /// Returns the word of the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
            Self::Test => "test",
        }
    }

    /// Returns the message of a failure at this event, as the action that ran it reports it.
    pub fn failure(self, cause: &str) -> String {
        match self {
            Self::PreInstall | Self::PostInstall => format!("failed {}: {cause}", self.as_str()),
            Self::PreUpgrade | Self::PostUpgrade => {
                format!("{} hooks failed: {cause}", self.as_str())
            }
            _ => cause.to_owned(),
        }
    }
}

/// The time at which a hook's object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeletePolicy {
    /// Before the object is created again; the default if a hook does not name a policy.
    BeforeCreation,
    /// After the event, if the hook succeeded.
    Succeeded,
    /// After a failure of the hook.
    Failed,
}

impl DeletePolicy {
    /// Returns the word of the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeCreation => "before-hook-creation",
            Self::Succeeded => "hook-succeeded",
            Self::Failed => "hook-failed",
        }
    }
}

/// One action on a hook, identified by its index in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookStep {
    /// Delete its object in the background and wait until it is gone.
    Delete(usize),
    /// Set the start in the record, write the record, create the object.
    Create(usize),
    /// Wait until its Job or Pod is done; everything else is ready immediately. Set the end in the
    /// record.
    Watch(usize),
    /// Print the logs of its Job's pods or its Pod.
    Log(usize),
}

/// Returns the hooks of an event in the order in which they run: by weight, then by name, then in
/// the order of the record (by kind). A hook that names the event repeatedly runs that many times,
/// as in Helm.
pub fn order(hooks: &[RecordedHook], event: HookEvent) -> Vec<usize> {
    let mut running: Vec<usize> = hooks
        .iter()
        .enumerate()
        .flat_map(|(at, hook)| {
            let times = hook.events.iter().filter(|e| *e == event.as_str()).count();
            std::iter::repeat_n(at, times)
        })
        .collect();
    running.sort_by(|a, b| {
        let key = |at: usize| (hooks[at].weight, &hooks[at].name);
        key(*a).cmp(&key(*b))
    });
    running
}

/// Returns all steps of an event without failures. The steps follow from the record alone, so that
/// the number of finished steps is enough to resume after an interruption.
pub fn steps(hooks: &[RecordedHook], event: HookEvent) -> Vec<HookStep> {
    let running = order(hooks, event);
    let mut steps = Vec::with_capacity(running.len() * 3);
    for &at in &running {
        if hooks[at].is_deleted(DeletePolicy::BeforeCreation) {
            steps.push(HookStep::Delete(at));
        }
        steps.extend([HookStep::Create(at), HookStep::Watch(at)]);
    }
    for &at in running.iter().rev() {
        steps.extend(after(&hooks[at], at, DeletePolicy::Succeeded));
    }
    steps
}

/// Returns the remaining steps after a hook failed while it was watched: its own clean-up, then
/// that of the hooks before it. After a hook that could not even be deleted or created, nothing
/// remains.
pub fn steps_after_failure(
    hooks: &[RecordedHook],
    event: HookEvent,
    failed: usize,
) -> Vec<HookStep> {
    let mut steps = after(&hooks[failed], failed, DeletePolicy::Failed);
    let before = order(hooks, event);
    let before = before.iter().take_while(|at| **at != failed);
    steps.extend(
        before
            .filter(|at| hooks[**at].is_deleted(DeletePolicy::Succeeded))
            .map(|at| HookStep::Delete(*at)),
    );
    steps
}

fn after(hook: &RecordedHook, at: usize, policy: DeletePolicy) -> Vec<HookStep> {
    let mut steps = Vec::new();
    if hook.is_logged(policy) {
        steps.push(HookStep::Log(at));
    }
    if hook.is_deleted(policy) {
        steps.push(HookStep::Delete(at));
    }
    steps
}

impl RecordedHook {
    /// Checks whether a policy deletes its object. A CustomResourceDefinition is never deleted: all
    /// its objects would be deleted with it.
    pub fn is_deleted(&self, policy: DeletePolicy) -> bool {
        if self.kind == "CustomResourceDefinition" {
            return false;
        }
        if self.delete_policies.is_empty() {
            return policy == DeletePolicy::BeforeCreation;
        }
        self.delete_policies.iter().any(|p| p == policy.as_str())
    }

    fn is_logged(&self, policy: DeletePolicy) -> bool {
        matches!(self.kind.as_str(), "Job" | "Pod")
            && self
                .output_log_policies
                .iter()
                .any(|p| p == policy.as_str())
    }

    /// Sets the default policy, as Helm does when the hook is reached.
    pub fn set_default_policy(&mut self) {
        if self.delete_policies.is_empty() {
            self.delete_policies = vec![DeletePolicy::BeforeCreation.as_str().to_owned()];
        }
    }

    /// Records that its object is about to be created.
    pub fn start(&mut self, now: Time) {
        self.set_default_policy();
        self.last_run = HookRun {
            started_at: Some(now),
            phase: HookPhase::Running,
            ..HookRun::default()
        };
    }

    /// Records its result.
    pub fn finish(&mut self, now: Time, succeeded: bool) {
        self.last_run.completed_at = Some(now);
        self.last_run.phase = if succeeded {
            HookPhase::Succeeded
        } else {
            HookPhase::Failed
        };
    }

    /// Returns Helm's message for a failure to create its object.
    pub fn create_failure(&self, event: HookEvent, cause: &str) -> String {
        format!(
            "warning: Hook {} {} failed: {cause}",
            event.as_str(),
            self.path
        )
    }
}

#[cfg(test)]
mod tests {
    use super::HookStep::{Create, Delete, Log, Watch};
    use super::*;

    fn hook(name: &str, kind: &str, weight: i64, events: &str, policies: &str) -> RecordedHook {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        RecordedHook {
            name: name.to_owned(),
            kind: kind.to_owned(),
            path: format!("web/templates/{name}.yaml"),
            weight,
            events: words(events),
            delete_policies: words(policies),
            ..RecordedHook::default()
        }
    }

    #[test]
    fn by_weight_then_name_then_kind() {
        let hooks = [
            hook("b", "ServiceAccount", 0, "pre-install", ""),
            hook("a", "Job", 0, "pre-install post-install", ""),
            hook("b", "Job", 0, "pre-install", ""),
            hook("z", "Job", -1, "pre-install", ""),
            hook("t", "Pod", -9, "test test", ""),
        ];
        assert_eq!(order(&hooks, HookEvent::PreInstall), [3, 1, 0, 2]);
        assert_eq!(order(&hooks, HookEvent::PostInstall), [1]);
        assert_eq!(order(&hooks, HookEvent::Test), [4, 4]);
        assert!(order(&hooks, HookEvent::PreDelete).is_empty());
    }

    #[test]
    fn steps_of_every_policy() {
        let mut hooks = vec![
            hook("a", "Job", 0, "pre-upgrade", ""),
            hook("b", "Job", 1, "pre-upgrade", "hook-succeeded"),
            hook(
                "c",
                "CustomResourceDefinition",
                2,
                "pre-upgrade",
                "hook-succeeded",
            ),
            hook(
                "d",
                "Pod",
                3,
                "pre-upgrade",
                "hook-failed before-hook-creation",
            ),
        ];
        hooks[1].output_log_policies = vec!["hook-succeeded".to_owned()];
        hooks[3].output_log_policies = vec!["hook-failed".to_owned()];
        assert_eq!(
            steps(&hooks, HookEvent::PreUpgrade),
            [
                Delete(0),
                Create(0),
                Watch(0),
                Create(1),
                Watch(1),
                Create(2),
                Watch(2),
                Delete(3),
                Create(3),
                Watch(3),
                Log(1),
                Delete(1),
            ]
        );
        let failed = |at| steps_after_failure(&hooks, HookEvent::PreUpgrade, at);
        assert_eq!(failed(3), [Log(3), Delete(3), Delete(1)]);
        assert_eq!(failed(0), []);
    }

    #[test]
    fn a_run_in_the_record() {
        let now = Time::parse("2026-03-01T12:00:00Z").unwrap();
        let mut job = hook("a", "Job", 0, "pre-install", "");
        job.start(now);
        assert_eq!(job.delete_policies, ["before-hook-creation"]);
        assert_eq!(
            (job.last_run.started_at, &job.last_run.phase),
            (Some(now), &HookPhase::Running)
        );
        job.finish(now, false);
        assert_eq!(
            (job.last_run.completed_at, &job.last_run.phase),
            (Some(now), &HookPhase::Failed)
        );
        assert_eq!(
            HookEvent::PreInstall.failure(&job.create_failure(HookEvent::PreInstall, "denied")),
            "failed pre-install: warning: Hook pre-install web/templates/a.yaml failed: denied"
        );
    }
}
