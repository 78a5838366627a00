//! ArtifactGenerators: their ExternalArtifacts, the objects that use them, and tenants that try to
//! read what is not theirs.

use driftless_harness::github::Change;
use driftless_kernel::ports::Cause;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const APP: &str = "acme/app";
const CHART: &str = "acme/chart";
const SPACE: &str = "flux-system";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const CHART_YAML: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-chart}\ndata: {color: {{ .Values.color }}, size: {{ .Values.size }}}\n";

struct World {
    site: Embedded,
}

impl World {
    fn start() -> Self {
        let site = Embedded::start(&HUB, &[]);
        site.cluster("hub").namespace("apps");
        site.commit(FLEET, &[]);
        site.commit(
            APP,
            &[config("green"), Change::write("README.md", "read me\n")],
        );
        let chart = [
            Change::write("web/Chart.yaml", CHART_YAML),
            Change::write("web/values.yaml", "color: red\nsize: small\n"),
            Change::write("web/templates/config.yaml", TEMPLATE),
            Change::write("prod.yaml", "color: blue\n"),
        ];
        site.commit(CHART, &chart);
        let world = Self { site };
        world.sweep();
        for (name, url) in [("app", APP), ("chart", CHART)] {
            world.create(&repository(SPACE, name, url));
        }
        world
    }

    /// Starts a world whose generator has made the artifact that its Kustomization applied.
    fn applied() -> Self {
        let world = Self::start();
        for object in [generator(), kustomization()] {
            world.create(&object);
        }
        world.sweep();
        world.sweep();
        world.assert_ready("Kustomization");
        world
    }

    fn hub(&self) -> &dyn Node {
        self.site.cluster("hub")
    }

    fn create(&self, object: &Value) {
        let (kind, metadata) = (object["kind"].as_str().unwrap(), &object["metadata"]);
        let namespace = metadata["namespace"].as_str().unwrap();
        self.hub().create(&path(kind, namespace, ""), object);
    }

    /// Lets the sweep find what is due.
    fn sweep(&self) {
        self.site.sweep_after(Duration::from_secs(90));
    }

    fn artifact(&self, name: &str) -> Option<Value> {
        self.hub().find(&path("ExternalArtifact", SPACE, name))
    }

    fn generator(&self) -> Value {
        self.hub().get(&path("ArtifactGenerator", SPACE, "web"))
    }

    fn change(&self, kind: &str, name: &str, patch: &Value) {
        self.hub().patch(&path(kind, SPACE, name), patch);
    }

    fn ready(&self, kind: &str) -> (String, String, String) {
        ready(self.hub(), kind, SPACE, "web")
    }

    #[track_caller]
    fn assert_ready(&self, kind: &str) {
        let (status, _, message) = self.ready(kind);
        assert_eq!(status, "True", "{kind}: {message}");
    }

    #[track_caller]
    fn assert_failed(&self, reason: &str, message: &str) {
        let found = self.ready("ArtifactGenerator");
        assert_eq!((&*found.0, &*found.1), ("False", reason), "{}", found.2);
        assert!(found.2.contains(message), "{}", found.2);
    }

    fn data(&self, name: &str) -> Value {
        let found = self.hub().find(&path("ConfigMap", "apps", name));
        found.map_or(Value::Null, |found| found["data"].clone())
    }

    fn digest(&self, name: &str) -> Value {
        self.artifact(name).unwrap()["status"]["artifact"]["digest"].clone()
    }

    /// Returns how many steps each kind has run since the last call, for the objects `web`.
    fn steps(&self) -> impl Fn(&str) -> usize {
        let steps = self.site.steps();
        move |kind| {
            steps
                .get(&format!("{kind}/{SPACE}/web"))
                .copied()
                .unwrap_or_default()
        }
    }
}

fn repository(namespace: &str, name: &str, url: &str) -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"interval": "10m", "url": format!("https://github.com/{url}"), "ref": {"branch": "main"}}})
}

fn config(color: &str) -> Change {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": "apps"}, "data": {"color": color}});
    Change::write("deploy/web.yaml", object.to_string())
}

