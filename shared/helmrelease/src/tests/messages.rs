//! Tests the event of each action: helm-controller's message and metadata.

use super::super::action::Action;
use super::super::history::snapshot;
use super::super::memory::ChartFacts;
use super::super::outcome::{
    ActionResult, EventMetadata, ReleaseEvent, UninstallResult, record as note, record_uninstall,
};
use super::{NOW, helm_release, record};
use driftless_flux::{ConditionStatus, HelmRelease, Snapshot};
use driftless_helm::record::{HookPhase, RecordedHook, Release, Status};
use serde_json::json;

const TRIED: &str = "sha256:tried";

/// Returns a release with revision 1 from an OCI artifact in its history, and a later attempt with
/// another chart.
fn tried() -> (HelmRelease, Snapshot) {
    let spec = json!({"targetNamespace": "shop", "releaseName": "web", "test": {"enable": true}});
    let mut release = helm_release(&spec);
    let made = snapshot(&released(1, Status::Deployed), None, "sha256:oci").unwrap();
    release.status.history = vec![made.clone()];
    release.status.last_attempted_config_digest = TRIED.to_owned();
    release.status.last_attempted_revision_digest = "sha256:new".to_owned();
    (release, made)
}

fn released(version: i64, status: Status) -> Release {
    let mut release = record(version, status);
    release.namespace = "shop".to_owned();
    release.chart.metadata.known.app_version = "9".to_owned();
    release
}

fn facts() -> ChartFacts {
    ChartFacts {
        name: "web".to_owned(),
        version: "1.1.0".to_owned(),
        app_version: "10".to_owned(),
        ..ChartFacts::default()
    }
}

/// `Warning Reason: message | revision token app-version oci-digest`
fn line(event: Option<ReleaseEvent>, config: &str) -> String {
    let Some(event) = event else {
        return "nothing".to_owned();
    };
    let kind = if event.warning { "Warning" } else { "Normal" };
    let EventMetadata {
        revision,
        token,
        app_version,
        oci_digest,
    } = event.metadata;
    let token = match token {
        token if token == config => "config".to_owned(),
        token => token,
    };
    let (reason, message) = (event.reason, event.message);
    format!("{kind} {reason}: {message} | {revision} {token} {app_version} {oci_digest}")
}

