//! Tests every path of actions: the actions, the history afterwards, and `Ready`. The storage is a
//! map, and the effects of Helm on it are simulated; the tests of the steps check that each action
//! leaves the same records as Helm.

use super::super::action::{Action, ActionKind, Decision, Pause, decide, decide_after};
use super::super::history::snapshot;
use super::super::memory::ChartFacts;
use super::super::outcome::{
    ActionResult, UninstallResult, begin, left_records, record as note, record_uninstall, unlock,
};
use super::super::state::{Desired, State, determine, failures_are_stale};
use super::{NOW, helm_release, record, table};
use driftless_flux::{FORCE_AT, HelmRelease, REQUESTED_AT, ReleaseAction};
use driftless_helm::record::{HookPhase, RecordedHook, Release, Status};
use driftless_helm::values::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The result of the next action in a script.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ScriptedResult {
    Success,
    /// The action fails after it wrote its record.
    FailsAfterRecord(&'static str),
    /// The action fails before it wrote anything.
    FailsBeforeRecord(&'static str),
}
use ScriptedResult::{FailsAfterRecord, FailsBeforeRecord, Success};

struct World {
    release: HelmRelease,
    storage: BTreeMap<i64, Release>,
    chart_version: &'static str,
    values: Table,
    script: Vec<ScriptedResult>,
    drifted: bool,
    keep_history: bool,
    log: Vec<String>,
}

impl World {
    fn new(spec: &Value, script: &[ScriptedResult]) -> Self {
        World {
            release: helm_release(spec),
            storage: BTreeMap::new(),
            chart_version: "1.0.0",
            values: table(json!({"a": 1.0})),
            script: script.iter().rev().copied().collect(),
            drifted: false,
            keep_history: spec.pointer("/uninstall/keepHistory") == Some(&json!(true)),
            log: Vec::new(),
        }
    }

    /// Creates a world with an installed release.
    fn installed(spec: &Value, script: &[ScriptedResult]) -> Self {
        let mut world = World::new(spec, script);
        world.script.push(Success);
        world.attempt();
        world.log.clear();
        world
    }

    fn last(&self) -> Option<&Release> {
        self.storage.values().next_back()
    }

    fn state(&self) -> State {
        let desired = Desired {
            chart_name: "web",
            chart_version: self.chart_version,
            values: &self.values,
        };
        match determine(&self.release, self.last(), &desired).unwrap() {
            State::InSync if self.drifted => State::Drifted,
            state => state,
        }
    }

    /// Runs one attempt like a step.
    fn attempt(&mut self) -> Pause {
        let values = self.values.clone();
        let desired = Desired {
            chart_name: "web",
            chart_version: self.chart_version,
            values: &values,
        };
        if failures_are_stale(&self.release, &desired).is_some() {
            self.release.status.clear_failures();
        }
        let status = &mut self.release.status;
        status.last_attempted_generation = 1;
        status.last_attempted_revision = self.chart_version.to_owned();
        status.last_attempted_config_digest = driftless_helm::record::config_digest(&values);
        status.storage_namespace = "apps".to_owned();
        let mut done: Vec<ActionKind> = Vec::new();
        let pause = loop {
            assert!(done.len() < 9, "{:?}", self.log);
            let state = self.state();
            let storage = self.storage.clone();
            let records = |version| Ok(storage.get(&version).cloned());
            let decision = decide(&mut self.release, &state, &done, &records, NOW).unwrap();
            let action = match decision {
                Decision::Pause(pause) => break pause,
                Decision::Run(action) => action,
            };
            self.log.push(action.name().to_owned());
            begin(&mut self.release, &action);
            let (written, error) = self.run(&action);
            let chart = ChartFacts {
                name: "web".to_owned(),
                version: self.chart_version.to_owned(),
                ..ChartFacts::default()
            };
            let result = ActionResult {
                action: &action,
                written: &written,
                error,
                corrected: &[],
                chart: &chart,
            };
            note(&mut self.release, &result, NOW).unwrap();
            let unrecorded = error.filter(|_| !left_records(&result));
            if let Some(pause) = decide_after(&mut self.release, &action, unrecorded, NOW).unwrap()
            {
                break pause;
            }
            done.push(action.kind());
        };
        self.log.push("|".to_owned());
        self.release.status.observed_generation = Some(1);
        pause
    }

    /// Changes the storage like Helm would.
    fn run(&mut self, action: &Action) -> (Vec<Release>, Option<&'static str>) {
        let goes = match action {
            Action::Unlock | Action::CorrectDrift => Success,
            _ => self.script.pop().unwrap_or(Success),
        };
        let error = match goes {
            Success => None,
            FailsAfterRecord(error) | FailsBeforeRecord(error) => Some(error),
        };
        if matches!(goes, FailsBeforeRecord(_)) {
            return (Vec::new(), error);
        }
        let status = if error.is_some() {
            Status::Failed
        } else {
            Status::Deployed
        };
        let version = self.last().map_or(0, |last| last.version) + 1;
        let mut written = Vec::new();
        match action {
            Action::Install | Action::Upgrade => {
                let mut made = record(version, status);
                made.chart.metadata.known.version = self.chart_version.to_owned();
                made.config.clone_from(&self.values);
                made.hooks = vec![RecordedHook {
                    name: "smoke".to_owned(),
                    events: vec!["test".to_owned()],
                    ..RecordedHook::default()
                }];
                written.push(made);
                // The deployed release, or else the last one with any status.
                let mut original = self.superseded().pop().or_else(|| self.last().cloned());
                if let Some(original) = original.as_mut().filter(|_| error.is_none()) {
                    original.info.status = Status::Superseded;
                    written.push(original.clone());
                }
            }
            Action::Rollback(target) => {
                let mut made = self.storage[&target.version].clone();
                made.version = version;
                made.info.status = status;
                written.push(made);
                if error.is_none() {
                    written.extend(self.superseded());
                }
            }
            Action::UninstallRemediation => {
                let mut gone = self.last().unwrap().clone();
                gone.info.status = if self.keep_history {
                    Status::Uninstalled
                } else {
                    Status::Uninstalling
                };
                self.storage.insert(gone.version, gone.clone());
                if error.is_none() && !self.keep_history {
                    let purged = std::mem::take(&mut self.storage);
                    return (purged.into_values().collect(), None);
                }
                written.push(gone);
            }
            Action::Test => {
                let mut tested = self.last().unwrap().clone();
                tested.hooks[0].last_run.phase = if error.is_some() {
                    HookPhase::Failed
                } else {
                    HookPhase::Succeeded
                };
                written.push(tested);
            }
            Action::Unlock => {
                let mut stale = self.last().unwrap().clone();
                unlock(&mut stale);
                written.push(stale);
            }
            Action::CorrectDrift => self.drifted = false,
        }
        for record in &written {
            self.storage.insert(record.version, record.clone());
        }
        (written, error)
    }

    fn superseded(&self) -> Vec<Release> {
        let deployed = self
            .storage
            .values()
            .filter(|r| r.info.status == Status::Deployed);
        let mut superseded: Vec<Release> = deployed.cloned().collect();
        for record in &mut superseded {
            record.info.status = Status::Superseded;
        }
        superseded
    }

    /// `v3 deployed upgrade, v2 failed`: newest first.
    fn history(&self) -> String {
        let one = |s: &driftless_flux::Snapshot| {
            let action = s.action.map(|a| format!(" {a}")).unwrap_or_default();
            format!("v{} {}{action}", s.version, s.status)
        };
        let all: Vec<String> = self.release.status.history.iter().map(one).collect();
        all.join(", ")
    }

    fn condition(&self, kind: &str) -> String {
        let condition = self.release.status.conditions.get(kind);
        condition.map_or_else(|| "-".to_owned(), |c| format!("{} {}", c.status, c.reason))
    }

    fn message(&self, kind: &str) -> &str {
        self.release
            .status
            .conditions
            .get(kind)
            .map_or("", |c| c.message.as_str())
    }

    #[track_caller]
    fn expect(&self, log: &str, history: &str, ready: &str) {
        assert_eq!(self.log.join(" "), log);
        assert_eq!(self.history(), history);
        assert_eq!(self.condition("Ready"), ready);
    }
}

fn retries(action: &str, retries: i64) -> Value {
    json!({action: {"remediation": {"retries": retries}}})
}

#[test]
fn an_install() {
    let mut world = World::new(&json!({}), &[Success]);
    assert_eq!(world.attempt(), Pause::Done);
    world.expect("install |", "v1 deployed install", "True InstallSucceeded");
    assert_eq!(
        world.message("Ready"),
        "Helm install succeeded for release apps/web.v1 with chart web@1.0.0"
    );
    assert_eq!(world.condition("Reconciling"), "-");
    // Nothing changed: nothing is done.
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "install | |",
        "v1 deployed install",
        "True InstallSucceeded",
    );
}

#[test]
fn a_failed_install_without_retries_stalls() {
    let mut world = World::new(
        &json!({}),
        &[FailsAfterRecord("timed out waiting for the condition\n")],
    );
    let stalled = "Failed to install after 1 attempt(s)";
    assert_eq!(
        world.attempt(),
        Pause::Stalled("exceeded maximum retries: cannot remediate failed release".to_owned())
    );
    world.expect("install |", "v1 failed install", "False InstallFailed");
    assert_eq!(
        (world.condition("Stalled"), world.message("Stalled")),
        ("True RetriesExceeded".to_owned(), stalled)
    );
    assert_eq!(
        world.message("Ready"),
        "Helm install failed for release apps/web with chart web@1.0.0: timed out waiting for the condition"
    );
    assert_eq!(world.release.status.install_failures, 1);
    // A new chart version is tried by an upgrade.
    world.chart_version = "1.0.1";
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "install | upgrade |",
        "v2 deployed upgrade, v1 superseded",
        "True UpgradeSucceeded",
    );
    assert_eq!(world.condition("Stalled"), "-");
}