/// Returns a generator of two artifacts: the files of an application, and a chart with other
/// values.
fn generator() -> Value {
    json!({"apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": "ArtifactGenerator",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {
            "commonMetadata": {"labels": {"team": "web"}, "annotations": {"note": "generated"}},
            "sources": [{"alias": "app", "kind": "GitRepository", "name": "app"},
                {"alias": "chart", "kind": "GitRepository", "name": "chart"}],
            "artifacts": [
                {"name": "web-app", "originRevision": "@app",
                    "copy": [{"from": "@app/**", "to": "@artifact/", "exclude": ["*.md"]}]},
                {"name": "web-chart", "revision": "@chart", "copy": [
                    {"from": "@chart/web/", "to": "@artifact/"},
                    {"from": "@chart/prod.yaml", "to": "@artifact/web/values.yaml", "strategy": "Merge"}]}]}})
}

fn kustomization() -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"interval": "1h", "path": "./deploy", "prune": true,
            "sourceRef": {"kind": "ExternalArtifact", "name": "web-app"}}})
}

fn release() -> Value {
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"interval": "1h", "targetNamespace": "apps", "releaseName": "web",
            "chartRef": {"kind": "ExternalArtifact", "name": "web-chart"}}})
}

fn only(source: Value, from: &str) -> Value {
    json!({"spec": {"sources": [source],
        "artifacts": [{"name": "web-app", "copy": [{"from": from, "to": "@artifact/"}]}]}})
}

fn app() -> Value {
    json!({"alias": "app", "kind": "GitRepository", "name": "app"})
}

