//! Charts as sources, in this process: a repository and a registry on loopback that the real Helm
//! filled; the objects HelmRepository, HelmChart and OCIRepository are in the fleet's repository
//! and become artifacts.

use driftless_harness::charts::{self, Host, Validators};
use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use tempfile::TempDir;

const FLEET: &str = "acme/fleet";
pub const SPACE: &str = "flux-system";

pub struct Charts {
    pub site: Embedded,
    pub host: Host,
    pub directory: TempDir,
}

impl Charts {
    pub fn start() -> Self {
        let site = Embedded::start(&one_hub(FLEET), &[]);
        site.allow_local("hub");
        let charts = Self {
            site,
            host: Host::start(),
            directory: TempDir::new().expect("a directory"),
        };
        charts.host.set_validators(Validators::Etag);
        charts.hub().secret(
            SPACE,
            "login",
            &json!({"username": "ann", "password": "pw"}),
        );
        charts
    }

    pub fn hub(&self) -> &dyn Node {
        self.site.cluster("hub")
    }

    /// Packs a version of the chart `app` and publishes it in the repository.
    pub fn publish(&self, version: &str) {
        let files = [
            ("values.yaml", "replicas: 1\nname: app\n"),
            ("production.yaml", "replicas: 3\n"),
            ("templates/a.yaml", "replicas: {{ .Values.replicas }}\n"),
        ];
        charts::package(self.directory.path(), "app", version, &files);
        charts::index(self.directory.path(), &self.host, "/stable", "");
    }

    /// Commits objects to the fleet, and waits until everything has settled.
    pub fn push(&self, objects: &[Value]) {
        let files = objects
            .iter()
            .map(|object| Change::write(&file_of(object), object.to_string()));
        let changes: Vec<Change> = files.collect();
        self.commit(&changes);
    }

    /// Commits an object that the API server refuses, removes it again, and returns the message of
    /// the root Kustomization.
    pub fn refusal(&self, object: &Value) -> String {
        self.push(std::slice::from_ref(object));
        let (status, message, _) = self.status("Kustomization", "flux-system");
        assert_eq!(status, "False", "{object} was applied");
        self.commit(&[Change::remove(&file_of(object))]);
        message
    }

    fn commit(&self, changes: &[Change]) {
        self.site.commit(FLEET, changes);
        self.reconcile("GitRepository", "flux-system");
    }

    /// Reconciles an object and its dependents.
    pub fn reconcile(&self, kind: &str, name: &str) {
        self.site.request("hub", kind, SPACE, name);
        self.site.settle();
    }

    pub fn get(&self, kind: &str, name: &str) -> Value {
        self.hub().get(&path(kind, SPACE, name))
    }

    /// Returns the status and message of the condition Ready, and the artifact's revision.
    pub fn status(&self, kind: &str, name: &str) -> (String, String, String) {
        let (status, _, message) = ready(self.hub(), kind, SPACE, name);
        let revision = &self.get(kind, name)["status"]["artifact"]["revision"];
        (status, message, text(revision).to_owned())
    }

    /// Returns the paths, without queries, and statuses of the host's requests since the last call.
    pub fn requests(&self) -> Vec<(String, u16)> {
        let calls = self.host.take_calls().into_iter();
        calls
            .map(|call| {
                (
                    call.path.split('?').next().unwrap_or_default().to_owned(),
                    call.status,
                )
            })
            .collect()
    }
}

/// Returns the file of an object in the fleet's repository.
fn file_of(object: &Value) -> String {
    let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
    format!("clusters/hub/{}-{}.yaml", text(kind), text(name))
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn source(version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("source.toolkit.fluxcd.io/{version}"), "kind": kind,
        "metadata": {"name": name, "namespace": SPACE}, "spec": spec})
}

pub fn chart(name: &str, chart: &str, version: &str, from: (&str, &str)) -> Value {
    source(
        "v1",
        "HelmChart",
        name,
        json!({"chart": chart, "version": version, "interval": "10m", "sourceRef": {"kind": from.0, "name": from.1}}),
    )
}

pub fn ok(message: &str, revision: &str) -> (String, String, String) {
    ("True".to_owned(), message.to_owned(), revision.to_owned())
}

