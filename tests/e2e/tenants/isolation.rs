//! A tenant reads nothing that only another tenant's credentials read: chart repositories,
//! registries, buckets, and what their downloads leave in the caches.

use super::*;
use driftless_harness::charts::{Host, Validators};
use driftless_harness::http::Http;
use driftless_kernel::ports::Cause;
use driftless_manifest::FileTree;
use driftless_memory::MemoryBuckets;
use driftless_source::archive;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const BUCKET_HOST: &str = "s3.acme.example";
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// The kinds of sources that have credentials, except GitRepositories (`sources.rs`).
const KINDS: [&str; 3] = ["HelmRepository", "OCIRepository", "Bucket"];

/// A hub with two tenants. `team-b` has private sources of each kind; the Secret `team-b/login` has
/// the login of all of them. `team-a` has public sources.
struct Tenants {
    world: Embedded,
    private: Host,
    public: Host,
}

impl Tenants {
    fn start() -> Self {
        let buckets = MemoryBuckets::default();
        let world = start(&[]).with_buckets(Arc::new(buckets.clone()));
        world.allow_local("hub");
        let hosts = [("private", "secret"), ("public", "known")].map(|(bucket, name)| {
            let host = Host::start();
            host.set_validators(Validators::Etag);
            publish(&host, &chart(name));
            push(&host, &chart(name));
            buckets.create(bucket);
            buckets.put(bucket, "a.yaml", config(name));
            host
        });
        let [private, public] = hosts;
        private.require("b", "pw-b");
        buckets.require("private", "b", "pw-b");
        world
            .cluster("hub")
            .secret("team-b", "login", &login("pw-b"));
        let tenants = Self {
            world,
            private,
            public,
        };
        tenants.private.take_calls();
        tenants
    }

    fn hub(&self) -> &dyn Node {
        self.world.cluster("hub")
    }

    /// Returns the spec of a source of a kind: the private or the public one.
    fn spec(&self, kind: &str, which: &str, secret: Option<&str>) -> Value {
        let host = match which {
            "private" => &self.private,
            _ => &self.public,
        };
        let mut spec = match kind {
            "HelmRepository" => json!({"url": format!("{}/stable", host.url())}),
            "OCIRepository" => json!({"url": format!("oci://{}/charts/app", host.name()),
                "ref": {"tag": "1.0.0"}, "insecure": true,
                "layerSelector": {"mediaType": CHART_LAYER, "operation": "extract"}}),
            _ => json!({"endpoint": BUCKET_HOST, "bucketName": which}),
        };
        spec["interval"] = json!("10m");
        if let Some(name) = secret {
            spec["secretRef"] = json!({"name": name});
        }
        spec
    }

    /// Creates a source of a tenant, and reconciles it.
    fn create(&self, kind: &str, at: (&str, &str), which: &str, secret: Option<&str>) {
        create(
            &self.world,
            kind,
            at.0,
            at.1,
            self.spec(kind, which, secret),
        );
    }

    fn artifact(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let object = self.hub().get(&path(kind, namespace, name));
        object["status"]["artifact"].clone()
    }

    /// Writes another tenant's artifact into the status of a source, as the administrator of a
    /// namespace can.
    fn forge(&self, kind: &str, name: &str, artifact: &Value) {
        let status = json!({"status": {"artifact": artifact}});
        let path = format!("{}/status", path(kind, "team-a", name));
        self.hub().patch(&path, &status);
    }

    #[track_caller]
    fn is_ready(&self, kind: &str, namespace: &str, name: &str) {
        is_true(&self.world, kind, namespace, name);
    }

    #[track_caller]
    fn is_refused(&self, kind: &str, namespace: &str, name: &str) -> String {
        let (status, reason, message) = condition(&self.world, kind, namespace, name);
        assert_eq!(
            status, "False",
            "{kind}/{namespace}/{name}: {reason}: {message}"
        );
        format!("{reason}: {message}")
    }

    fn has_config(&self, namespace: &str, name: &str) -> bool {
        self.hub()
            .find(&path("ConfigMap", namespace, name))
            .is_some()
    }
}

fn login(password: &str) -> Value {
    json!({"username": "b", "password": password, "accesskey": "b", "secretkey": password})
}

