//! A bucket that is lost, and one that an older release has written.

use driftless_harness::github::Change;
use driftless_harness::tools;
use driftless_tests::embedded::Embedded;
use driftless_tests::objects::{apps, deployment};
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const FLEET: &str = "acme/recovery";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const EXTRA: &str = "/api/v1/namespaces/default/configmaps/extra";
const RELEASED: &str = "/api/v1/namespaces/default/configmaps/released";
const RELEASE: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases/web";
/// Longer than each interval of the fleet.
const INTERVAL: Duration = Duration::from_secs(11 * 60);

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n")
}

/// Returns a hub with a Kustomization and a HelmRelease that are ready and at rest.
fn world() -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec:
  interval: 10m
  targetNamespace: default
  chart: {spec: {chart: ./charts/web, sourceRef: {kind: GitRepository, name: flux-system}}}
";
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    world.commit(
        FLEET,
        &[
            apps(""),
            deployment("web:1"),
            Change::write("apps/extra.yaml", config_map("extra")),
            Change::write("clusters/hub/web.yaml", release),
            Change::write("charts/web/Chart.yaml", chart),
            Change::write("charts/web/templates/map.yaml", config_map("released")),
        ],
    );
    world.sweep();
    world.settle();
    let hub = world.cluster("hub");
    for (kind, name) in [("Kustomization", "apps"), ("HelmRelease", "web")] {
        let (status, _, message) = ready(hub, kind, "flux-system", name);
        assert_eq!(status, "True", "{kind}: {message}");
    }
    world.sweep_after(INTERVAL);
    world.settle();
    world
}

/// Returns the versions of everything that the fleet has applied, and the revision of the release.
fn applied(hub: &dyn Node) -> Vec<Value> {
    let version = |path: &str| hub.get(path)["metadata"]["resourceVersion"].clone();
    let history = hub.get(RELEASE)["status"]["history"].clone();
    let mut all: Vec<Value> = [DEPLOYMENT, EXTRA, RELEASED].map(version).into();
    all.push(history);
    all
}

/// Runs sweeps until each interval has passed two times.
fn rest(world: &Embedded) {
    for _ in 0..4 {
        world.sweep_after(INTERVAL / 2);
        world.settle();
    }
}

/// Pushes a change, and a deletion, and checks that both arrive and that nothing else changes.
fn a_push_arrives(world: &Embedded) {
    let hub = world.cluster("hub");
    let released = hub.get(RELEASED);
    let push = [deployment("web:2"), Change::remove("apps/extra.yaml")];
    assert_eq!(world.push(FLEET, &push)[0].status, Some(202));
    world.settle();
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(hub.get(DEPLOYMENT).pointer(image), Some(&json!("web:2")));
    assert_eq!(hub.find(EXTRA), None, "the deleted object is pruned");
    assert_eq!(hub.get(RELEASED), released);
}

#[test]
fn lost_bucket_is_rebuilt() {
    let world = world();
    let hub = world.cluster("hub");
    let before = applied(hub);
    let mut lost: Vec<String> = world.stored("");
    lost.retain(|key| !key.starts_with("hubs/"));
    assert!(lost.len() > 8, "{lost:?}");
    lost.iter().for_each(|key| world.lose(key));
    rest(&world);
    assert_eq!(applied(hub), before, "nothing is applied again");
    let rebuilt = world.stored("");
    let of_objects = |keys: &[String]| -> Vec<String> {
        let objects = keys.iter().filter(|key| key.starts_with("objects/"));
        objects.cloned().collect()
    };
    assert_eq!(of_objects(&rebuilt), of_objects(&lost));
    assert!(rebuilt.iter().any(|key| key.starts_with("artifacts/")));
    a_push_arrives(&world);
}

/// Returns the directory of the buckets that releases have written.
fn fixtures() -> PathBuf {
    tools::tests().join("corpus/state")
}

/// Writes a bucket as JSON: documents as texts, other blobs in hexadecimal digits.
fn encode(bucket: &BTreeMap<String, bytes::Bytes>) -> Value {
    let blobs = bucket.iter().map(|(key, bytes)| {
        let blob = match std::str::from_utf8(bytes) {
            Ok(text) => json!({"text": text}),
            Err(_) => json!({"hex": hex::encode(bytes)}),
        };
        (key.clone(), blob)
    });
    Value::Object(blobs.collect())
}

fn decode(bucket: &Value) -> BTreeMap<String, bytes::Bytes> {
    let blobs = bucket.as_object().expect("a bucket").iter();
    let decoded = blobs.map(|(key, blob)| {
        let bytes = match blob["text"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => hex::decode(blob["hex"].as_str().expect("digits")).expect("digits"),
        };
        (key.clone(), bytes.into())
    });
    decoded.collect()
}

/// The buckets in `tests/corpus/state` were written by the release in their name, for the fleet of
/// this test. `DRIFTLESS_WRITE_STATE=1` writes that of the present version, once before a release;
/// the older ones are never changed.
#[test]
fn old_state_is_read() {
    if std::env::var_os("DRIFTLESS_WRITE_STATE").is_some() {
        let written = encode(&world().bucket());
        let text = serde_json::to_string_pretty(&written).expect("JSON");
        let name = format!("{}.json", env!("CARGO_PKG_VERSION"));
        std::fs::create_dir_all(fixtures()).expect("a directory");
        std::fs::write(fixtures().join(name), text + "\n").expect("write the state");
    }
    let files = std::fs::read_dir(fixtures()).expect("buckets of releases");
    let files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a bucket");
        let old = decode(&serde_json::from_str(&text).expect("JSON"));
        let world = world();
        let hub = world.cluster("hub");
        let before = applied(hub);
        world.replace_bucket(old.clone());
        rest(&world);
        let name = file.display();
        assert_eq!(applied(hub), before, "{name}: nothing is applied again");
        assert_eq!(world.stored("damaged/"), [""; 0], "{name}: all is readable");
        for key in old.keys().filter(|key| key.starts_with("objects/")) {
            assert_eq!(world.stored(key), [key.as_str()], "{name}: {key} is kept");
        }
        a_push_arrives(&world);
    }
}