#[test]
fn charts_of_a_repository_embedded() {
    let world = Charts::start();
    world.publish("1.0.0");
    world.publish("1.1.0");
    world.host.require("ann", "pw");
    let url = format!("{}/stable", world.host.url());
    let repository = json!({"url": url, "secretRef": {"name": "login"}, "interval": "5m"});
    let mut merged = chart("merged", "app", "1.x", ("HelmRepository", "stable"));
    merged["spec"]["valuesFiles"] = json!(["values.yaml", "production.yaml"]);
    world.push(&[
        source("v1beta2", "HelmRepository", "stable", repository),
        chart("one", "app", "1.x", ("HelmRepository", "stable")),
        chart("two", "app", "*", ("HelmRepository", "stable")),
        chart("none", "app", "7.x", ("HelmRepository", "stable")),
        merged,
    ]);
    let index =
        text(&world.get("HelmRepository", "stable")["status"]["artifact"]["digest"]).to_owned();
    assert!(index.starts_with("sha256:"), "{index}");
    let current = world.status("HelmRepository", "stable");
    assert_eq!(
        current,
        ok(&format!("stored artifact: revision '{index}'"), &index)
    );
    let pulled = ok("pulled 'app' chart with version '1.1.0'", "1.1.0");
    for name in ["one", "two"] {
        assert_eq!(world.status("HelmChart", name), pulled);
        let status = &world.get("HelmChart", name)["status"];
        assert_eq!(status["observedSourceArtifactRevision"], json!(index));
        assert_eq!(status["observedChartName"], "app");
        assert_eq!(status["url"], status["artifact"]["url"]);
    }
    let message = "packaged 'app' chart with version '1.1.0+1' and merged values files [values.yaml production.yaml]";
    assert_eq!(world.status("HelmChart", "merged"), ok(message, "1.1.0+1"));
    let (status, reason, message) = ready(world.hub(), "HelmChart", SPACE, "none");
    assert_eq!((&*status, &*reason), ("False", "InvalidChartReference"));
    assert!(
        message.ends_with("no 'app' chart with version matching '7.x' found"),
        "{message}"
    );

    // One download of the index, and one of the archive for its three charts: the host confirms the
    // archive to the other two.
    let downloads = world.requests();
    let of = |path: &str| {
        let requested = downloads.iter();
        requested
            .filter(|(requested, status)| requested == path && *status == 200)
            .count()
    };
    assert_eq!(of("/stable/app-1.1.0.tgz"), 1, "{downloads:?}");
    assert_eq!(of("/stable/index.yaml"), 1, "{downloads:?}");

    // Nothing changed: one conditional request, and no write.
    let writes = world.hub().writes();
    world.reconcile("HelmRepository", "stable");
    assert_eq!(world.requests(), [("/stable/index.yaml".to_owned(), 304)]);
    assert_eq!(world.hub().writes(), writes);

    // The ranges that allow a new version select it, by one download.
    world.publish("1.2.0");
    world.reconcile("HelmRepository", "stable");
    assert_eq!(world.status("HelmChart", "one").2, "1.2.0");
    assert_eq!(world.status("HelmChart", "two").2, "1.2.0");
    assert_eq!(world.status("HelmChart", "merged").2, "1.2.0+1");
    let expected = [
        ("/stable/index.yaml".to_owned(), 200),
        ("/stable/app-1.2.0.tgz".to_owned(), 200),
        ("/stable/app-1.2.0.tgz".to_owned(), 304),
        ("/stable/app-1.2.0.tgz".to_owned(), 304),
    ];
    assert_eq!(world.requests(), expected);

    // An archive that does not match the index is refused, and the present chart stays.
    world.publish("1.3.0");
    world.host.put("/stable/app-1.3.0.tgz", b"another".to_vec());
    world.reconcile("HelmRepository", "stable");
    let (status, reason, message) = ready(world.hub(), "HelmChart", SPACE, "one");
    assert_eq!(
        (&*status, &*reason),
        ("False", "ChartPullError"),
        "{message}"
    );
    assert!(
        message.contains("does not have the SHA-256 digest"),
        "{message}"
    );
    assert_eq!(world.status("HelmChart", "one").2, "1.2.0");
}