#[test]
fn two_repositories_become_artifacts_that_are_applied() {
    let world = World::start();
    for object in [generator(), kustomization(), release()] {
        world.create(&object);
    }
    world.sweep();
    world.sweep();
    world.assert_ready("ArtifactGenerator");
    world.assert_ready("Kustomization");
    world.assert_ready("HelmRelease");
    assert_eq!(world.data("web"), json!({"color": "green"}));
    assert_eq!(
        world.data("web-chart"),
        json!({"color": "blue", "size": "small"})
    );

    let generator = world.generator();
    let status = &generator["status"];
    let (_, reason, message) = world.ready("ArtifactGenerator");
    assert_eq!(reason, "Succeeded");
    assert_eq!(message, "reconciliation succeeded, generated 2 artifact(s)");
    assert_eq!(
        generator["metadata"]["finalizers"],
        json!(["source.extensions.fluxcd.io/finalizer"])
    );
    let inventory = status["inventory"].as_array().unwrap();
    assert_eq!(inventory.len(), 2, "{status}");
    let app = world.artifact("web-app").unwrap();
    let digest = app["status"]["artifact"]["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(inventory[0]["digest"], digest.as_str());
    assert_eq!(
        app["status"]["artifact"]["revision"],
        format!("latest@{digest}")
    );
    let source = |name: &str| {
        world.hub().get(&path("GitRepository", SPACE, name))["status"]["artifact"].clone()
    };
    assert_eq!(
        app["status"]["artifact"]["metadata"],
        json!({"org.opencontainers.image.revision": source("app")["revision"]})
    );
    let labels = json!({"app.kubernetes.io/managed-by": "source-watcher", "team": "web",
        "source.extensions.fluxcd.io/generator": generator["metadata"]["uid"]});
    assert_eq!(app["metadata"]["labels"], labels);
    assert_eq!(app["metadata"]["annotations"], json!({"note": "generated"}));
    assert_eq!(
        app["spec"]["sourceRef"],
        json!({"apiVersion": "source.extensions.fluxcd.io/v1beta1",
        "kind": "ArtifactGenerator", "name": "web", "namespace": SPACE})
    );
    let chart = world.artifact("web-chart").unwrap();
    assert_eq!(
        chart["status"]["artifact"]["revision"],
        source("chart")["revision"]
    );

    // A change of one source changes only its artifact, and queues only what uses it.
    let before = world.artifact("web-chart");
    drop(world.steps());
    world.site.push(APP, &[config("yellow")]);
    world.site.settle();
    assert_eq!(world.data("web"), json!({"color": "yellow"}));
    assert_ne!(world.digest("web-app"), digest.as_str());
    assert_eq!(world.artifact("web-chart"), before);
    assert_eq!(world.steps()("HelmRelease"), 0);
    // A file that no artifact contains changes no artifact.
    let digest = world.digest("web-app");
    world
        .site
        .push(APP, &[Change::write("README.md", "read this\n")]);
    world.site.settle();
    assert_eq!(world.digest("web-app"), digest);
    // The revision of its origin is a part of the status.
    assert_eq!(
        world.artifact("web-app").unwrap()["status"]["artifact"]["metadata"],
        json!({"org.opencontainers.image.revision": source("app")["revision"]})
    );
    assert!(world.steps()("Kustomization") <= 1);
    // Nothing is written while nothing changes.
    let versions = || ["web-app", "web-chart"].map(|name| world.artifact(name));
    let before = (world.generator(), versions());
    world.sweep();
    world.sweep();
    assert_eq!((world.generator(), versions()), before);
}

#[test]
fn artifacts_that_left_the_spec_are_deleted() {
    let world = World::start();
    world.create(&generator());
    world.sweep();
    world.sweep();
    assert!(world.artifact("web-chart").is_some());
    let spec = only(app(), "@app/deploy/");
    world.change("ArtifactGenerator", "web", &spec);
    world.sweep();
    assert!(world.artifact("web-chart").is_none());
    assert!(world.artifact("web-app").is_some());
    assert_eq!(
        world.generator()["status"]["inventory"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // An object that a user deletes is made again.
    world
        .hub()
        .delete(&path("ExternalArtifact", SPACE, "web-app"));
    world
        .site
        .request_by("hub", "ArtifactGenerator", (SPACE, "web"), Cause::Changed);
    world.site.settle();
    assert!(world.artifact("web-app").is_some());
    // So is a status that a user changes.
    let place = format!("{}/status", path("ExternalArtifact", SPACE, "web-app"));
    let digest = world.digest("web-app");
    let other = format!("sha256:{}", "0".repeat(64));
    world
        .hub()
        .patch(&place, &json!({"status": {"artifact": {"digest": other}}}));
    world
        .site
        .request_by("hub", "ArtifactGenerator", (SPACE, "web"), Cause::Changed);
    world.site.settle();
    assert_eq!(world.digest("web-app"), digest);
    // The deletion of the generator deletes its artifacts, and no others.
    world.create(
        &json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact",
        "metadata": {"name": "other", "namespace": SPACE}, "spec": {}}),
    );
    world.hub().delete(&path("ArtifactGenerator", SPACE, "web"));
    world.sweep();
    assert!(
        world
            .hub()
            .find(&path("ArtifactGenerator", SPACE, "web"))
            .is_none()
    );
    assert!(world.artifact("web-app").is_none());
    assert!(world.artifact("other").is_some());
}

#[test]
fn a_suspended_generator_makes_nothing() {
    let world = World::start();
    let mut generator = generator();
    generator["metadata"]["annotations"] =
        json!({"source.extensions.fluxcd.io/reconcile": "Disabled"});
    world.create(&generator);
    world.sweep();
    world.sweep();
    assert!(world.artifact("web-app").is_none());
    let change =
        json!({"metadata": {"annotations": {"source.extensions.fluxcd.io/reconcile": null}}});
    world.change("ArtifactGenerator", "web", &change);
    world.sweep();
    world.sweep();
    world.assert_ready("ArtifactGenerator");
    let digest = world.digest("web-app");
    let change =
        json!({"metadata": {"annotations": {"source.extensions.fluxcd.io/reconcile": "disabled"}}});
    world.change("ArtifactGenerator", "web", &change);
    world.site.push(APP, &[config("yellow")]);
    world.sweep();
    assert_eq!(world.digest("web-app"), digest);
}

#[test]
fn generators_that_are_not_valid_say_so() {
    let world = World::start();
    let mut waiting = generator();
    waiting["spec"]["sources"][0]["name"] = "none".into();
    world.create(&waiting);
    world.sweep();
    world.sweep();
    world.assert_failed(
        "SourceFetchFailed",
        "get sources failed: GitRepository.source.toolkit.fluxcd.io \"none\" not found",
    );
    let change = |patch: Value| {
        world.change("ArtifactGenerator", "web", &patch);
        world.sweep();
    };
    let copy = |from: &str| only(app(), from);
    change(copy("@app/none/*"));
    world.assert_failed("BuildFailed", "web-app build failed: failed to apply copy operations: failed to apply copy operation from \
        '@app/none/*' to '@artifact/': no files match pattern 'none/*' in source 'app'");
    change(copy("@app/../../etc/passwd"));
    world.assert_failed("BuildFailed", "path escapes from parent");
    change(copy("@other/x"));
    world.assert_failed("BuildFailed", "source alias 'other' not found");
    change(json!({"spec": {"sources": [app(), app()]}}));
    world.assert_failed("ValidationFailed", "duplicate source alias 'app' found");
    let artifact = |fields: Value| {
        let mut artifact = json!({"name": "a", "copy": [{"from": "@app/", "to": "@artifact/"}]});
        artifact
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        artifact
    };
    let artifacts =
        |artifacts: Value| json!({"spec": {"sources": [app()], "artifacts": artifacts}});
    change(artifacts(json!([artifact(json!({})), artifact(json!({}))])));
    world.assert_failed("ValidationFailed", "duplicate artifact name 'a' found");
    change(artifacts(json!([artifact(json!({"revision": "@x"}))])));
    world.assert_failed(
        "ValidationFailed",
        "artifact a revision source alias 'x' not found",
    );
    change(artifacts(json!([artifact(json!({"namespace": "apps"}))])));
    world.assert_failed("AccessDenied", "set spec.serviceAccountName");
    change(json!({"spec": {"managedNamespaces": {"allowedNames": ["true"], "prune": false}}}));
    world.assert_failed("NotSupported", "spec.managedNamespaces is not supported");
    change(
        json!({"spec": {"managedNamespaces": null, "artifacts": [artifact(json!({"name": "web-app"}))]}}),
    );
    world.assert_ready("ArtifactGenerator");
    let own = json!({"alias": "app", "kind": "ExternalArtifact", "name": "web-app"});
    change(json!({"spec": {"sources": [own]}}));
    world.assert_failed(
        "ValidationFailed",
        "is the artifact 'web-app' of this generator",
    );
    world
        .site
        .change("hub", |settings| settings.no_cross_namespace_refs = true);
    let mut foreign = app();
    foreign["namespace"] = "apps".into();
    change(json!({"spec": {"sources": [foreign]}}));
    world.assert_failed(
        "AccessDenied",
        "cross-namespace reference to source GitRepository/apps/app is not allowed",
    );
}

#[test]
fn a_path_pattern_and_exported_inputs() {
    let world = World::start();
    let files = [
        Change::write("apps/One/dev/inputs.yaml", "size: 1\n"),
        Change::write("apps/two/dev/inputs.yaml", "size: 2\nlist: [a]\n"),
    ];
    world.site.commit(APP, &files);
    let mut all = generator();
    all["spec"] = json!({"sources": [app()], "pathPattern": "@app/apps/{app}/{env}", "artifacts": [{"name": "{app}-{env}",
        "inputsFrom": "@app/apps/{app}/{env}/inputs.yaml",
        "copy": [{"from": "@app/apps/{app}/{env}/**", "to": "@artifact/"}]}]});
    world.create(&all);
    world.sweep();
    world.sweep();
    world.assert_ready("ArtifactGenerator");
    let one = world.artifact("one-dev").unwrap();
    assert_eq!(one["metadata"]["labels"]["app"], "one");
    assert_eq!(one["metadata"]["labels"]["env"], "dev");
    assert_eq!(one["status"]["exportedInputs"], json!({"size": 1}));
    let two = world.artifact("two-dev").unwrap();
    assert_eq!(
        two["status"]["exportedInputs"],
        json!({"size": 2, "list": ["a"]})
    );
    // A directory that is gone takes its artifact with it.
    world
        .site
        .push(APP, &[Change::remove("apps/two/dev/inputs.yaml")]);
    world.sweep();
    assert!(world.artifact("two-dev").is_none());
    assert!(world.artifact("one-dev").is_some());
}

/// The administrator of a namespace can write any status: it must not give access to an artifact
/// that another object stored.
#[test]
fn a_forged_status_reads_nothing() {
    let world = World::applied();
    let secret = world.artifact("web-app").unwrap()["status"]["artifact"].clone();
    let space = "team";
    world.site.cluster("hub").namespace(space);
    let forged = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact",
        "metadata": {"name": "web-app", "namespace": space},
        "spec": {"sourceRef": {"apiVersion": "source.extensions.fluxcd.io/v1beta1",
            "kind": "ArtifactGenerator", "name": "web", "namespace": SPACE}}});
    world.create(&forged);
    let place = format!("{}/status", path("ExternalArtifact", space, "web-app"));
    world
        .hub()
        .patch(&place, &json!({"status": {"artifact": secret}}));
    let mut thief = kustomization();
    thief["metadata"]["namespace"] = space.into();
    thief["spec"]["sourceRef"]["namespace"] = space.into();
    world.create(&thief);
    // Nor does a generator get it, from an ExternalArtifact or a GitRepository with this status.
    let mut copier = generator();
    copier["metadata"]["namespace"] = space.into();
    copier["spec"] = only(
        json!({"alias": "app", "kind": "ExternalArtifact", "name": "web-app"}),
        "@app/",
    )["spec"]
        .clone();
    copier["spec"]["artifacts"][0]["name"] = "stolen".into();
    world.create(&copier);
    for _ in 0..4 {
        world.sweep();
    }
    let (status, reason, message) = ready(world.hub(), "Kustomization", space, "web");
    assert_eq!(
        (&*status, &*reason),
        ("False", "ArtifactFailed"),
        "{message}"
    );
    assert!(
        message.contains("expected an address with https://"),
        "{message}"
    );
    let (status, reason, message) = ready(world.hub(), "ArtifactGenerator", space, "web");
    assert_eq!(
        (&*status, &*reason),
        ("False", "SourceFetchFailed"),
        "{message}"
    );
    assert!(
        world
            .hub()
            .find(&path("ExternalArtifact", space, "stolen"))
            .is_none()
    );
}

