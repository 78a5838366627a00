use super::super::action::Action;
use super::super::plan::{Cursor, Phase, failure_description, phases, success_description};
use super::helm_release;
use driftless_flux::CrdsPolicy;
use driftless_helm::hooks::HookEvent;
use serde_json::json;
use std::time::Duration;

#[test]
fn phases_of_every_action() {
    use HookEvent::{
        PostDelete, PostInstall, PostRollback, PostUpgrade, PreDelete, PreInstall, PreRollback,
        PreUpgrade,
    };
    use Phase::{
        Apply, Correct, Crds, Delete, Finish, Hooks, Namespace, Purge, Supersede, Wait, WaitGone,
        WriteRecord,
    };
    let rollback = || Action::Rollback(Box::default());
    let wait = Wait { jobs: true };
    for (action, spec, expected) in [
        (
            Action::Install,
            json!({}),
            vec![
                Crds(CrdsPolicy::Create),
                WriteRecord,
                Hooks(PreInstall),
                Apply,
                wait,
                Hooks(PostInstall),
                Finish,
            ],
        ),
        (
            Action::Install,
            json!({"targetNamespace": "shop", "install": {"createNamespace": true, "crds": "Skip",
            "disableHooks": true, "disableWaitForJobs": true}}),
            vec![Namespace, WriteRecord, Apply, Wait { jobs: false }, Finish],
        ),
        (
            Action::Upgrade,
            json!({}),
            vec![
                WriteRecord,
                Hooks(PreUpgrade),
                Apply,
                wait,
                Hooks(PostUpgrade),
                Supersede,
                Finish,
            ],
        ),
        (
            Action::Upgrade,
            json!({"upgrade": {"crds": "CreateReplace", "disableWait": true}}),
            vec![
                Crds(CrdsPolicy::CreateReplace),
                WriteRecord,
                Hooks(PreUpgrade),
                Apply,
                Hooks(PostUpgrade),
                Supersede,
                Finish,
            ],
        ),
        (
            rollback(),
            json!({}),
            vec![
                WriteRecord,
                Hooks(PreRollback),
                Apply,
                wait,
                Hooks(PostRollback),
                Supersede,
                Finish,
            ],
        ),
        (
            Action::UninstallRemediation,
            json!({}),
            vec![
                Hooks(PreDelete),
                WriteRecord,
                Delete,
                WaitGone,
                Hooks(PostDelete),
                Purge,
            ],
        ),
        (
            Action::UninstallRemediation,
            json!({"uninstall": {"keepHistory": true, "disableHooks": true, "disableWait": true}}),
            vec![WriteRecord, Delete, Finish, Supersede],
        ),
        (
            Action::Test,
            json!({}),
            vec![Hooks(HookEvent::Test), WriteRecord],
        ),
        (Action::Unlock, json!({}), vec![WriteRecord]),
        (Action::CorrectDrift, json!({}), vec![Correct]),
    ] {
        assert_eq!(
            phases(&action, &helm_release(&spec)),
            expected,
            "{} {spec}",
            action.name()
        );
    }
}

#[test]
fn descriptions_of_the_record() {
    let rollback = Action::Rollback(Box::default());
    for (action, phase, text) in [
        (&Action::Install, Phase::Apply, "Release \"web\" failed: x"),
        (
            &Action::Upgrade,
            Phase::Hooks(HookEvent::PreUpgrade),
            "Upgrade \"web\" failed: x",
        ),
        (&rollback, Phase::Apply, "Rollback \"web\" failed: x"),
        (
            &rollback,
            Phase::Wait { jobs: true },
            "Release \"web\" failed: x",
        ),
    ] {
        assert_eq!(failure_description(action, "web", phase, "x"), text);
    }
    assert_eq!(
        success_description(&Action::Install),
        Some("Install complete")
    );
    assert_eq!(success_description(&rollback), None);
}

#[test]
fn a_cursor_times_one_operation() {
    let mut cursor = Cursor::default();
    let (start, limit) = (Duration::from_secs(1000), Duration::from_secs(60));
    assert!(!cursor.is_late(start, limit));
    assert!(!cursor.is_late(start + Duration::from_secs(59), limit));
    assert!(cursor.is_late(start + limit, limit));
    cursor.next_step();
    assert!(!cursor.is_late(start + limit, limit));
    cursor.next_phase();
    assert_eq!((cursor.phase, cursor.step, cursor.since), (1, 0, None));
    let kept: Cursor = serde_json::from_str(&serde_json::to_string(&cursor).unwrap()).unwrap();
    assert_eq!(kept, cursor);
}
