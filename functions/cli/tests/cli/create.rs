//! `driftless create` on a hub. The acceptance tests compare the output of `--export` with Flux's
//! command line.

use crate::demo::Demo;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_adapters::cluster::KubeCluster;
use driftless_adapters::embedded::{Embedded, Listener};
use driftless_adapters::local::SystemClock;
use driftless_apiserver::User;
use driftless_core::bootstrap;
use driftless_harness::command::{Done, run_in};
use driftless_harness::tools;
use driftless_kernel::ports::{
    ApplyRequest, Cluster as _, ListRequest, Patch, PatchRequest, PortError,
};
use driftless_manifest::{Gvk, Object, yaml};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A fleet with directories that no Kustomization applies yet.
const FLEET: [(&str, &str); 3] = [
    (
        "clusters/demo/namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n",
    ),
    (
        "apps/good/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: web}\n",
    ),
    ("apps/bad/map.yaml", "kind: [\n"),
];

/// A served hub, and its kubeconfig.
struct Hub {
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    _demo: Demo,
}

impl Hub {
    fn start() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let fleet = home.path().join("fleet");
        for (name, text) in FLEET {
            let path = fleet.join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("make the directory");
            fs::write(path, text).expect("write");
        }
        let args = ["--fleet", text(&fleet), "--path", "clusters/demo"];
        let demo = Demo::start(home.path(), &args);
        demo.says("synced in");
        Self {
            kubeconfig: home.path().join("demo/kubeconfig"),
            home,
            _demo: demo,
        }
    }

    fn run(&self, line: &str) -> Done {
        let args: Vec<&str> = line.split(' ').collect();
        run_in(
            self.home.path(),
            &args,
            &[("KUBECONFIG", text(&self.kubeconfig))],
        )
    }

    /// Runs a command, which must succeed and print these lines in this order.
    fn says(&self, line: &str, words: &[&str]) {
        let done = self.run(line);
        assert_eq!(
            (done.code, done.out.as_str()),
            (0, ""),
            "{line}: {}",
            done.err
        );
        let mut rest = done.err.as_str();
        for word in words {
            let (_, after) = rest
                .split_once(word)
                .unwrap_or_else(|| panic!("{line}: no '{word}' in:\n{}", done.err));
            rest = after;
        }
    }

    fn get(&self, line: &str) -> Value {
        self.run(&format!("get {line} -o json")).json()
    }
}

/// Returns a path as a string.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn objects_are_applied_and_waited_for() {
    let hub = Hub::start();
    let good =
        "create kustomization good --source GitRepository/flux-system --path apps/good --prune";
    hub.says(
        good,
        &[
            "applying Kustomization",
            "Kustomization created",
            "waiting for Kustomization reconciliation",
            "Kustomization good is ready",
            "applied revision main@sha1:",
        ],
    );
    let found = hub.get("kustomization good");
    assert_eq!(found["spec"]["path"], "./apps/good", "{found}");
    assert_eq!(found["spec"]["interval"], "1m0s", "{found}");

    // The second time the object is updated, and no longer suspended.
    hub.run("suspend kustomization good").ok();
    let again = format!("{good} --interval 5m --label team=a");
    hub.says(
        &again,
        &["Kustomization updated", "Kustomization good is ready"],
    );
    let found = hub.get("kustomization good");
    assert_eq!(found["spec"]["interval"], "5m0s", "{found}");
    assert_ne!(found["spec"]["suspend"], true, "{found}");
    assert_eq!(found["metadata"]["labels"]["team"], "a", "{found}");

    // An object that is not ready in time is an error with the reason.
    let bad = hub.run("create ks bad --source flux-system --path apps/bad --timeout 3s");
    bad.refused(
        1,
        &[
            "Kustomization flux-system/bad: not ready in time",
            "map.yaml",
        ],
    );
    let absent = hub.run("create ks absent --source absent --timeout 2s");
    absent.refused(1, &["Kustomization flux-system/absent: not ready in time"]);
}

/// Returns a runtime with one thread, for servers in this process.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// An API server in this process.
pub struct Server {
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    cluster: KubeCluster,
    runtime: Runtime,
    _listener: Listener,
}

impl Server {
    pub fn start() -> Self {
        let runtime = runtime();
        let server = Embedded::new(Arc::new(SystemClock));
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let listener = runtime.block_on(server.serve(anywhere)).expect("listen");
        let home = tempfile::tempdir().expect("a home");
        let kubeconfig = home.path().join("kubeconfig");
        let admin = User::admin("admin");
        fs::write(&kubeconfig, listener.kubeconfig(admin.clone())).expect("write");
        let _inside = runtime.enter();
        let cluster = server.cluster(admin, "hub").expect("a client");
        Self {
            home,
            kubeconfig,
            cluster,
            _listener: listener,
            runtime,
        }
    }