#[test]
fn another_namespace_needs_a_service_account_with_rights() {
    let world = World::start();
    let mut foreign = generator();
    foreign["spec"]["serviceAccountName"] = "maker".into();
    foreign["spec"]["artifacts"][0]["namespace"] = "apps".into();
    world.create(&foreign);
    world.sweep();
    world.sweep();
    world.assert_failed("AccessDenied", "system:serviceaccount:flux-system:maker");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let group = "rbac.authorization.k8s.io";
    for namespace in ["apps", SPACE] {
        world.hub().create(
            &format!("{rbac}/namespaces/{namespace}/roles"),
            &json!({"apiVersion": format!("{group}/v1"), "kind": "Role",
                "metadata": {"name": "maker", "namespace": namespace},
                "rules": [{"apiGroups": ["source.toolkit.fluxcd.io"], "resources": ["externalartifacts"],
                    "verbs": ["get", "create", "patch", "delete"]}]}),
        );
        world.hub().create(
            &format!("{rbac}/namespaces/{namespace}/rolebindings"),
            &json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
                "metadata": {"name": "maker", "namespace": namespace},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "maker"},
                "subjects": [{"kind": "ServiceAccount", "name": "maker", "namespace": SPACE}]}),
        );
    }
    for _ in 0..12 {
        world.sweep();
    }
    world.assert_ready("ArtifactGenerator");
    let place = path("ExternalArtifact", "apps", "web-app");
    assert!(world.hub().find(&place).is_some());
    let mut reader = kustomization();
    reader["spec"]["sourceRef"]["namespace"] = "apps".into();
    world.create(&reader);
    world.sweep();
    world.assert_ready("Kustomization");
    assert_eq!(world.data("web"), json!({"color": "green"}));
    world.hub().delete(&path("ArtifactGenerator", SPACE, "web"));
    world.sweep();
    assert!(world.hub().find(&place).is_none());
    assert!(world.artifact("web-chart").is_none());
}

