//! HTTPArchives as sources of Kustomizations.

use driftless_harness::charts::Host;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use driftless_source::archive;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

const HUB: [HubSpec<'static>; 1] = one_hub("acme/archives");
const SPACE: &str = "flux-system";

/// Returns an archive with a ConfigMap.
fn packed(color: &str) -> Vec<u8> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": SPACE}, "data": {"color": color}});
    let mut tree = FileTree::new();
    let path = TreePath::new("deploy/web.yaml").unwrap();
    let content = object.to_string();
    tree.insert(path, EntryKind::File, content).unwrap();
    archive::pack(&tree).unwrap()
}

fn spec(host: &Host, content: &[u8]) -> Value {
    json!({"interval": "1h", "url": format!("{}/web.tar.gz", host.url()),
        "sha256": hex::encode(Sha256::digest(content))})
}

fn color(hub: &dyn Node) -> Value {
    let path = format!("/api/v1/namespaces/{SPACE}/configmaps/web");
    hub.find(&path)
        .map_or(Value::Null, |one| one["data"]["color"].clone())
}

#[test]
fn a_kustomization_applies_an_archive_of_a_digest() {
    let site = Embedded::start(&HUB, &[]);
    site.allow_local("hub");
    let (hub, host) = (site.cluster("hub"), Host::start());
    site.commit("acme/archives", &[]);
    let (green, blue) = (packed("green"), packed("blue"));
    host.put("/web.tar.gz", green.clone());
    let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HTTPArchive",
        "metadata": {"name": "web", "namespace": SPACE}, "spec": spec(&host, &green)});
    hub.create(&path("HTTPArchive", SPACE, ""), &source);
    let applied = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"interval": "1h", "path": "./deploy", "prune": true,
            "sourceRef": {"kind": "HTTPArchive", "name": "web"}}});
    hub.create(&path("Kustomization", SPACE, ""), &applied);
    let sweep = || site.sweep_after(Duration::from_secs(90));
    sweep();
    let (status, _, message) = ready(hub, "HTTPArchive", SPACE, "web");
    assert_eq!(status, "True", "{message}");
    assert_eq!(color(hub), "green");
    host.take_calls();
    // The archive behind the URL changes before the spec names its digest.
    host.put("/web.tar.gz", blue.clone());
    sweep();
    assert!(host.take_calls().is_empty());
    let place = path("HTTPArchive", SPACE, "web");
    hub.patch(&place, &json!({"spec": {"sha256": "0".repeat(64)}}));
    sweep();
    let (status, reason, message) = ready(hub, "HTTPArchive", SPACE, "web");
    assert_eq!((&*status, &*reason), ("False", "SourceFetchFailed"));
    assert!(
        message.contains("expected that of spec.sha256"),
        "{message}"
    );
    assert_eq!(color(hub), "green");
    hub.patch(&place, &json!({"spec": spec(&host, &blue)}));
    sweep();
    assert_eq!(color(hub), "blue");
}