#[test]
fn a_failed_install_is_uninstalled_and_tried_again() {
    let mut world = World::new(
        &retries("install", 1),
        &[
            FailsAfterRecord("boom"),
            Success,
            FailsAfterRecord("boom"),
            Success,
            Success,
        ],
    );
    assert_eq!(world.attempt(), Pause::Again);
    world.expect(
        "install uninstall |",
        "v1 uninstalling uninstall-remediation",
        "False InstallFailed",
    );
    assert_eq!(world.condition("Remediated"), "True UninstallSucceeded");
    assert_eq!(world.condition("Reconciling"), "True ProgressingWithRetry");
    assert!(matches!(world.attempt(), Pause::Stalled(_)));
    world.expect(
        "install uninstall | install |",
        "v1 failed install",
        "False InstallFailed",
    );
    assert_eq!(
        world.message("Stalled"),
        "Failed to install after 2 attempt(s)"
    );
    // The last failure is not remediated by default.
    let spec = json!({"install": {"remediation": {"retries": 1, "remediateLastFailure": true}}});
    let mut world = World::new(
        &spec,
        &[
            FailsAfterRecord("boom"),
            Success,
            FailsAfterRecord("boom"),
            Success,
        ],
    );
    assert_eq!(world.attempt(), Pause::Again);
    assert!(matches!(world.attempt(), Pause::Stalled(_)));
    assert_eq!(
        world.log.join(" "),
        "install uninstall | install uninstall |"
    );
    // Then only a change can help.
    assert_eq!(
        world.attempt(),
        Pause::Stalled("exceeded maximum retries: cannot install release".to_owned())
    );
    world.values = table(json!({"a": 2.0}));
    assert_eq!(world.attempt(), Pause::Done);
    assert_eq!(world.history(), "v1 deployed install");
}