/// A tenant who writes a label must not make the generator of another one delete an object, or
/// fail.
#[test]
fn a_forged_label_changes_nothing() {
    let world = World::start();
    world.create(&generator());
    world.sweep();
    world.sweep();
    world.assert_ready("ArtifactGenerator");
    world.site.cluster("hub").namespace("team");
    let uid = world.generator()["metadata"]["uid"].clone();
    let labels = json!({"source.extensions.fluxcd.io/generator": uid});
    world.create(
        &json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact",
        "metadata": {"name": "mine", "namespace": "team", "labels": labels}, "spec": {}}),
    );
    world.site.push(APP, &[config("yellow")]);
    world.sweep();
    world.assert_ready("ArtifactGenerator");
    let before = world.generator();
    world.sweep();
    assert_eq!(world.generator(), before);
    world.hub().delete(&path("ArtifactGenerator", SPACE, "web"));
    world.sweep();
    assert!(
        world
            .hub()
            .find(&path("ArtifactGenerator", SPACE, "web"))
            .is_none()
    );
    assert!(
        world
            .hub()
            .find(&path("ExternalArtifact", "team", "mine"))
            .is_some()
    );
}

#[test]
fn an_artifact_that_is_lost_is_made_again() {
    let world = World::applied();
    world.site.lose("artifacts/");
    world.site.push(APP, &[config("yellow")]);
    for _ in 0..4 {
        world.sweep();
    }
    assert_eq!(world.data("web"), json!({"color": "yellow"}));
    // Without the records too: the sources and the generator store everything again.
    world.site.lose("artifacts/");
    world.site.lose("objects/");
    world.site.push(APP, &[config("purple")]);
    for _ in 0..4 {
        world.sweep();
    }
    assert_eq!(world.data("web"), json!({"color": "purple"}));
}