    /// Installs the same as `driftless bootstrap`.
    pub fn install(&self) -> bootstrap::Report {
        let install = bootstrap::install(&self.cluster, &SystemClock);
        let report = self.runtime.block_on(install);
        report.expect("install the definitions")
    }

    pub fn run(&self, line: &str) -> Done {
        self.run_with(line, &[])
    }

    /// Runs a command as [`Server::run`] does, with more environment variables.
    pub fn run_with(&self, line: &str, more: &[(&str, &str)]) -> Done {
        let args: Vec<&str> = line.split(' ').collect();
        let variables = [&[("KUBECONFIG", text(&self.kubeconfig))], more].concat();
        run_in(self.home.path(), &args, &variables)
    }

    /// Returns the home of the commands.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the sorted names of all objects of a kind.
    pub fn names(&self, version: &str, kind: &str) -> Vec<String> {
        let found = self.runtime.block_on(async {
            let resource = self.cluster.resource(&Gvk::new(version, kind)).await?;
            let resource = resource.expect("the kind is served");
            self.cluster.list(&ListRequest::all(&resource)).await
        });
        let found = found.expect("ask the server");
        let mut names: Vec<_> = found
            .iter()
            .map(|object| object.name().to_owned())
            .collect();
        names.sort();
        names
    }

    pub fn get(&self, version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        let found = self.runtime.block_on(async {
            let resource = self.cluster.resource(&Gvk::new(version, kind)).await?;
            let resource = resource.expect("the kind is served");
            self.cluster.get(&resource, namespace, name).await
        });
        let found = found.expect("ask the server");
        let found = found.unwrap_or_else(|| panic!("no {kind} {namespace}/{name}"));
        found.into_value()
    }

    /// Applies an object with another field manager.
    pub fn apply(&self, object: Value) -> Result<Value, PortError> {
        let object = Object::new(object).expect("an object");
        let applied = self.runtime.block_on(async {
            let resource = self.cluster.resource(&object.gvk()).await?;
            let resource = resource.expect("the kind is served");
            let request = ApplyRequest {
                resource: &resource,
                object: &object,
                manager: "tester",
                force: true,
                dry_run: false,
            };
            self.cluster.apply(&request).await
        });
        applied.map(Object::into_value)
    }

    /// Returns the decoded values of a Secret.
    pub fn secret(&self, namespace: &str, name: &str) -> String {
        let mut found = self.get("v1", "Secret", namespace, name);
        let data = found["data"].as_object_mut().expect("data");
        for value in data.values_mut() {
            let bytes = STANDARD.decode(value.as_str().expect("a string"));
            *value = String::from_utf8(bytes.expect("base64"))
                .expect("UTF-8")
                .into();
        }
        found["data"].to_string()
    }
}

/// An SSH server that sends its key to every client.
pub struct SshServer {
    pub address: String,
}

impl SshServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("an address").to_string();
        let mut lists = [b"".as_slice(); 10];
        lists[0] = b"curve25519-sha256";
        let offer = packet(&[&[20], [0; 16].as_slice(), &strings(&lists), &[0; 5]].concat());
        let key = strings(&[b"ssh-ed25519", &[7; 32]]);
        let reply = packet(&[&[31], strings(&[&key]).as_slice()].concat());
        let all = [b"SSH-2.0-test\r\n", offer.as_slice(), &reply].concat();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                stream.write_all(&all).expect("answer");
                // Wait until the client closes the connection.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
        });
        Self { address }
    }
}

/// Returns strings, each after its length.
fn strings(all: &[&[u8]]) -> Vec<u8> {
    let length = |text: &[u8]| u32::try_from(text.len()).expect("short").to_be_bytes();
    let all = all.iter();
    all.flat_map(|text| [length(text).as_slice(), text].concat())
        .collect()
}

/// Returns an unencrypted packet of SSH, with at least four bytes of padding.
fn packet(payload: &[u8]) -> Vec<u8> {
    let padding = 4 + (8 - (payload.len() + 9) % 8) % 8;
    let head = u8::try_from(padding).expect("short");
    strings(&[&[&[head], payload, &vec![0; padding]].concat()])
}