#[test]
fn charts_of_a_registry_embedded() {
    let world = Charts::start();
    for version in ["1.0.0", "1.1.0"] {
        let files = [
            ("values.yaml", "a: 1\n"),
            ("templates/a.yaml", "a: {{ .Values.a }}\n"),
        ];
        let packed = charts::package(world.directory.path(), "app", version, &files);
        charts::push(world.directory.path(), &packed, &world.host, "team");
    }
    world.host.require("ann", "pw");
    let name = world.host.name();
    let login = json!({"name": "login"});
    world.push(&[
        source(
            "v1",
            "HelmRepository",
            "team",
            json!({"type": "oci", "url": format!("oci://{name}/team"), "insecure": true, "secretRef": login}),
        ),
        chart("app", "app", "^1.0", ("HelmRepository", "team")),
        source(
            "v1",
            "OCIRepository",
            "app",
            json!({"url": format!("oci://{name}/team/app"), "insecure": true, "secretRef": login, "interval": "5m",
                "ref": {"semver": "1.x"},
                "layerSelector": {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"}}),
        ),
    ]);
    let pulled = ok("pulled 'app' chart with version '1.1.0'", "1.1.0");
    assert_eq!(world.status("HelmChart", "app"), pulled);
    let (status, message, revision) = world.status("OCIRepository", "app");
    assert_eq!(
        (&*status, &*message),
        ("True", &*format!("stored artifact for digest '{revision}'"))
    );
    assert!(revision.starts_with("1.1.0@sha256:"), "{revision}");
    // The layer is the chart, so both have one artifact.
    let digest = |kind: &str| world.get(kind, "app")["status"]["artifact"]["digest"].clone();
    assert_eq!(digest("OCIRepository"), digest("HelmChart"));
    // A registry has no status, as in Flux.
    assert_eq!(
        world.get("HelmRepository", "team")["status"]["conditions"],
        Value::Null
    );
}

#[test]
fn charts_of_a_tree_embedded() {
    let world = Charts::start();
    world.publish("1.0.0");
    world.host.require("ann", "pw");
    let url = format!("{}/stable", world.host.url());
    let chart_yaml = format!(
        "apiVersion: v2\nname: web\nversion: 0.1.0\ndependencies:\n- {{name: app, version: 1.x, repository: \"{url}\"}}\n\
         - {{name: local, version: 0.x, repository: file://../local}}\n"
    );
    world.site.commit(
        FLEET,
        &[
            Change::write("charts/web/Chart.yaml", chart_yaml),
            Change::write("charts/web/values.yaml", "a: 1\n"),
            Change::write("charts/web/templates/a.yaml", "a: {{ .Values.a }}\n"),
            Change::write(
                "charts/local/Chart.yaml",
                "apiVersion: v2\nname: local\nversion: 0.2.0\n",
            ),
        ],
    );
    let repository = json!({"url": url, "secretRef": {"name": "login"}, "interval": "5m"});
    let mut web = chart("web", "./charts/web", "*", ("GitRepository", "flux-system"));
    web["spec"]["reconcileStrategy"] = json!("Revision");
    world.push(&[
        source("v1", "HelmRepository", "stable", repository),
        web,
        chart(
            "gone",
            "./charts/gone",
            "*",
            ("GitRepository", "flux-system"),
        ),
        chart("bucket", "web", "*", ("Bucket", "any")),
    ]);
    let sha = world.site.head(FLEET);
    let version = format!("0.1.0+{}", &sha[..12]);
    let message = format!("packaged 'web' chart with version '{version}'");
    assert_eq!(world.status("HelmChart", "web"), ok(&message, &version));
    let (_, reason, message) = ready(world.hub(), "HelmChart", SPACE, "gone");
    assert_eq!(reason, "InvalidChartReference", "{message}");
    let (_, reason, message) = ready(world.hub(), "HelmChart", SPACE, "bucket");
    assert_eq!(reason, "SourceUnavailable", "{message}");
    // With this strategy, another commit is another version.
    world.commit(&[Change::write("charts/web/values.yaml", "a: 2\n")]);
    let sha = world.site.head(FLEET);
    assert_eq!(
        world.status("HelmChart", "web").2,
        format!("0.1.0+{}", &sha[..12])
    );
}
