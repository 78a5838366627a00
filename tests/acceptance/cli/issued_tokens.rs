//! A remote cluster that trusts the hub's service accounts: no credentials are stored anywhere,
//! tokens open it (`spec.kubeConfig.configMapRef`).

use driftless_harness::cluster::{Cluster, Request};
use driftless_harness::github::{Change, GitHub};
use driftless_harness::serve::Serve;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use tempfile::TempDir;

const USER: &str = "hub:system:serviceaccount:apps:deployer";
const TENANT: &str = "system:serviceaccount:apps:tenant";

/// Objects that apply the files to the cluster that a ConfigMap names.
const OBJECTS: &str = r"
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: config, namespace: apps}
spec:
  interval: 1h
  path: ./config
  prune: true
  targetNamespace: default
  sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}
  kubeConfig: {configMapRef: {name: remote}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: tenant, namespace: apps}
spec:
  interval: 1h
  path: ./tenant
  prune: true
  serviceAccountName: tenant
  sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}
  kubeConfig: {configMapRef: {name: remote}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: apps}
spec:
  interval: 1h
  targetNamespace: default
  storageNamespace: default
  chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}
  kubeConfig: {configMapRef: {name: remote}}
";

/// Starts an Entra ID, in place of every cloud, that returns the service account's token as its
/// own. It ends with the test.
fn entra() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.expect("a connection"));
        }
    });
    url
}

fn answer(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a reader"));
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).expect("a request");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        let line = line.trim().to_ascii_lowercase();
        match line.strip_prefix("content-length:") {
            Some(value) => length = value.trim().parse().expect("a length"),
            None if line.is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let body = String::from_utf8(body).expect("UTF-8");
    let mut fields = body.split('&');
    let assertion = fields.find_map(|field| field.strip_prefix("client_assertion="));
    let is_right =
        first.starts_with("POST /login.microsoftonline.com/acme.example/oauth2/v2.0/token ");
    let (status, answer) = match assertion.filter(|_| is_right) {
        Some(token) => (200, json!({"access_token": token, "expires_in": 3599})),
        None => (404, json!({"error": "not_found"})),
    };
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream
        .write_all((head + &answer).as_bytes())
        .expect("answered");
}

fn config(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
}