#[test]
fn a_kind_that_the_hub_does_not_serve_is_an_error() {
    let server = Server::start();
    let done = server.run("create source oci apps --url oci://ghcr.io/acme/apps --tag 1");
    let message = "the cluster does not serve source.toolkit.fluxcd.io/v1 OCIRepository";
    done.refused(1, &[message, "--export"]);
}

#[test]
fn decryption_keys_are_checked_and_exported() {
    let home = tempfile::tempdir().expect("a home");
    let keys = tools::tests().join("corpus/sops");
    let key = |name: &str| keys.join(name).to_str().expect("UTF-8").to_owned();
    let (age, pgp) = (key("one.agekey"), key("pgp-rsa.asc"));
    let sops = |args: &[&str]| {
        let args = [&["create", "secret", "sops", "keys", "--export"], args].concat();
        run_in(home.path(), &args, &[])
    };
    let done = sops(&[
        "--age-key-file",
        &age,
        "--pgp-key-file",
        &pgp,
        "-n",
        "team-a",
        "--label",
        "a=b",
    ]);
    assert!(
        done.err.contains("recipient for .sops.yaml: age1"),
        "{}",
        done.err
    );
    let identity = fs::read_to_string(&age).expect("read the key");
    let secret = identity
        .lines()
        .find(|line| line.starts_with("AGE-SECRET-KEY-1"));
    assert!(!done.err.contains(secret.expect("an identity")));
    let text = done.ok();
    let found = yaml::documents(
        text.as_bytes(),
        "export",
        yaml::Dialect::V2,
        &yaml::Limits::default(),
    );
    let found = found.expect("YAML");
    let found = &found[0];
    assert_eq!(found["metadata"]["namespace"], "team-a");
    assert_eq!(found["metadata"]["labels"]["a"], "b");
    assert_eq!(found["stringData"]["identity.agekey"], identity);
    assert_eq!(
        found["stringData"]["sops.asc"],
        fs::read_to_string(&pgp).expect("read the key")
    );
    let note = home.path().join("note");
    fs::write(&note, "# no identity\n").expect("write");
    let (note, locked) = (note.to_str().expect("UTF-8"), key("pgp-locked.asc"));
    for (args, code, words) in [
        (
            &[][..],
            2,
            &["a key file is required", "Next: add --age-key-file"],
        ),
        (
            &["--age-key-file", note],
            1,
            &["the file has no age identity", "age-keygen"],
        ),
        (&["--age-key-file", &pgp], 1, &["pgp-rsa.asc", "age-keygen"]),
        (
            &["--pgp-key-file", &age],
            1,
            &["one.agekey", "gpg --export-secret-keys"],
        ),
        (
            &["--pgp-key-file", &locked],
            1,
            &["passphrase", "gpg --export-secret-keys"],
        ),
        (
            &["--age-key-file", "absent"],
            2,
            &["absent does not exist", "Next:"],
        ),
    ] {
        sops(args).refused(code, words);
    }
}

#[test]
fn secrets_are_stored() {
    let server = Server::start();
    server.install();
    let login = "create secret git login --url https://git.test/a";
    let done = server.run(&format!("{login} --username me --password secret"));
    assert!(
        done.err
            .contains("git secret 'login' created in 'flux-system' namespace"),
        "{}",
        done.err
    );
    assert_eq!(done.ok(), "");
    assert_eq!(
        server.secret("flux-system", "login"),
        r#"{"password":"secret","username":"me"}"#
    );
    // Keys that the next command leaves out are removed.
    server.run(&format!("{login} --bearer-token token")).ok();
    assert_eq!(
        server.secret("flux-system", "login"),
        r#"{"bearerToken":"token"}"#
    );
    let registry = "create secret oci registry --url ghcr.io --username me --password secret";
    server.run(registry).ok();
    let found = server.get("v1", "Secret", "flux-system", "registry");
    assert_eq!(found["type"], "kubernetes.io/dockerconfigjson");
    // The type of a Secret is immutable.
    let other = server.run("create secret proxy registry --address http://proxy.test");
    other.refused(
        1,
        &[
            "Secret flux-system/registry: the type kubernetes.io/dockerconfigjson",
            "cannot be changed to Opaque",
        ],
    );
}