#[test]
fn events_of_actions_match_helm_controller() {
    let (_, target) = tried();
    let rollback = Action::Rollback(Box::new(target.clone()));
    let mut tested = released(1, Status::Deployed);
    for name in ["smoke", "load"] {
        let mut hook = RecordedHook {
            name: name.to_owned(),
            events: vec!["test".to_owned()],
            ..RecordedHook::default()
        };
        hook.last_run.phase = HookPhase::Succeeded;
        tested.hooks.push(hook);
    }
    let mut unlocked = released(1, Status::PendingUpgrade);
    super::super::outcome::unlock(&mut unlocked);
    let made = |version| vec![released(version, Status::Deployed)];
    let corrected = ["ConfigMap/shop/a configured".to_owned()];
    let (none, boom) = (None, Some(" boom\n"));
    let old = "1.0.0 config 9 sha256:oci";
    let new = "1.1.0 sha256:tried 10 sha256:new";
    let back = "1.0.0 sha256:tried 9 sha256:oci";
    let cases: Vec<(&Action, Vec<Release>, Option<&str>, String)> = vec![
        (
            &Action::Install,
            vec![],
            boom,
            format!("Warning InstallFailed: Helm install failed for release shop/web with chart web@1.1.0: boom | {new}"),
        ),
        (
            &Action::Install,
            made(2),
            none,
            "Normal InstallSucceeded: Helm install succeeded for release shop/web.v2 with chart web@1.0.0 | 1.0.0 config 9 sha256:new".to_owned(),
        ),
        (
            &Action::Upgrade,
            made(2),
            boom,
            format!("Warning UpgradeFailed: Helm upgrade failed for release shop/web with chart web@1.1.0: boom | {new}"),
        ),
        (
            &Action::Upgrade,
            made(2),
            none,
            "Normal UpgradeSucceeded: Helm upgrade succeeded for release shop/web.v2 with chart web@1.0.0 | 1.0.0 config 9 sha256:new".to_owned(),
        ),
        (
            &rollback,
            made(3),
            none,
            format!("Normal RollbackSucceeded: Helm rollback to previous release shop/web.v1 with chart web@1.0.0 succeeded | {back}"),
        ),
        (
            &rollback,
            made(3),
            boom,
            format!("Warning RollbackFailed: Helm rollback to previous release shop/web.v1 with chart web@1.0.0 failed: boom | {back}"),
        ),
        (
            &Action::UninstallRemediation,
            vec![released(1, Status::Uninstalled)],
            none,
            format!("Normal UninstallSucceeded: Helm uninstall remediation for release shop/web.v1 with chart web@1.0.0 succeeded | {old}"),
        ),
        (
            &Action::UninstallRemediation,
            vec![],
            boom,
            format!("Warning UninstallFailed: Helm uninstall remediation for release shop/web.v1 with chart web@1.0.0 failed: boom | {old}"),
        ),
        (
            &Action::Test,
            vec![tested],
            none,
            format!("Normal TestSucceeded: Helm test succeeded for release shop/web.v1 with chart web@1.0.0: 2 test hooks completed successfully | {old}"),
        ),
        (
            &Action::Test,
            made(1),
            none,
            format!("Normal TestSucceeded: Helm test succeeded for release shop/web.v1 with chart web@1.0.0: no test hooks | {old}"),
        ),
        (
            &Action::Test,
            made(1),
            boom,
            format!("Warning TestFailed: Helm test failed for release shop/web.v1 with chart web@1.0.0: boom | {old}"),
        ),
        (
            &Action::Unlock,
            vec![unlocked.clone()],
            none,
            format!("Normal PendingRelease: Unlocked Helm release shop/web.v1 with chart web@1.0.0 in pending-upgrade state | {old}"),
        ),
        (
            &Action::Unlock,
            vec![unlocked],
            boom,
            format!("Warning PendingRelease: Unlock of Helm release shop/web.v1 with chart web@1.0.0 in pending-upgrade state failed: boom | {old}"),
        ),
        (
            &Action::CorrectDrift,
            vec![],
            none,
            format!("Normal DriftCorrected: Cluster state of release shop/web.v1 has been corrected:\nConfigMap/shop/a configured | {old}"),
        ),
        (
            &Action::CorrectDrift,
            vec![],
            Some("ConfigMap/shop/b patch failure: boom"),
            format!(
                "Warning DriftCorrectionFailed: Failed to partially correct cluster state of release shop/web.v1:\n\
                 ConfigMap/shop/b patch failure: boom\n\nSuccessful corrections:\nConfigMap/shop/a configured | {old}"
            ),
        ),
    ];
    for (action, written, error, expected) in cases {
        let (mut release, _) = tried();
        let result = ActionResult {
            action,
            written: &written,
            error,
            chart: &facts(),
            corrected: &corrected,
        };
        let event = note(&mut release, &result, NOW).unwrap();
        assert_eq!(line(event, &target.config_digest), expected);
    }
}

#[test]
fn events_of_an_uninstall() {
    let cases = [
        (
            UninstallResult::Done,
            "Helm uninstall succeeded for release shop/web.v1 with chart web@1.0.0",
            "Normal UninstallSucceeded",
        ),
        (
            UninstallResult::Failed(" boom\n"),
            "Helm uninstall failed for release shop/web.v1 with chart web@1.0.0: boom",
            "Warning UninstallFailed",
        ),
        (
            UninstallResult::NotFound,
            "Release shop/web.v1 was not found, assuming it is uninstalled",
            "",
        ),
        (
            UninstallResult::AlreadyDone,
            "Release shop/web.v1 was already uninstalled",
            "",
        ),
    ];
    for (result, message, kind) in cases {
        let (mut release, target) = tried();
        let event = record_uninstall(&mut release, &[], result, NOW).unwrap();
        let expected = match kind {
            "" => "nothing".to_owned(),
            kind => format!("{kind}: {message} | 1.0.0 config 9 sha256:oci"),
        };
        assert_eq!(line(event, &target.config_digest), expected);
        let released = release.status.conditions.get("Released").unwrap();
        assert_eq!(
            (released.status, &*released.message),
            (ConditionStatus::False, message)
        );
    }
}