#[test]
fn unlimited_retries() {
    let mut world = World::new(
        &retries("install", -1),
        &[
            FailsAfterRecord("a"),
            Success,
            FailsAfterRecord("b"),
            Success,
            FailsAfterRecord("c"),
            Success,
            Success,
        ],
    );
    for _ in 0..3 {
        assert_eq!(world.attempt(), Pause::Again);
    }
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "install uninstall | install uninstall | install uninstall | install |",
        "v1 deployed install",
        "True InstallSucceeded",
    );
}

#[test]
fn an_upgrade() {
    let mut world = World::installed(&json!({}), &[Success, Success]);
    world.values = table(json!({"a": 2.0}));
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "upgrade |",
        "v2 deployed upgrade, v1 superseded",
        "True UpgradeSucceeded",
    );
    world.chart_version = "1.1.0";
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "upgrade | upgrade |",
        "v3 deployed upgrade, v2 superseded",
        "True UpgradeSucceeded",
    );
}

#[test]
fn a_failed_upgrade_is_rolled_back_until_the_retries_are_used_up() {
    let mut world = World::installed(
        &retries("upgrade", 1),
        &[
            FailsAfterRecord("boom"),
            Success,
            FailsAfterRecord("boom"),
            Success,
            Success,
        ],
    );
    world.chart_version = "1.1.0";
    assert_eq!(world.attempt(), Pause::Again);
    world.expect(
        "upgrade rollback |",
        "v3 deployed rollback, v2 failed upgrade, v1 superseded rollback",
        "False RollbackSucceeded",
    );
    assert_eq!(
        world.message("Ready"),
        "Helm rollback to previous release apps/web.v1 with chart web@1.0.0 succeeded"
    );
    // Retries are left: the upgrade is tried again, and the last failure is also remediated.
    assert!(matches!(world.attempt(), Pause::Stalled(_)));
    assert_eq!(world.log.join(" "), "upgrade rollback | upgrade rollback |");
    assert_eq!(
        world.history(),
        "v5 deployed rollback, v4 failed upgrade, v3 superseded rollback"
    );
    assert_eq!(
        world.message("Stalled"),
        "Failed to upgrade after 2 attempt(s)"
    );
    // Exhausted: nothing more is tried, until a new revision comes.
    assert_eq!(
        world.attempt(),
        Pause::Stalled("exceeded maximum retries: cannot upgrade release".to_owned())
    );
    world.chart_version = "1.2.0";
    assert_eq!(world.attempt(), Pause::Done);
    assert_eq!(world.condition("Ready"), "True UpgradeSucceeded");
    assert_eq!(
        (world.condition("Remediated"), world.condition("Stalled")),
        ("-".to_owned(), "-".to_owned())
    );
    assert_eq!(world.release.status.upgrade_failures, 0);
}