fn files() -> Vec<Change> {
    let tenants = config("tenant").replace("{name: tenant}", "{name: tenant, namespace: default}");
    vec![
        Change::write("root/objects.yaml", OBJECTS),
        Change::write("config/config.yaml", config("app")),
        Change::write("tenant/config.yaml", tenants),
        Change::write(
            "chart/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        ),
        Change::write("chart/templates/config.yaml", config("{{ .Release.Name }}")),
    ]
}

/// A hub, a remote cluster that trusts it, and `driftless serve`.
struct World {
    hub: Cluster,
    remote: Cluster,
    serve: Serve,
    _github: GitHub,
    _home: TempDir,
}

impl World {
    fn start(environment: &[(&str, &str)]) -> Self {
        let hub = Cluster::start("issuing");
        let remote = Cluster::start_trusting("trusting", &hub);
        remote.make_admin(USER);
        hub.namespace("apps");
        let github = GitHub::start();
        github
            .repository("acme/fleet")
            .commit("main", &files(), "first");
        let home = tempfile::tempdir().expect("a home");
        let kubeconfig = home.path().join("config");
        std::fs::write(&kubeconfig, hub.kubeconfig()).expect("write the kubeconfig");
        let repository = format!("{}/acme/fleet", github.git_url());
        let arguments = [
            ["--kubeconfig", kubeconfig.to_str().expect("UTF-8")],
            ["--github-api", github.url()],
            ["--repository", &repository],
            ["--path", "root"],
        ];
        let serve = Serve::start(home.path(), &arguments.concat(), environment);
        Self {
            hub,
            remote,
            serve,
            _github: github,
            _home: home,
        }
    }

    fn object(&self, plural: &str, name: &str) -> Value {
        let group = match plural {
            "helmreleases" => "helm.toolkit.fluxcd.io/v2",
            _ => "kustomize.toolkit.fluxcd.io/v1",
        };
        let path = format!("/apis/{group}/namespaces/apps/{plural}/{name}");
        self.hub.api().find(&path).unwrap_or_default()
    }

    /// Waits until an object's condition Ready has this status and a message with this part.
    fn wait_for_ready(&self, plural: &str, name: &str, status: &str, message: &str) {
        self.serve
            .eventually(&format!("{plural}/{name}: {status}"), || {
                let object = self.object(plural, name);
                let all = object["status"]["conditions"].as_array().cloned();
                let all = all.unwrap_or_default();
                let ready = all.iter().find(|one| one["type"] == "Ready");
                let ready = ready.cloned().unwrap_or_default();
                let current = ready["message"].as_str().unwrap_or_default();
                match ready["status"] == status && current.contains(message) {
                    true => Ok(()),
                    false => Err(ready.to_string()),
                }
            });
    }

    /// Requests a reconciliation of an object.
    fn reconcile(&self, plural: &str, name: &str, when: &str) {
        let group = match plural {
            "helmreleases" => "helm.toolkit.fluxcd.io/v2",
            _ => "kustomize.toolkit.fluxcd.io/v1",
        };
        let path = format!("/apis/{group}/namespaces/apps/{plural}/{name}");
        let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": when}}});
        self.hub.api().patch(&path, &patch).expect("annotated");
    }

    fn tokens(&self) -> Vec<Request> {
        let mut all = self.hub.requests();
        all.retain(|one| one.resource == "serviceaccounts" && one.subresource == "token");
        all
    }

    fn config(&self, name: &str) -> Option<Value> {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        self.remote.api().find(&path)
    }
}

#[test]
fn a_cluster_that_trusts_the_hub_needs_no_kubeconfig() {
    let world = World::start(&[]);
    let missing = "failed to get configmap apps/remote: configmaps \"remote\" not found";
    world.wait_for_ready("kustomizations", "config", "False", missing);
    world.wait_for_ready("helmreleases", "web", "False", missing);

    let remote = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "remote"}, "data": {
        "provider": "generic", "address": world.remote.url(), "ca.crt": world.remote.ca(), "serviceAccountName": "deployer",
    }});
    let path = "/api/v1/namespaces/apps/configmaps/remote";
    world
        .hub
        .api()
        .apply(path, "platform-team", &remote)
        .expect("a ConfigMap");
    world.reconcile("kustomizations", "config", "1");
    let missing =
        "failed to get service account 'apps/deployer': ServiceAccount \"deployer\" not found";
    world.wait_for_ready("kustomizations", "config", "False", missing);
    assert_eq!(world.tokens(), []);

    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer"}});
    let path = "/api/v1/namespaces/apps/serviceaccounts/deployer";
    world
        .hub
        .api()
        .apply(path, "platform-team", &account)
        .expect("a ServiceAccount");
    world.reconcile("kustomizations", "config", "2");
    world.reconcile("helmreleases", "web", "2");
    world.wait_for_ready("kustomizations", "config", "True", "");
    world.wait_for_ready("helmreleases", "web", "True", "");
    assert!(world.config("app").is_some() && world.config("default-web").is_some());
    // The remote cluster sees the account as the user; one token serves all requests.
    let requests = world.remote.requests();
    let by_itself =
        |one: &&Request| one.resource == "configmaps" && one.is_write() && one.name != "tenant";
    let writes: Vec<_> = requests.iter().filter(by_itself).collect();
    let is_openers = |one: &&Request| one.user == USER && one.as_user.is_empty();
    assert!(
        writes.len() == 2 && writes.iter().all(is_openers),
        "{writes:#?}"
    );
    let tokens = world.tokens();
    assert_eq!((tokens.len(), tokens[0].code), (1, 201), "{tokens:#?}");

    // With impersonation, the permissions are those of the impersonated user.
    world.reconcile("kustomizations", "tenant", "2");
    world.wait_for_ready("kustomizations", "tenant", "False", TENANT);
    assert!(world.config("tenant").is_none());
    world.remote.make_admin(TENANT);
    world.reconcile("kustomizations", "tenant", "3");
    world.wait_for_ready("kustomizations", "tenant", "True", "");
    let requests = world.remote.requests();
    let mine = requests
        .iter()
        .filter(|one| one.as_user == TENANT && one.user == USER);
    assert!(mine.clone().count() > 0 && world.config("tenant").is_some());
    assert_eq!(world.tokens().len(), 1);

    // The token appears nowhere.
    let mut shown = world
        .hub
        .api()
        .list("/api/v1/namespaces/apps/events")
        .expect("events");
    shown.push(world.object("kustomizations", "config"));
    shown.push(world.object("helmreleases", "web"));
    assert!(
        shown.len() > 5 && !format!("{shown:?}").contains("eyJ"),
        "{shown:?}"
    );

    // Deletion prunes what was applied, with a token that is still valid.
    let path = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/apps/kustomizations/config";
    world.hub.api().patch("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/flux-system",
        &json!({"spec": {"suspend": true}})).expect("suspended");
    world.hub.api().delete(path).expect("deleted");
    world
        .serve
        .eventually("config goes", || match world.config("app") {
            None => Ok(()),
            Some(left) => Err(left.to_string()),
        });
    // Without the account, no token can be had: the object is deleted, what it applied stays.
    world
        .hub
        .api()
        .delete("/api/v1/namespaces/apps/serviceaccounts/deployer")
        .expect("deleted");
    let path = path.replace("/config", "/tenant");
    world.hub.api().delete(&path).expect("deleted");
    world
        .serve
        .eventually("tenant goes", || match world.hub.api().find(&path) {
            None => Ok(()),
            Some(left) => Err(left.to_string()),
        });
    assert!(world.config("tenant").is_some());
}

