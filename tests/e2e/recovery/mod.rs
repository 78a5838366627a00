//! A bucket that is lost, one that an older release has written, and one that a newer release has
//! written before a roll back.

mod fleet;
mod old_state;

use driftless_core::orphans::State;
use driftless_kernel::hub::{self, RestoreResult, Settings};
use driftless_kernel::ports::ErrorKind;
use driftless_tests::site::Site;
use fleet::Fleet;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The whole bucket, with the registrations of the hubs: these are restored from the secret
/// manager, everything else by the steps. Only the audit log is lost.
#[test]
fn lost_bucket_is_rebuilt() {
    let mut fleet = Fleet::start();
    let before = fleet.applied();
    let lost = fleet.world.stored("");
    fleet.world.lose("");
    fleet.restart();
    let ports = fleet.world.ports.clone();
    let restore = || fleet.world.block_on(hub::restore(&ports, "hub"));
    assert_eq!(restore().expect("restored"), RestoreResult::Restored);
    assert_eq!(restore().expect("restored"), RestoreResult::Kept);
    fleet.rest();
    assert_eq!(fleet.applied(), before, "nothing is applied again");
    let rebuilt = fleet.world.stored("");
    let below = |keys: &[String], prefix: &str| -> Vec<String> {
        let keys = keys.iter().filter(|key| key.starts_with(prefix));
        keys.cloned().collect()
    };
    for prefix in [
        "objects/",
        "index/",
        "receivers/",
        "schedule/",
        "hubs/",
        "waits/",
    ] {
        let was = below(&lost, prefix);
        assert!(!was.is_empty(), "{prefix}");
        assert_eq!(below(&rebuilt, prefix), was, "{prefix}");
    }
    assert!(!below(&rebuilt, "artifacts/").is_empty());
    assert!(!below(&lost, "audit/").is_empty());
    assert_eq!(below(&rebuilt, "audit/"), [""; 0], "nothing has changed");
    fleet.a_push_arrives();
}

/// A registration without its settings would forbid nothing.
#[test]
fn a_hub_is_not_restored_without_its_settings() {
    let fleet = Fleet::start();
    let world = &fleet.world;
    let text = world.block_on(world.ports.secrets.secret("hubs/hub"));
    let text = text.expect("the secret manager").expect("a kubeconfig");
    let other = Settings {
        name: "other".to_owned(),
        ..Settings::default()
    };
    let of_other = hub::with_settings(text.expose(), &other).expect("a kubeconfig");
    let of_other = of_other.expose_str().expect("text").to_owned();
    let newer = of_other.replace("format: 1", "format: 2");
    assert_ne!(newer, of_other);
    let plain = world.cluster("hub").kubeconfig();
    for (name, text, expected) in [
        ("plain", plain, "has no copy of the hub's settings"),
        ("stolen", of_other, "has the settings of another hub"),
        ("newer", newer, "written by a newer driftless"),
    ] {
        let world = driftless_tests::embedded::Embedded::start(&[], &[])
            .with_secret(&format!("hubs/{name}"), &text);
        let refused = world.block_on(hub::restore(&world.ports, name));
        let message = refused.expect_err("no registration").message;
        assert!(message.contains(expected), "{message}");
        assert_eq!(world.stored("hubs/"), [""; 0], "{name}");
    }
    let absent = world.block_on(hub::restore(&world.ports, "absent"));
    let message = absent.expect_err("no secret").message;
    assert!(
        message.contains("'hubs/absent' does not exist"),
        "{message}"
    );
}

/// `driftless doctor` reports them; those of hubs that are not registered are in its own tests.
#[test]
fn orphans_are_the_records_of_gone_objects() {
    let fleet = Fleet::start();
    let world = &fleet.world;
    let found = || {
        world.block_on(async {
            let hub = hub::connect(&world.ports, "hub").await.expect("connected");
            let state = State::read(world.ports.blobs.as_ref()).await;
            let orphans = state.expect("the bucket").of_gone_objects(&hub).await;
            let orphans = orphans.expect("the objects").into_iter();
            orphans.flat_map(|group| group.keys).collect::<Vec<_>>()
        })
    };
    // Also not the record of the object that another one waits for in vain.
    assert_eq!(
        found(),
        [""; 0],
        "each record is of an object that exists or is awaited"
    );
    let gone = [
        "index/github.com/acme/old/refs%2Fheads%2Fmain/hub+flux-system+gone.json",
        "journal/hub/helmreleases/flux-system/gone.json",
        "objects/hub/helmreleases/flux-system/gone.json",
        "waits/hub/kustomizations/flux-system/absent/kustomizations/flux-system/gone",
    ];
    let mut bucket = world.bucket();
    bucket.extend(gone.map(|key| (key.to_owned(), bytes::Bytes::from("{}"))));
    world.replace_bucket(bucket);
    assert_eq!(found(), gone);
}