#[test]
fn a_rollback_target_becomes_the_desired_release() {
    let mut world = World::installed(&retries("upgrade", 1), &[FailsAfterRecord("boom"), Success]);
    world.chart_version = "1.1.0";
    assert_eq!(world.attempt(), Pause::Again);
    world.chart_version = "1.0.0";
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "upgrade rollback | |",
        "v3 deployed rollback, v2 failed upgrade, v1 superseded rollback",
        "True UpgradeSucceeded",
    );
    assert_eq!(
        (world.condition("Remediated"), world.condition("Released")),
        ("-".to_owned(), "True UpgradeSucceeded".to_owned())
    );
}

#[test]
fn a_failed_upgrade_is_uninstalled_and_installed_anew() {
    let spec = json!({"upgrade": {"remediation": {"retries": 0, "remediateLastFailure": true, "strategy": "uninstall"}}});
    let mut world = World::installed(
        &spec,
        &[FailsAfterRecord("field is immutable"), Success, Success],
    );
    world.chart_version = "1.1.0";
    assert_eq!(world.attempt(), Pause::Again);
    world.expect(
        "upgrade uninstall |",
        "v2 uninstalling uninstall-remediation, v1 deployed uninstall-remediation",
        "False UpgradeFailed",
    );
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "upgrade uninstall | install |",
        "v1 deployed install",
        "True InstallSucceeded",
    );
}

