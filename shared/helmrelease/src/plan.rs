//! The phases of an action, in their order. A phase can be repeated without harm, and a [`Cursor`]
//! has the next one, so that an action can stop anywhere and continue with another message of the
//! queue.

use super::action::Action;
use driftless_flux::{CrdsPolicy, HelmRelease};
use driftless_helm::hooks::HookEvent;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An operation on a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// An action of an attempt.
    Act(Action),
    /// An uninstall that is not a remediation: the HelmRelease is deleted, or its release has
    /// another name, namespace or chart now.
    Uninstall,
}

impl Operation {
    /// Returns the phases of the operation.
    pub fn phases(&self, release: &HelmRelease) -> Vec<Phase> {
        match self {
            Self::Act(action) => phases(action, release),
            Self::Uninstall => uninstall(release),
        }
    }
}

/// A phase of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Apply the chart's CustomResourceDefinitions and wait until they are established.
    Crds(CrdsPolicy),
    /// Create the release's namespace, with the label `name`.
    Namespace,
    /// Write the record with its current status: pending, uninstalling, or failed after an unlock.
    /// Old records beyond `maxHistory` are deleted first.
    WriteRecord,
    /// Run the hooks of an event: see [`driftless_helm::hooks::steps`].
    Hooks(HookEvent),
    /// Apply the manifest, and delete the objects that only the previous release had.
    Apply,
    /// Wait until the objects are ready.
    Wait {
        /// True if jobs must be complete.
        jobs: bool,
    },
    /// Delete the objects of the manifest that belong to the release, except those with
    /// `helm.sh/resource-policy: keep`.
    Delete,
    /// Wait until the deleted objects are gone.
    WaitGone,
    /// Mark the records that are deployed as superseded.
    Supersede,
    /// Write the record with its final status: deployed or uninstalled.
    Finish,
    /// Delete every record of the release.
    Purge,
    /// Correct the objects that drifted.
    Correct,
}

impl Phase {
    /// Returns the name of the phase's span.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crds(_) => "definitions",
            Self::Namespace => "namespace",
            Self::WriteRecord => "record",
            Self::Hooks(_) => "hooks",
            Self::Apply => "apply",
            Self::Wait { .. } | Self::WaitGone => "wait",
            Self::Delete => "delete",
            Self::Supersede => "supersede",
            Self::Finish => "finish",
            Self::Purge => "purge",
            Self::Correct => "correct",
        }
    }
}

/// Returns the phases of an action that succeeds.
pub fn phases(action: &Action, release: &HelmRelease) -> Vec<Phase> {
    match action {
        Action::Install => {
            let install = release.install();
            let wait = wait(install.disable_wait, install.disable_wait_for_jobs);
            let hooks = !install.disable_hooks;
            let namespace = release.creates_namespace().then_some(Phase::Namespace);
            crds(release.install_crds())
                .chain(namespace)
                .chain([Phase::WriteRecord])
                .chain(around(
                    hooks,
                    HookEvent::PreInstall,
                    wait,
                    HookEvent::PostInstall,
                ))
                .chain([Phase::Finish])
                .collect()
        }
        Action::Upgrade => {
            let upgrade = release.upgrade();
            let wait = wait(upgrade.disable_wait, upgrade.disable_wait_for_jobs);
            let hooks = !upgrade.disable_hooks;
            crds(release.upgrade_crds())
                .chain([Phase::WriteRecord])
                .chain(around(
                    hooks,
                    HookEvent::PreUpgrade,
                    wait,
                    HookEvent::PostUpgrade,
                ))
                .chain([Phase::Supersede, Phase::Finish])
                .collect()
        }
        Action::Rollback(_) => {
            let rollback = release.rollback();
            let wait = wait(rollback.disable_wait, rollback.disable_wait_for_jobs);
            let hooks = !rollback.disable_hooks;
            std::iter::once(Phase::WriteRecord)
                .chain(around(
                    hooks,
                    HookEvent::PreRollback,
                    wait,
                    HookEvent::PostRollback,
                ))
                .chain([Phase::Supersede, Phase::Finish])
                .collect()
        }
        Action::UninstallRemediation => uninstall(release),
        Action::Test => vec![Phase::Hooks(HookEvent::Test), Phase::WriteRecord],
        Action::Unlock => vec![Phase::WriteRecord],
        Action::CorrectDrift => vec![Phase::Correct],
    }
}