/// Returns the bucket with every document changed; the content of artifacts is not driftless's own.
fn changed(
    bucket: BTreeMap<String, bytes::Bytes>,
    change: impl Fn(&str, &mut Value),
) -> BTreeMap<String, bytes::Bytes> {
    let blobs =
        bucket.into_iter().map(
            |(key, bytes)| match serde_json::from_slice::<Value>(&bytes) {
                Ok(mut document) if document.is_object() && !key.starts_with("artifacts/") => {
                    change(&key, &mut document);
                    (key, document.to_string().into())
                }
                _ => (key, bytes),
            },
        );
    blobs.collect()
}

/// A newer release of the same format has added fields: to documents, and to items of their lists.
#[test]
fn a_roll_back_keeps_records_with_unknown_fields() {
    fn add(document: &mut Value) {
        let Value::Object(fields) = document else {
            return;
        };
        for list in fields.values_mut().filter_map(Value::as_array_mut) {
            list.iter_mut().for_each(add);
        }
        fields.insert("newer".to_owned(), json!({"field": [1]}));
    }
    let mut fleet = Fleet::start();
    let (before, downloads) = (fleet.applied(), fleet.downloads());
    let bucket = changed(fleet.world.bucket(), |_, document| add(document));
    fleet.world.replace_bucket(bucket);
    fleet.restart();
    fleet.rest();
    assert_eq!(fleet.applied(), before, "nothing is applied again");
    assert_eq!(fleet.downloads(), downloads, "what is known is not fetched");
    assert_eq!(fleet.world.stored("damaged/"), [""; 0]);
    fleet.a_push_arrives();
}

/// A newer release has written records that this one must not use.
#[test]
fn a_roll_back_writes_newer_records_again() {
    let mut fleet = Fleet::start();
    let before = fleet.applied();
    let bucket = changed(fleet.world.bucket(), |key, document| {
        if !key.starts_with("hubs/") {
            document["format"] = json!(2);
        }
    });
    fleet.world.replace_bucket(bucket);
    fleet.restart();
    fleet.rest();
    assert_eq!(fleet.applied(), before, "nothing is applied again");
    let after = fleet.world.bucket();
    for key in [
        "objects/hub/gitrepositories/flux-system/flux-system.json",
        "objects/hub/kustomizations/flux-system/apps.json",
        "objects/hub/helmreleases/flux-system/web.json",
        "schedule/hub.json",
    ] {
        let text = String::from_utf8_lossy(&after[key]);
        assert!(text.starts_with(r#"{"format":1,"#), "{key}: {text}");
    }
    let journal = fleet
        .world
        .stored("journal/hub/kustomizations/flux-system/apps.json");
    assert_eq!(journal.len(), 1, "what is not needed stays");
    fleet.a_push_arrives();
}

/// A newer setting may forbid what this version does not know.
#[test]
fn a_newer_registration_is_neither_used_nor_replaced() {
    let mut fleet = Fleet::start();
    let before = fleet.applied();
    let bucket = changed(fleet.world.bucket(), |key, document| {
        if key.starts_with("hubs/") {
            document["format"] = json!(2);
            document["forbidMore"] = json!(true);
        }
    });
    let registration = bucket["hubs/hub.json"].clone();
    fleet.world.replace_bucket(bucket.clone());
    fleet.restart();
    let world = &fleet.world;
    let failure = world.block_on(hub::settings(&world.ports, "hub"));
    let failure = failure.expect_err("a newer registration");
    assert!(failure.message.contains("use that version"), "{failure}");
    assert!(matches!(
        failure.class,
        driftless_kernel::failure::Class::Retry(_)
    ));
    let settings = Settings {
        name: "hub".to_owned(),
        ..Settings::default()
    };
    let refused = world.block_on(hub::register(&world.ports, &settings));
    assert_eq!(refused.expect_err("refused").kind, ErrorKind::Unsupported);
    let refused = world.block_on(hub::restore(&world.ports, "hub"));
    assert!(refused.is_err());
    fleet.rest();
    assert_eq!(fleet.applied(), before);
    assert_eq!(world.bucket()["hubs/hub.json"], registration);
    // The newer version runs again: nothing was lost.
    let bucket = changed(world.bucket(), |_, document| document["format"] = json!(1));
    world.replace_bucket(bucket);
    fleet.rest();
    assert_eq!(fleet.applied(), before);
    fleet.a_push_arrives();
}