#[test]
fn impossible_rollbacks() {
    // Nothing good before: it stalls.
    let mut world = World::new(
        &retries("upgrade", 1),
        &[FailsAfterRecord("boom"), FailsAfterRecord("boom")],
    );
    assert!(matches!(world.attempt(), Pause::Stalled(_)));
    world.chart_version = "1.1.0";
    assert!(matches!(world.attempt(), Pause::Stalled(_)));
    assert_eq!(world.log.join(" "), "install | upgrade |");
    assert_eq!(world.condition("Stalled"), "True MissingRollbackTarget");
    assert_eq!(
        world.message("Stalled"),
        "Failed to perform remediation: missing target release for rollback: cannot remediate failed release"
    );
    // The record of the target is gone, or was changed: the upgrade is tried again.
    for disturb in [
        (|world: &mut World| drop(world.storage.remove(&1))) as fn(&mut World),
        |world| world.storage.get_mut(&1).unwrap().manifest.push('x'),
    ] {
        let script = [FailsAfterRecord("boom"), FailsBeforeRecord("busy"), Success];
        let mut world = World::installed(&retries("upgrade", 5), &script);
        world.chart_version = "1.1.0";
        assert_eq!(world.attempt(), Pause::Again);
        disturb(&mut world);
        assert_eq!(world.attempt(), Pause::Done);
        assert_eq!(world.log.join(" "), "upgrade rollback | upgrade |");
    }
}

#[test]
fn a_failed_rollback_is_tried_again() {
    let mut world = World::installed(
        &retries("upgrade", 3),
        &[FailsAfterRecord("boom"), FailsAfterRecord("worse"), Success],
    );
    world.chart_version = "1.1.0";
    assert_eq!(world.attempt(), Pause::Again);
    world.expect(
        "upgrade rollback |",
        "v3 failed rollback, v2 failed upgrade, v1 deployed install",
        "False RollbackFailed",
    );
    assert_eq!(world.attempt(), Pause::Again);
    assert_eq!(world.log.join(" "), "upgrade rollback | rollback |");
    assert_eq!(world.condition("Remediated"), "True RollbackSucceeded");
}

#[test]
fn tests_that_fail() {
    let spec = json!({"test": {"enable": true}, "upgrade": {"remediation": {"retries": 1}}});
    let mut world = World::installed(&spec, &[]);
    assert_eq!(world.condition("TestSuccess"), "True TestSucceeded");
    assert_eq!(
        world.message("TestSuccess"),
        "Helm test succeeded for release apps/web.v1 with chart web@1.0.0: 1 test hook completed successfully"
    );
    world.chart_version = "1.1.0";
    // Popped from the end: upgrade, test fails, rollback.
    world.script = vec![Success, FailsAfterRecord("pod smoke failed"), Success];
    assert_eq!(world.attempt(), Pause::Again);
    world.expect(
        "upgrade test rollback |",
        "v3 deployed rollback, v2 superseded rollback, v1 superseded",
        "False RollbackSucceeded",
    );
    assert_eq!(world.release.status.upgrade_failures, 1);
    assert_eq!(
        world.message("TestSuccess"),
        "Helm test failed for release apps/web.v2 with chart web@1.1.0: pod smoke failed"
    );
}

#[test]
fn failures_of_tests_can_be_ignored() {
    let spec = json!({"test": {"enable": true, "ignoreFailures": true}});
    let mut world = World::new(&spec, &[Success, FailsAfterRecord("no")]);
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "install test |",
        "v1 deployed install",
        "True InstallSucceeded",
    );
    assert_eq!(world.condition("TestSuccess"), "False TestFailed");
    assert_eq!(world.release.status.install_failures, 0);
}