/// Returns the phases of an uninstall: as a remediation, of a release whose target changed, or of a
/// HelmRelease that is deleted.
pub fn uninstall(release: &HelmRelease) -> Vec<Phase> {
    let uninstall = release.uninstall();
    let hooks = |event| (!uninstall.disable_hooks).then_some(Phase::Hooks(event));
    let end = match uninstall.keep_history {
        true => [Some(Phase::Finish), Some(Phase::Supersede)],
        false => [Some(Phase::Purge), None],
    };
    [
        hooks(HookEvent::PreDelete),
        Some(Phase::WriteRecord),
        Some(Phase::Delete),
        (!uninstall.disable_wait).then_some(Phase::WaitGone),
        hooks(HookEvent::PostDelete),
    ]
    .into_iter()
    .chain(end)
    .flatten()
    .collect()
}

fn crds(policy: CrdsPolicy) -> impl Iterator<Item = Phase> {
    let phase = (policy != CrdsPolicy::Skip).then_some(Phase::Crds(policy));
    phase.into_iter()
}

fn wait(disabled: bool, jobs_disabled: bool) -> Option<Phase> {
    (!disabled).then_some(Phase::Wait {
        jobs: !jobs_disabled,
    })
}

fn around(
    hooks: bool,
    before: HookEvent,
    wait: Option<Phase>,
    after: HookEvent,
) -> impl Iterator<Item = Phase> {
    let hook = |event| hooks.then_some(Phase::Hooks(event));
    let all = [hook(before), Some(Phase::Apply), wait, hook(after)];
    all.into_iter().flatten()
}

/// The progress of an action. It is stored between two messages; all of it may be lost, and then
/// the pending record is unlocked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The index of the next phase.
    pub phase: usize,
    /// The number of steps of the phase's hooks that are done.
    pub step: usize,
    /// The start of the current wait, in seconds since 1970: Helm's timeouts apply to one
    /// operation.
    pub since: Option<u64>,
}

impl Cursor {
    /// Advances to the next phase.
    pub fn next_phase(&mut self) {
        *self = Cursor {
            phase: self.phase + 1,
            ..Cursor::default()
        };
    }

    /// Advances to the next step of the hooks.
    pub fn next_step(&mut self) {
        self.step += 1;
        self.since = None;
    }

    /// Returns whether the current wait exceeds the timeout. The first call starts the wait.
    pub fn is_late(&mut self, now: Duration, timeout: Duration) -> bool {
        let since = *self.since.get_or_insert(now.as_secs());
        now.as_secs().saturating_sub(since) >= timeout.as_secs()
    }
}

/// Returns Helm's description of a failure in the record.
pub fn failure_description(action: &Action, name: &str, failed: Phase, error: &str) -> String {
    let subject = match (action, failed) {
        (Action::Upgrade, _) => "Upgrade",
        (Action::Rollback(_), Phase::Apply) => "Rollback",
        _ => "Release",
    };
    format!("{subject} \"{name}\" failed: {error}")
}

/// Returns Helm's message about a failure: for the wait of a rollback it names the release.
pub fn failure_message(operation: &Operation, name: &str, failed: Phase, error: String) -> String {
    match (operation, failed) {
        (Operation::Act(Action::Rollback(_)), Phase::Wait { .. }) => {
            format!("release {name} failed: {error}")
        }
        _ => error,
    }
}

/// Returns Helm's description of a success in the record; `None` if the description does not
/// change.
pub fn success_description(action: &Action) -> Option<&'static str> {
    match action {
        Action::Install => Some("Install complete"),
        Action::Upgrade => Some("Upgrade complete"),
        Action::UninstallRemediation => Some("Uninstallation complete"),
        _ => None,
    }
}

/// Returns whether a failed action deletes the objects that it created.
pub fn cleans_up(action: &Action, release: &HelmRelease) -> bool {
    match action {
        Action::Upgrade => release.upgrade().cleanup_on_fail,
        Action::Rollback(_) => release.rollback().cleanup_on_fail,
        _ => false,
    }
}
