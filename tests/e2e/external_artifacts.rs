//! ExternalArtifacts of other controllers as sources of Kustomizations and HelmReleases.

use driftless_flux::rfc3339;
use driftless_harness::charts::Host;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use driftless_source::archive;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

const HUB: [HubSpec<'static>; 1] = one_hub("acme/external");
const SPACE: &str = "flux-system";

struct World {
    site: Embedded,
    host: Host,
}

impl World {
    fn start() -> Self {
        let site = Embedded::start(&HUB, &[]);
        site.allow_local("hub");
        let world = Self {
            site,
            host: Host::start(),
        };
        world.site.cluster("hub").namespace("apps");
        world.site.commit("acme/external", &[]);
        world.sweep();
        world
    }

    fn hub(&self) -> &dyn Node {
        self.site.cluster("hub")
    }

    fn create(&self, object: &Value) {
        let kind = object["kind"].as_str().unwrap();
        self.hub().create(&path(kind, SPACE, ""), object);
    }

    /// Serves content, and writes the status of the ExternalArtifact as its controller does.
    fn publish(&self, content: &[u8], revision: &str, change: impl FnOnce(&mut Value)) {
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(content)));
        let file = format!("/artifacts/{}.tar.gz", &digest[7..]);
        self.host.put(&file, content);
        let mut artifact = json!({"path": "externalartifact/apps/web.tar.gz", "revision": revision, "digest": digest,
            "url": format!("{}{file}", self.host.url()), "lastUpdateTime": rfc3339(self.site.now())});
        change(&mut artifact);
        let place = format!("{}/status", path("ExternalArtifact", SPACE, "web"));
        self.hub()
            .patch(&place, &json!({"status": {"artifact": artifact}}));
    }

    /// Lets the sweep find what is due.
    fn sweep(&self) {
        self.site.sweep_after(Duration::from_secs(90));
    }

    fn data(&self) -> Value {
        let found = self.hub().find("/api/v1/namespaces/apps/configmaps/web");
        found.map_or(Value::Null, |found| found["data"].clone())
    }

    fn ready(&self, kind: &str) -> (String, String, String) {
        ready(self.hub(), kind, SPACE, "web")
    }
}

fn external() -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"sourceRef": {"apiVersion": "acme.example/v1", "kind": "Builder", "name": "web"}}})
}

fn kustomization() -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"interval": "1h", "path": "./deploy", "prune": true,
            "sourceRef": {"kind": "ExternalArtifact", "name": "web"}}})
}

/// Returns an archive with these files.
fn pack(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tree = FileTree::new();
    for (name, content) in files {
        let path = TreePath::new(name).unwrap();
        let content = (*content).to_owned();
        tree.insert(path, EntryKind::File, content).unwrap();
    }
    archive::pack(&tree).unwrap()
}

/// Returns an archive with a ConfigMap in `deploy/`.
fn config(color: &str) -> Vec<u8> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": "apps"}, "data": {"color": color}});
    pack(&[("deploy/web.yaml", &object.to_string())])
}

#[test]
fn a_kustomization_applies_the_artifact_of_another_controller() {
    let world = World::start();
    world.create(&external());
    world.create(&kustomization());
    world.sweep();
    let (status, reason, message) = world.ready("Kustomization");
    assert_eq!(
        (&*status, &*reason),
        ("False", "ArtifactFailed"),
        "{message}"
    );

    world.publish(&config("green"), "latest@sha256:1", |_| {});
    world.sweep();
    let (status, _, message) = world.ready("Kustomization");
    assert_eq!(status, "True", "{message}");
    assert_eq!(world.data(), json!({"color": "green"}));
    // The sweep notices a new revision.
    world.publish(&config("blue"), "latest@sha256:2", |_| {});
    world.sweep();
    assert_eq!(world.data(), json!({"color": "blue"}));
    let status = world.hub().get(&path("Kustomization", SPACE, "web"))["status"].clone();
    assert_eq!(status["lastAppliedRevision"], "latest@sha256:2");
    // Only its controller writes the status of the source.
    let source = world.hub().get(&path("ExternalArtifact", SPACE, "web"));
    assert_eq!(source["status"]["conditions"], Value::Null);
}

/// The writer of a status chooses address and digest: neither leads to anything that it may not
/// have.
#[test]
fn artifacts_that_do_not_fit_are_refused() {
    let world = World::start();
    world.create(&external());
    world.create(&kustomization());
    let own = world.hub().get(&path("GitRepository", SPACE, SPACE))["status"]["artifact"].clone();
    assert!(own["digest"].is_string(), "{own}");
    let packed = config("green");
    let refused = |revision: &str, change: &dyn Fn(&mut Value), part: &str| {
        world.publish(&packed, revision, change);
        world.sweep();
        let (status, reason, message) = world.ready("Kustomization");
        assert_eq!(
            (&*status, &*reason),
            ("False", "ArtifactFailed"),
            "{message}"
        );
        assert!(message.contains(part), "{message}");
        assert_eq!(world.data(), Value::Null);
    };
    let other = format!("sha256:{}", "0".repeat(64));
    refused(
        "1",
        &|one| one["digest"] = other.as_str().into(),
        "the digest of the download is not that",
    );
    refused(
        "2",
        &|one| one["digest"] = "md5:1".into(),
        "expected sha256, sha384 or sha512",
    );
    refused(
        "3",
        &|one| one["url"] = "file:///etc/passwd".into(),
        "expected an address with https://",
    );
    // The artifact of another source in the installation's bucket.
    refused(
        "4",
        &|one| {
            for field in ["path", "digest", "url"] {
                one[field] = own[field].clone();
            }
        },
        "expected an address with https://",
    );
    world
        .site
        .change("hub", |settings| settings.allow_local_clusters = false);
    refused("5", &|_| {}, "expected an address with https://");
    let local = world.host.url().replace("http://", "https://");
    refused(
        "6",
        &|one| one["url"] = local.as_str().into(),
        "leads back into this installation",
    );
}

#[test]
fn a_release_installs_a_chart_of_another_controller() {
    let world = World::start();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {color: green}\n";
    let chart = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
    let content = pack(&[
        ("web/Chart.yaml", chart),
        ("web/templates/web.yaml", template),
    ]);
    world.create(&external());
    let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"interval": "1h", "targetNamespace": "apps", "releaseName": "web",
            "chartRef": {"kind": "ExternalArtifact", "name": "web"}}});
    world.create(&release);
    world.sweep();
    let (_, reason, message) = world.ready("HelmRelease");
    assert_eq!(reason, "SourceNotReady", "{message}");
    assert!(
        message.ends_with("is not ready: does not have an artifact"),
        "{message}"
    );
    let revision = "latest@sha256:0123456789abcdef";
    world.publish(&content, revision, |_| {});
    world.sweep();
    let (status, _, message) = world.ready("HelmRelease");
    assert_eq!(status, "True", "{message}");
    assert_eq!(world.data(), json!({"color": "green"}));
    let status = world.hub().get(&path("HelmRelease", SPACE, "web"))["status"].clone();
    assert_eq!(status["lastAttemptedRevision"], "1.2.3+0123456789ab");
    assert_eq!(status["lastAttemptedRevisionDigest"], revision);
}