#[test]
fn hooks_and_timeouts_that_fail() {
    for error in [
        "pre-upgrade hooks failed: warning: Hook pre-upgrade web/templates/job.yaml failed: denied",
        "context deadline exceeded",
        "cannot patch \"web\" with kind Service: spec.clusterIP: field is immutable",
    ] {
        let mut world = World::installed(&json!({}), &[FailsAfterRecord(error)]);
        world.chart_version = "1.1.0";
        assert!(matches!(world.attempt(), Pause::Stalled(_)));
        world.expect(
            "upgrade |",
            "v2 failed upgrade, v1 deployed install",
            "False UpgradeFailed",
        );
        assert_eq!(
            world.message("Ready"),
            format!("Helm upgrade failed for release apps/web with chart web@1.1.0: {error}")
        );
    }
}

#[test]
fn failures_that_leave_nothing_do_not_count() {
    let mut world = World::new(&json!({}), &[FailsBeforeRecord("no chart"), Success]);
    assert_eq!(world.attempt(), Pause::Again);
    world.expect("install |", "", "False InstallFailed");
    assert_eq!(
        (
            world.release.status.failures,
            world.release.status.install_failures
        ),
        (1, 0)
    );
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "install | install |",
        "v1 deployed install",
        "True InstallSucceeded",
    );
}

#[test]
fn retry_on_failure() {
    let strategy = json!({"name": "RetryOnFailure", "retryInterval": "90s"});
    let spec = json!({"install": {"strategy": strategy}, "upgrade": {"strategy": strategy}});
    let mut world = World::new(
        &spec,
        &[FailsAfterRecord("boom"), FailsAfterRecord("boom"), Success],
    );
    let wait = Pause::After(std::time::Duration::from_secs(90));
    assert_eq!(world.attempt(), wait);
    assert_eq!(world.message("Reconciling"), "retrying after 1m30s");
    assert_eq!(world.attempt(), wait);
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "install | upgrade | upgrade |",
        "v3 deployed upgrade, v2 superseded, v1 failed install",
        "True UpgradeSucceeded",
    );
    assert_eq!(world.release.status.upgrade_failures, 0);
}

#[test]
fn a_pending_release_is_unlocked() {
    let mut world = World::installed(&json!({}), &[Success]);
    let mut stale = record(2, Status::PendingUpgrade);
    stale.config.clone_from(&world.values);
    world.storage.insert(2, stale);
    assert_eq!(world.attempt(), Pause::Done);
    // The pending record is not ours by its digest: the release is taken over by an upgrade.
    world.expect(
        "unlock upgrade |",
        "v3 deployed upgrade",
        "True UpgradeSucceeded",
    );
    assert_eq!(world.storage[&2].info.status, Status::Failed);
    assert_eq!(
        world.storage[&2].info.description,
        "Release unlocked from stale 'pending-upgrade' state"
    );
    // One that the history knows.
    let mut world = World::installed(&json!({}), &[Success]);
    let mut stale = world.storage[&1].clone();
    stale.info.status = Status::PendingInstall;
    world.release.status.history =
        vec![snapshot(&stale, Some(ReleaseAction::Install), "").unwrap()];
    world.storage.insert(1, stale);
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "unlock upgrade |",
        "v2 deployed upgrade, v1 superseded",
        "True UpgradeSucceeded",
    );
}

#[test]
fn releases_of_other_clients_are_taken_over() {
    let mut world = World::new(&json!({}), &[Success]);
    world.storage.insert(4, record(4, Status::Deployed));
    assert_eq!(world.attempt(), Pause::Done);
    world.expect("upgrade |", "v5 deployed upgrade", "True UpgradeSucceeded");
    // helm rollback by hand.
    let mut world = World::installed(&json!({}), &[Success]);
    world.storage.insert(2, record(2, Status::Deployed));
    assert_eq!(world.attempt(), Pause::Done);
    world.expect("upgrade |", "v3 deployed upgrade", "True UpgradeSucceeded");
}