/// Returns the packed chart `app`, which applies a ConfigMap.
fn chart(config: &str) -> Vec<u8> {
    let template =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {config}\ndata: {{a: b}}\n");
    let tree = FileTree::from_files([
        (
            "app/Chart.yaml",
            "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        ),
        ("app/templates/config.yaml", template.as_str()),
    ]);
    archive::pack(&tree.expect("a chart")).expect("packed")
}

/// Serves a chart and its index below `/stable`.
fn publish(host: &Host, chart: &[u8]) {
    let digest = hex::encode(Sha256::digest(chart));
    let index = format!(
        "apiVersion: v1\nentries:\n  app:\n  - name: app\n    version: 1.0.0\n    urls: [app-1.0.0.tgz]\n    digest: {digest}\n"
    );
    host.put("/stable/index.yaml", index);
    host.put("/stable/app-1.0.0.tgz", chart);
}

/// Pushes a chart to the registry, as `charts/app:1.0.0`.
fn push(host: &Host, chart: &[u8]) {
    let (http, url) = (Http::plain(), format!("{}/v2/charts/app", host.url()));
    let send = |method: &str, path: &str, kind: &str, body: &[u8]| {
        let headers = [("content-type", kind)];
        let answer = http.send(method, &format!("{url}/{path}"), &headers, Some(body));
        let answer = answer.expect("an answer");
        assert!(answer.status < 300, "{}", answer.status);
        let place = answer.headers.get("location").map(|place| {
            let place = place.to_str().expect("text");
            place.trim_start_matches("/v2/charts/app/").to_owned()
        });
        place.unwrap_or_default()
    };
    let blob = |bytes: &[u8]| {
        let place = send("POST", "blobs/uploads/", "text/plain", b"");
        send("PUT", &place, "application/octet-stream", bytes);
        json!({"digest": format!("sha256:{}", hex::encode(Sha256::digest(bytes))), "size": bytes.len()})
    };
    let (mut config, mut layer) = (blob(b"{}"), blob(chart));
    config["mediaType"] = json!("application/vnd.cncf.helm.config.v1+json");
    layer["mediaType"] = json!(CHART_LAYER);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
    send(
        "PUT",
        "manifests/1.0.0",
        kind,
        manifest.to_string().as_bytes(),
    );
}

/// Another tenant's source is read neither without its Secret, nor by the name of that Secret, nor
/// by the digest of its content.
#[test]
fn tenant_isolation_of_credentials() {
    let tenants = Tenants::start();
    let hub = tenants.hub();
    hub.secret("team-a", "wrong", &login("guessed"));
    for kind in KINDS {
        tenants.create(kind, ("team-b", "own"), "private", Some("login"));
        tenants.is_ready(kind, "team-b", "own");
        tenants.create(kind, ("team-a", "public"), "public", None);
        tenants.is_ready(kind, "team-a", "public");
        for (name, secret) in [
            ("bare", None),
            ("wrong", Some("wrong")),
            ("foreign", Some("login")),
            ("path", Some("../../team-b/secrets/login")),
        ] {
            tenants.create(kind, ("team-a", name), "private", secret);
            tenants.is_refused(kind, "team-a", name);
            assert_eq!(tenants.artifact(kind, "team-a", name), Value::Null);
        }
        let mut spec = tenants.spec(kind, "private", Some("login"));
        spec["secretRef"]["namespace"] = json!("team-b");
        create(&tenants.world, kind, "team-a", "elsewhere", spec);
        tenants.is_refused(kind, "team-a", "elsewhere");
    }
    // A layer that the owner's chart downloaded from the registry.
    for (namespace, secret) in [("team-b", "login"), ("team-a", "wrong")] {
        let registry = format!("oci://{}/charts", tenants.private.name());
        let mut spec = json!({"type": "oci", "url": registry, "insecure": true, "interval": "10m"});
        spec["secretRef"] = json!({"name": secret});
        create(
            &tenants.world,
            "HelmRepository",
            namespace,
            "registry",
            spec,
        );
        let spec = json!({"chart": "app", "version": "1.0.0", "interval": "10m",
            "sourceRef": {"kind": "HelmRepository", "name": "registry"}});
        create(&tenants.world, "HelmChart", namespace, "registry", spec);
    }
    tenants.is_ready("HelmChart", "team-b", "registry");
    let refused = tenants.is_refused("HelmChart", "team-a", "registry");
    assert!(refused.contains("AuthenticationFailed"), "{refused}");
    // A digest is not a key.
    let mut spec = tenants.spec("OCIRepository", "private", None);
    let digest = tenants.private.digest("charts/app", "1.0.0");
    spec["ref"] = json!({"digest": digest});
    create(&tenants.world, "OCIRepository", "team-a", "digest", spec);
    tenants.is_refused("OCIRepository", "team-a", "digest");
    // The same credentials in another namespace have access.
    hub.secret("team-a", "given", &login("pw-b"));
    for kind in KINDS {
        tenants.create(kind, ("team-a", "given"), "private", Some("given"));
        tenants.is_ready(kind, "team-a", "given");
    }
}

/// The artifact of another tenant in the status of a source is not served to the objects that
/// follow the source, and the next step of the source replaces it.
#[test]
fn tenant_isolation_of_forged_artifacts() {
    let tenants = Tenants::start();
    for kind in KINDS {
        tenants.create(kind, ("team-b", "own"), "private", Some("login"));
        tenants.create(kind, ("team-a", "public"), "public", None);
        tenants.is_ready(kind, "team-a", "public");
    }
    for namespace in ["team-a", "team-b"] {
        let spec = json!({"chart": "app", "interval": "10m",
            "sourceRef": {"kind": "HelmRepository", "name": if namespace == "team-a" { "public" } else { "own" }}});
        create(&tenants.world, "HelmChart", namespace, "own", spec);
        tenants.is_ready("HelmChart", namespace, "own");
    }
    // The owner's own objects read the artifacts.
    let release = |kind: &str, name: &str| json!({"interval": "10m", "chartRef": {"kind": kind, "name": name}, "releaseName": format!("r-{}", kind.to_lowercase())});
    for (kind, name) in [("HelmChart", "own"), ("OCIRepository", "own")] {
        let at = kind.to_lowercase();
        create(
            &tenants.world,
            "HelmRelease",
            "team-b",
            &at,
            release(kind, name),
        );
        tenants.is_ready("HelmRelease", "team-b", &at);
        tenants.hub().delete(&path("HelmRelease", "team-b", &at));
        look(&tenants.world, "HelmRelease", "team-b", &at);
    }

    let thieves = [
        (
            "HelmRepository",
            "public",
            "HelmChart",
            json!({"chart": "app", "version": ">=1.0.0", "interval": "10m",
            "sourceRef": {"kind": "HelmRepository", "name": "public"}}),
        ),
        (
            "HelmChart",
            "own",
            "HelmRelease",
            release("HelmChart", "own"),
        ),
        (
            "OCIRepository",
            "public",
            "HelmRelease",
            release("OCIRepository", "public"),
        ),
        (
            "OCIRepository",
            "public",
            "Kustomization",
            json!({"interval": "10m", "path": "./app/templates", "prune": true,
            "targetNamespace": "team-a", "sourceRef": {"kind": "OCIRepository", "name": "public"}}),
        ),
        (
            "Bucket",
            "public",
            "Kustomization",
            json!({"interval": "10m", "path": "./", "prune": true,
            "targetNamespace": "team-a", "sourceRef": {"kind": "Bucket", "name": "public"}}),
        ),
    ];
    for (kind, name, follower, spec) in thieves {
        let real = tenants.artifact(kind, "team-a", name);
        let mut forged = tenants.artifact(kind, "team-b", "own");
        assert_ne!(forged["digest"], real["digest"], "{kind}");
        forged["revision"] = real["revision"].clone();
        let thief = format!("thief-of-{}", kind.to_lowercase());
        tenants.forge(kind, name, &forged);
        create(&tenants.world, follower, "team-a", &thief, spec);
        assert!(!tenants.has_config("team-a", "secret"), "{kind}");
        assert_ne!(
            tenants.artifact(follower, "team-a", &thief)["digest"],
            tenants.artifact("HelmChart", "team-b", "own")["digest"],
            "{kind}"
        );
        // The follower has requested a step of the source, which restored its own artifact.
        tenants.world.settle();
        let now = tenants.artifact(kind, "team-a", name);
        assert_eq!(now["digest"], real["digest"], "{kind}");
        look(&tenants.world, follower, "team-a", &thief);
        tenants.is_ready(follower, "team-a", &thief);
        // The step of the source itself does not keep a forged artifact either.
        tenants.forge(kind, name, &forged);
        look(&tenants.world, kind, "team-a", name);
        let now = tenants.artifact(kind, "team-a", name);
        assert_eq!(now["digest"], real["digest"], "{kind}");
        assert!(!tenants.has_config("team-a", "secret"), "{kind}");
        if follower != "HelmChart" {
            assert!(tenants.has_config("team-a", "known") || kind == "Bucket");
            tenants.hub().delete(&path(follower, "team-a", &thief));
            look(&tenants.world, follower, "team-a", &thief);
        }
    }
}

/// No object reads a source of another namespace if the hub has `noCrossNamespaceRefs`.
#[test]
fn tenant_isolation_of_references() {
    let tenants = Tenants::start();
    for kind in KINDS {
        tenants.create(kind, ("team-b", "own"), "private", Some("login"));
    }
    let spec = json!({"chart": "app", "interval": "10m", "sourceRef": {"kind": "HelmRepository", "name": "own"}});
    create(&tenants.world, "HelmChart", "team-b", "own", spec);
    let chart = |namespace: &str| {
        json!({"interval": "10m", "chart": {"spec": {"chart": "app", "sourceRef":
            {"kind": "HelmRepository", "name": "own", "namespace": namespace}}}})
    };
    let of = |kind: &'static str| move |namespace: &str| json!({"interval": "10m", "chartRef": {"kind": kind, "name": "own", "namespace": namespace}});
    let files = |kind: &'static str, path: &'static str| {
        move |namespace: &str| {
            json!({"interval": "10m", "path": path, "prune": true, "targetNamespace": "team-a",
                "sourceRef": {"kind": kind, "name": "own", "namespace": namespace}})
        }
    };
    type Spec<'a> = (&'a str, &'a str, Box<dyn Fn(&str) -> Value>);
    let followers: [Spec<'_>; 5] = [
        ("HelmRelease", "chart", Box::new(chart)),
        ("HelmRelease", "ref", Box::new(of("HelmChart"))),
        ("HelmRelease", "layer", Box::new(of("OCIRepository"))),
        (
            "Kustomization",
            "layer",
            Box::new(files("OCIRepository", "./app/templates")),
        ),
        ("Kustomization", "bucket", Box::new(files("Bucket", "./"))),
    ];
    tenants.world.lock_down("hub");
    for (kind, name, spec) in &followers {
        create(&tenants.world, kind, "team-a", name, spec("team-b"));
        let refused = tenants.is_refused(kind, "team-a", name);
        assert!(refused.contains("cross-namespace"), "{refused}");
        assert!(!tenants.has_config("team-a", "secret"), "{kind}/{name}");
        tenants.hub().delete(&path(kind, "team-a", name));
        look(&tenants.world, kind, "team-a", name);
    }
    // A HelmChart names a source of the same namespace only.
    let mut spec = json!({"chart": "app", "interval": "10m", "sourceRef": {"kind": "HelmRepository", "name": "own"}});
    spec["sourceRef"]["namespace"] = json!("team-b");
    create(&tenants.world, "HelmChart", "team-a", "stranger", spec);
    let refused = tenants.is_refused("HelmChart", "team-a", "stranger");
    assert!(refused.contains("not found"), "{refused}");

    // The owner's objects, and without the lock those of others, read the same sources.
    for (kind, name, spec) in &followers {
        create(&tenants.world, kind, "team-b", name, spec("team-b"));
        tenants.is_ready(kind, "team-b", name);
        tenants.hub().delete(&path(kind, "team-b", name));
        look(&tenants.world, kind, "team-b", name);
    }
    let unlock = |settings: &mut driftless_kernel::hub::Settings| {
        settings.no_cross_namespace_refs = false;
    };
    tenants.world.change("hub", unlock);
    let (kind, name, spec) = &followers[3];
    create(&tenants.world, kind, "team-a", name, spec("team-b"));
    tenants.is_ready(kind, "team-a", name);
    assert!(tenants.has_config("team-a", "secret"));
}

/// A chart that was downloaded once is given to another chart of the same repository only if the
/// repository still serves it to the credentials of now.
#[test]
fn tenant_isolation_of_downloaded_charts() {
    let tenants = Tenants::start();
    let hub = tenants.hub();
    tenants.create(
        "HelmRepository",
        ("team-b", "own"),
        "private",
        Some("login"),
    );
    let chart = |name: &str| {
        let spec = json!({"chart": "app", "interval": "10m", "sourceRef": {"kind": "HelmRepository", "name": "own"}});
        create(&tenants.world, "HelmChart", "team-b", name, spec);
    };
    let statuses = || {
        let calls = tenants.private.take_calls().into_iter();
        calls
            .filter(|call| call.path.ends_with(".tgz"))
            .map(|call| call.status)
            .collect::<Vec<_>>()
    };
    chart("first");
    tenants.is_ready("HelmChart", "team-b", "first");
    assert_eq!(statuses(), [200]);
    // The same chart of the same credentials is not downloaded again.
    chart("second");
    tenants.is_ready("HelmChart", "team-b", "second");
    assert_eq!(statuses(), [304]);

    // The host has revoked the login, and the Secret has another one: the index in the bucket still
    // exists, and another chart of it is refused.
    tenants.private.require("b", "new");
    chart("revoked");
    tenants.is_refused("HelmChart", "team-b", "revoked");
    tenants.private.require("b", "pw-b");
    let secret = path("Secret", "team-b", "login");
    hub.patch(&secret, &json!({"stringData": login("other")}));
    chart("replaced");
    let refused = tenants.is_refused("HelmChart", "team-b", "replaced");
    assert!(refused.contains("AuthenticationFailed"), "{refused}");
    let refused = statuses();
    assert!(refused.len() >= 2, "{refused:?}");
    assert!(refused.iter().all(|status| *status == 401), "{refused:?}");

    hub.patch(&secret, &json!({"stringData": login("pw-b")}));
    for name in ["revoked", "replaced"] {
        look(&tenants.world, "HelmChart", "team-b", name);
        tenants.is_ready("HelmChart", "team-b", name);
    }
    assert_eq!(statuses(), [304, 304]);
}

/// A Kustomization does not learn whether another tenant's files are the same as its own: an
/// artifact that its source did not store is refused before its index is read.
#[test]
fn tenant_isolation_of_the_index() {
    let world = start(&[]);
    for repository in ["acme/own", "acme/guess"] {
        let files = [
            Change::write("base/a.yaml", config("a")),
            Change::write("name", repository),
        ];
        world.commit(repository, &files);
    }
    world.set_private("acme/own", &["ghp_team_b"]);
    let hub = world.cluster("hub");
    let login = json!({"username": "git", "password": "ghp_team_b"});
    hub.secret("team-b", "login", &login);
    let git = |repository: &str, secret: Value| {
        let mut spec = json!({"interval": "10m", "url": format!("https://github.com/{repository}"),
            "ref": {"branch": "main"}});
        spec["secretRef"] = secret;
        spec
    };
    let own = git("acme/own", json!({"name": "login"}));
    create(&world, "GitRepository", "team-b", "own", own);
    is_true(&world, "GitRepository", "team-b", "own");
    let guess = git("acme/guess", Value::Null);
    create(&world, "GitRepository", "team-a", "guess", guess);
    let mut spec = sync("./base");
    spec["sourceRef"] = json!({"kind": "GitRepository", "name": "guess"});
    create(&world, "Kustomization", "team-a", "guess", spec);
    is_true(&world, "Kustomization", "team-a", "guess");

    let of = |kind: &str, namespace: &str, name: &str| hub.get(&path(kind, namespace, name));
    let revision = || {
        let status = of("Kustomization", "team-a", "guess")["status"].clone();
        status["lastAppliedRevision"].clone()
    };
    let stored = revision();
    let forge = |artifact: &Value, forged: &str| {
        let mut artifact = artifact.clone();
        artifact["revision"] = json!(forged);
        let status = json!({"status": {"artifact": artifact}});
        hub.patch(
            &format!("{}/status", path("GitRepository", "team-a", "guess")),
            &status,
        );
        // A step that the source has queued does not read its status.
        for cause in [Cause::Source, Cause::Push] {
            world.request_by("hub", "Kustomization", ("team-a", "guess"), cause.clone());
            world.step();
            assert!(cause == Cause::Push || revision() == stored);
        }
    };
    // The source's own artifact: the files are the same, and only the revision moves.
    let real = of("GitRepository", "team-a", "guess")["status"]["artifact"].clone();
    forge(&real, "main@sha1:1");
    assert_eq!(revision(), json!("main@sha1:1"));
    is_true(&world, "Kustomization", "team-a", "guess");

    let stolen = of("GitRepository", "team-b", "own")["status"]["artifact"].clone();
    assert_ne!(stolen["digest"], real["digest"]);
    forge(&stolen, "main@sha1:2");
    assert_eq!(revision(), stored);
    let (status, reason, message) = condition(&world, "Kustomization", "team-a", "guess");
    assert_eq!(
        (&*status, &*reason),
        ("False", "ArtifactFailed"),
        "{message}"
    );
    // The source restores its own artifact, and the Kustomization follows it.
    world.settle();
    is_true(&world, "Kustomization", "team-a", "guess");
}