/// Checks a cloud's cluster through the whole program: the hub's token is exchanged for one that
/// the cluster accepts.
#[test]
fn a_cluster_of_a_cloud_needs_no_kubeconfig() {
    let entra = entra();
    let world = World::start(&[("DRIFTLESS_CLOUDS_ENDPOINT", &entra)]);
    world.wait_for_ready("kustomizations", "config", "False", "\"remote\" not found");
    let remote = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "remote"}, "data": {
        "provider": "azure", "address": world.remote.url(), "ca.crt": world.remote.ca(), "serviceAccountName": "deployer",
        "audiences": world.remote.url(),
    }});
    let apply = |path: &str, object: &Value| {
        let applied = world.hub.api().apply(path, "platform-team", object);
        applied.expect("applied");
    };
    apply("/api/v1/namespaces/apps/configmaps/remote", &remote);
    let account = |annotations: Value| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "deployer", "annotations": annotations}});
        apply("/api/v1/namespaces/apps/serviceaccounts/deployer", &account);
    };
    account(
        json!({"azure.workload.identity/tenant-id": "other.example", "azure.workload.identity/client-id": "c"}),
    );
    world.reconcile("kustomizations", "config", "1");
    let refused = "failed to get access token for cluster: failed to create provider access token for service account 'apps/deployer': \
                   'http://127.0.0.1:";
    world.wait_for_ready("kustomizations", "config", "False", refused);
    account(
        json!({"azure.workload.identity/tenant-id": "acme.example", "azure.workload.identity/client-id": "c"}),
    );
    world.reconcile("kustomizations", "config", "2");
    world.wait_for_ready("kustomizations", "config", "True", "");
    assert!(world.config("app").is_some());
    let shown = world.object("kustomizations", "config").to_string();
    assert!(!shown.contains("eyJ"), "{shown}");
}