#[test]
fn logins_of_sources_are_stored_before_them() {
    let server = Server::start();
    server.install();
    let charts =
        "create source helm charts --url oci://ghcr.io/acme --username me --password secret";
    let done = server.run(charts);
    for words in [
        "applying secret with repository credentials",
        "authentication configured",
        "HelmRepository source created",
    ] {
        assert!(done.err.contains(words), "{}", done.err);
    }
    let version = "source.toolkit.fluxcd.io/v1";
    let found = server.get(version, "HelmRepository", "flux-system", "charts");
    assert_eq!(found["spec"]["secretRef"]["name"], "helm-charts", "{found}");
    assert_eq!(
        server.secret("flux-system", "helm-charts"),
        r#"{"password":"secret","username":"me"}"#
    );

    // This hub is not served: the objects exist, but never become ready.
    let host = SshServer::start();
    let fleet = format!(
        "create source git fleet --url ssh://git@{}/fleet --branch main --timeout 1s",
        host.address
    );
    let asked = server.run(&fleet);
    asked.refused(
        1,
        &["deploy key: ecdsa-sha2-nistp384 ", "aborted", "--silent"],
    );
    let silent = server.run(&format!("{fleet} --silent"));
    silent.refused(
        1,
        &[
            "authentication configured",
            "GitRepository source created",
            "GitRepository flux-system/fleet: not ready in time",
            "check that the hub is served",
        ],
    );
    let found = server.get(version, "GitRepository", "flux-system", "fleet");
    assert_eq!(found["spec"]["secretRef"]["name"], "fleet", "{found}");
    let secret = server.secret("flux-system", "fleet");
    for words in [
        "-----BEGIN PRIVATE KEY-----",
        "ecdsa-sha2-nistp384 ",
        "[127.0.0.1]:",
    ] {
        assert!(secret.contains(words), "{secret}");
    }

    let bucket = "create source bucket apps --bucket-name apps --endpoint s3.test --timeout 1s";
    for (flags, words) in [
        ("--access-key a", "--access-key and --secret-key"),
        (
            "--access-key a --secret-key b --secret-ref c",
            "--secret-ref",
        ),
    ] {
        let done = server.run(&format!("{bucket} {flags}"));
        done.refused(2, &[words]);
    }
    server
        .run(&format!("{bucket} --access-key a --secret-key b"))
        .refused(1, &["Bucket flux-system/apps: not ready in time"]);
    assert_eq!(
        server.secret("flux-system", "bucket-apps"),
        r#"{"accesskey":"a","secretkey":"b"}"#
    );
}

#[test]
fn a_tenants_role_may_change() {
    let server = Server::start();
    let tenant = "create tenant dev --with-namespace dev-web,dev-data --cluster-role";
    for role in ["view", "edit"] {
        let done = server.run(&format!("{tenant} {role}"));
        for words in [
            "applying namespace dev-web",
            "applying service account dev",
            "applying role binding dev-reconciler",
            "applying namespace dev-data",
            "tenant setup completed",
        ] {
            assert!(done.err.contains(words), "{}", done.err);
        }
        for namespace in ["dev-web", "dev-data"] {
            let version = "rbac.authorization.k8s.io/v1";
            let binding = server.get(version, "RoleBinding", namespace, "dev-reconciler");
            assert_eq!(binding["roleRef"]["name"], role, "{binding}");
            let label = &binding["metadata"]["labels"]["toolkit.fluxcd.io/tenant"];
            assert_eq!(label, "dev", "{binding}");
            server.get("v1", "ServiceAccount", namespace, "dev");
        }
    }
}

#[test]
fn an_object_that_is_stalled_ends_the_wait() {
    let server = Server::start();
    server.install();
    let line = "create kustomization apps --source fleet --path ./apps --timeout 2m";
    let done = std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(line));
        let kind = Gvk::new("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
        let patch = Patch::Merge(json!({"status": {"observedGeneration": 1, "conditions": [
            condition("Stalled", "True"), condition("Ready", "False"),
        ]}}));
        server.runtime.block_on(async {
            let resource = server.cluster.resource(&kind).await.expect("ask");
            let resource = resource.expect("the kind is served");
            let mut left = 600;
            loop {
                let status = Some("status");
                let (namespace, name) = ("flux-system", "apps");
                let request = PatchRequest {
                    resource: &resource,
                    namespace,
                    name,
                    subresource: status,
                    patch: &patch,
                    manager: "test",
                };
                let patched = server.cluster.patch(&request);
                match patched.await {
                    Ok(_) => break,
                    Err(error) if left == 0 => panic!("{error}"),
                    Err(_) => left -= 1,
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        running.join().expect("the command")
    });
    done.refused(1, &["Kustomization flux-system/apps: the spec is wrong"]);
}

fn condition(of: &str, status: &str) -> Value {
    json!({"type": of, "status": status, "reason": "InvalidSpec", "message": "the spec is wrong",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}