#[test]
fn a_missing_release_is_installed_again() {
    // The namespace was deleted, and the records with it.
    let mut world = World::installed(&json!({}), &[Success]);
    world.storage.clear();
    assert_eq!(world.attempt(), Pause::Done);
    world.expect("install |", "v1 deployed install", "True InstallSucceeded");
    // helm uninstall --keep-history.
    let mut world = World::installed(
        &json!({}),
        &[FailsBeforeRecord(
            "cannot reuse a name that is still in use",
        )],
    );
    let mut gone = world.storage[&1].clone();
    gone.info.status = Status::Uninstalled;
    world.release.status.history.clear();
    world.storage.insert(1, gone);
    assert_eq!(world.attempt(), Pause::Again);
    assert_eq!(world.log.join(" "), "install |");
}

#[test]
fn an_uninstall_with_hooks() {
    for (went, reason, message, failures) in [
        (
            UninstallResult::Done,
            "False UninstallSucceeded",
            "Helm uninstall succeeded for release apps/web.v1 with chart web@1.0.0",
            0,
        ),
        (
            UninstallResult::NotFound,
            "False UninstallSucceeded",
            "Release apps/web.v1 was not found, assuming it is uninstalled",
            0,
        ),
        (
            UninstallResult::AlreadyDone,
            "False UninstallSucceeded",
            "Release apps/web.v1 was already uninstalled",
            0,
        ),
        (
            UninstallResult::Failed(
                "warning: Hook pre-delete web/templates/job.yaml failed: denied\n",
            ),
            "False UninstallFailed",
            "Helm uninstall failed for release apps/web.v1 with chart web@1.0.0: warning: Hook pre-delete web/templates/job.yaml failed: denied",
            1,
        ),
    ] {
        let mut world = World::installed(&json!({}), &[]);
        world.release.status.inventory = Some(json!({"entries": []}));
        let mut gone = world.storage[&1].clone();
        gone.info.status = Status::Uninstalling;
        let event = record_uninstall(&mut world.release, &[gone], went, NOW).unwrap();
        assert_eq!(world.condition("Ready"), reason);
        assert_eq!(world.message("Ready"), message);
        assert_eq!(world.history(), "v1 uninstalling uninstall");
        assert_eq!(world.release.status.failures, failures);
        assert_eq!(
            world.release.status.inventory.is_none(),
            went == UninstallResult::Done
        );
        assert_eq!(event.is_some_and(|event| event.warning), failures == 1);
    }
}

#[test]
fn drift() {
    let mut world = World::installed(&json!({"driftDetection": {"mode": "enabled"}}), &[]);
    assert_eq!(world.condition("Drifted"), "False NoDriftDetected");
    world.drifted = true;
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "correct cluster drift |",
        "v1 deployed install",
        "True InstallSucceeded",
    );
    let mut world = World::installed(&json!({"driftDetection": {"mode": "warn"}}), &[]);
    world.drifted = true;
    assert_eq!(world.attempt(), Pause::Done);
    world.expect("|", "v1 deployed install", "True InstallSucceeded");
}

#[test]
fn a_forced_release_is_upgraded_once() {
    let force = |world: &mut World| {
        for annotation in [FORCE_AT, REQUESTED_AT] {
            world.release.object.set_annotation(annotation, "now");
        }
    };
    // In sync: upgraded all the same, once.
    let mut world = World::installed(&json!({}), &[Success]);
    force(&mut world);
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "upgrade |",
        "v2 deployed upgrade, v1 superseded",
        "True UpgradeSucceeded",
    );
    assert_eq!(world.attempt(), Pause::Done);
    assert_eq!(world.log.join(" "), "upgrade | |");
    // Out of retries: tried all the same.
    let mut world = World::installed(&json!({}), &[FailsAfterRecord("boom"), Success]);
    world.chart_version = "1.1.0";
    assert!(matches!(world.attempt(), Pause::Stalled(_)));
    force(&mut world);
    assert_eq!(world.attempt(), Pause::Done);
    world.expect(
        "upgrade | upgrade |",
        "v3 deployed upgrade, v2 failed upgrade, v1 superseded",
        "True UpgradeSucceeded",
    );
}
