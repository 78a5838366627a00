//! An installation with one hub in this process, whose root repository is on the stub of GitHub.

use age::secrecy::ExposeSecret as _;
use async_trait::async_trait;
use driftless_adapters::git::{GitHub as GitHubAdapter, GitRouter, Hosts};
use driftless_adapters::offline::Offline;
use driftless_core::webhook::{self, Delivery, DeliveryLimits, DeliveryResult};
use driftless_fleet::{Options, World};
use driftless_flux::{FluxKind, GitReference, ObjectRef};
use driftless_harness::github::{Change, GitHub, PullRequest, Repository, sign};
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{
    Cause, PlanRequest, Ports, PullRequests, Request, Result, Secret, SecretStore,
};
use driftless_manifest::{FileTree, Object};
use driftless_memory::{MemoryQueue, TestClock};
use driftless_source::index;
use lambda_runtime::{Context, LambdaEvent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The address of the repository.
pub const URL: &str = "https://github.com/acme/fleet";
/// The values that nothing may contain: of the SOPS file, before and after a change, and of a
/// Secret of the hub.
pub const PASSWORDS: [&str; 3] = ["hunter22-first", "hunter22-second", "token-of-the-hub"];
/// The secret of the webhook.
const WEBHOOK: &str = "It's a Secret to Everybody";

const SYNC: &str = "apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: flux-system
  namespace: flux-system
spec:
  interval: 1m
  url: https://github.com/acme/fleet
  ref:
    branch: main
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: flux-system
  namespace: flux-system
spec:
  interval: 10m
  path: ./clusters/staging
  prune: true
  sourceRef:
    kind: GitRepository
    name: flux-system
";
/// The Kustomization of the applications.
pub const APPS: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: apps
  namespace: flux-system
spec:
  interval: 10m
  path: ./apps
  prune: true
  targetNamespace: default
  sourceRef:
    kind: GitRepository
    name: flux-system
  decryption:
    provider: sops
    secretRef:
      name: sops-age
  postBuild:
    substituteFrom:
    - kind: ConfigMap
      name: cluster
    - kind: Secret
      name: cluster-secrets
";

/// Returns a Deployment with a number of replicas.
pub fn deployment(replicas: usize) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: web}}
  template:
    metadata:
      labels: {{app: web}}
    spec:
      containers:
      - name: web
        image: example.com/web:1.0
"
    )
}

/// A port to secrets that records the names that are read.
pub struct RecordedSecrets {
    known: BTreeMap<String, Secret>,
    hubs: Arc<dyn SecretStore>,
    /// The names that were read so far.
    pub read: Mutex<Vec<String>>,
}

#[async_trait]
impl SecretStore for RecordedSecrets {
    async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        self.read.lock().expect("names").push(name.to_owned());
        match self.known.get(name) {
            Some(secret) => Ok(Some(secret.clone())),
            None => self.hubs.secret(name).await,
        }
    }
}

/// The login of the installation at the stub.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// A GitHub App.
    App,
    /// A token, which may not create check runs.
    Token,
}

/// An installation, with the stub of its Git host.
pub struct Site {
    /// The stub of GitHub.
    pub github: GitHub,
    /// The root repository.
    pub repository: Arc<Repository>,
    /// The ports of the functions.
    pub ports: Ports,
    /// The secrets, with the names that were read.
    pub secrets: Arc<RecordedSecrets>,
    /// The recipient of the key that the hub has.
    pub recipient: age::x25519::Recipient,
    queue: Arc<MemoryQueue>,
    runtime: Runtime,
    world: World,
}

/// The lines of the log of this process.
pub fn log() -> String {
    String::from_utf8_lossy(&lines().lock().expect("the log")).into_owned()
}

fn lines() -> &'static Arc<Mutex<Vec<u8>>> {
    static LINES: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let lines = Arc::<Mutex<Vec<u8>>>::default();
        let writer = lines.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
            .with_writer(move || Writer(writer.clone()))
            .init();
        lines
    })
}

struct Writer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the Secret `database` with this password, encrypted.
pub fn sealed(recipient: &age::x25519::Recipient, password: &str) -> String {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "database"},
        "stringData": {"password": password, "user": "admin"}});
    let mut count = 0_u8;
    let mut random = || {
        count += 1;
        let time = std::time::SystemTime::now();
        let time = time.duration_since(std::time::UNIX_EPOCH).expect("now");
        let mut bytes = [count; 32];
        bytes[..16].copy_from_slice(&time.as_nanos().to_be_bytes());
        Ok(bytes)
    };
    let data_key = random().expect("bytes");
    let armored = age::encrypt_and_armor(recipient, &data_key).expect("encrypt");
    let new = driftless_sops::NewFile {
        data_key: &data_key,
        age: &[(recipient.to_string(), armored)],
        nonce: &mut random,
        last_modified: "2026-11-21T12:40:20Z",
        encrypted_regex: "^(data|stringData)$",
    };
    driftless_sops::encrypt(&secret, new, "secret.yaml").expect("encrypt")
}

impl Site {
    /// Creates the installation, with a hub that knows the key and two objects with variables.
    pub fn new(login: Login) -> Self {
        lines();
        let identity = age::x25519::Identity::generate();
        let recipient = identity.to_public();
        let github = GitHub::start();
        // Nothing listens there: the tests take the bodies of the deliveries.
        github.add_webhook("http://127.0.0.1:9/", WEBHOOK);
        let repository = github.repository("acme/fleet");
        repository.set_private(true);
        let files = [
            (
                "clusters/staging/flux-system/gotk-sync.yaml",
                SYNC.to_owned(),
            ),
            ("clusters/staging/apps.yaml", APPS.to_owned()),
            ("apps/web.yaml", deployment(1)),
            ("apps/secret.yaml", sealed(&recipient, PASSWORDS[0])),
        ];
        let changes: Vec<Change> = files
            .iter()
            .map(|(path, text)| Change::write(path, text.as_bytes()))
            .collect();
        repository.commit("main", &changes, "The fleet");
        let tree = files.iter().map(|(path, text)| (*path, text.as_str()));
        let tree = FileTree::from_files(tree).expect("files");
        let runtime = Runtime::new().expect("a runtime");
        let key = identity.to_string().expose_secret().to_owned();
        let world = runtime.block_on(hub(tree, &key));
        let own = match login {
            Login::App => {
                let app = github.add_app(7, 70, &["acme/fleet"]);
                let app =
                    json!({"appId": app.id, "privateKey": app.private_key, "installationId": 70});
                ("github/app".to_owned(), Secret::new(app.to_string()))
            }
            Login::Token => {
                github.add_token("a-token", &["acme/fleet"]);
                ("github/token".to_owned(), Secret::new("a-token"))
            }
        };
        let webhook = (webhook::SECRET.to_owned(), Secret::new(WEBHOOK));
        let secrets = Arc::new(RecordedSecrets {
            known: BTreeMap::from([own, webhook]),
            hubs: world.ports.secrets.clone(),
            read: Mutex::default(),
        });
        let queue = Arc::<MemoryQueue>::default();
        queue.accept_plans();
        let hosts = Hosts::default().with("github.com", github.url());
        let git = GitHubAdapter::new(hosts, secrets.clone()).expect("an adapter");
        let ports = Ports {
            git: Arc::new(GitRouter::new().with(git)),
            secrets: secrets.clone(),
            queue: queue.clone(),
            ..world.ports.clone()
        };
        let settings = Settings {
            name: "staging".to_owned(),
            root_repository: Some(URL.to_owned()),
            ..Settings::default()
        };
        runtime.block_on(async {
            hub::register(&ports, &settings).await.expect("register");
            let source = ObjectRef::new(FluxKind::GitRepository, "flux-system", "flux-system");
            let reference = GitReference {
                branch: "main".to_owned(),
                ..GitReference::default()
            };
            let note = index::note(&ports, "staging", &source, URL, &reference);
            note.await.expect("a note");
        });
        Self {
            github,
            repository,
            ports,
            secrets,
            recipient,
            queue,
            runtime,
            world,
        }
    }

    /// Changes the directory of the hub's root.
    pub fn set_root_path(&self, path: &str) {
        let root = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "flux-system", "namespace": "flux-system"},
            "spec": {"interval": "10m", "path": format!("./{path}"), "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": "flux-system"}}});
        let root = Object::new(root).expect("an object");
        let given = self.world.give("staging", &root);
        self.runtime.block_on(given).expect("applied");
    }

    /// Applies an object to the hub.
    pub fn give(&self, yaml: &str) {
        let object = object(yaml);
        let given = self.world.give("staging", &object);
        self.runtime.block_on(given).expect("applied");
    }

    /// Runs a step of an object of the hub.
    pub fn step(&self, object: &ObjectRef) {
        let request = Request::new("staging", object.clone(), Cause::Changed);
        let step = driftless_core::step::run(&self.ports, &request, Duration::ZERO);
        self.runtime.block_on(step).expect("a step");
    }

    /// Commits files to a branch that begins at `main`.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)]) {
        if self.repository.resolve(branch).is_none() {
            let main = self.repository.resolve("main").expect("main");
            self.repository.reset(branch, &main);
        }
        let changes: Vec<Change> = files
            .iter()
            .map(|(path, text)| Change::write(path, text.as_bytes()))
            .collect();
        self.repository.commit(branch, &changes, "A change");
    }

    /// Passes the webhook of a pull request to the installation.
    pub fn deliver(&self, pull: &PullRequest) -> DeliveryResult {
        let body = pull.deliveries[0].body.as_bytes();
        let signature = sign(WEBHOOK, body);
        let header = |name: &str| match name {
            "x-github-event" => Some("pull_request"),
            "x-hub-signature-256" => Some(signature.as_str()),
            _ => None,
        };
        let limits = DeliveryLimits {
            max_body: 1 << 20,
            secret: |name| name.to_owned(),
        };
        let delivery = Delivery {
            header: &header,
            body,
        };
        let received = webhook::receive(&self.ports, &limits, delivery);
        self.runtime.block_on(received).expect("accepted")
    }

    /// Returns the plans that were requested.
    pub fn requests(&self) -> Vec<PlanRequest> {
        self.queue.take_plans()
    }

    /// Passes the webhook on, and runs the function for the plan that it requests.
    pub fn plan(&self, pull: &PullRequest) {
        assert!(matches!(self.deliver(pull), DeliveryResult::Planned(_)));
        for request in self.requests() {
            assert_eq!(self.run(&request, 1), 0, "{}", log());
        }
    }

    /// Runs the function for a message that is received for the `count`th time. Returns the number
    /// of messages that failed.
    pub fn run(&self, request: &PlanRequest, count: u32) -> usize {
        self.runtime.block_on(self.invoke(request, count))
    }

    /// Runs the function for two deliveries of one message at the same time.
    pub fn run_twice(&self, request: &PlanRequest) -> usize {
        let both = async {
            let (one, other) =
                futures::future::join(self.invoke(request, 1), self.invoke(request, 1)).await;
            one + other
        };
        self.runtime.block_on(both)
    }

    async fn invoke(&self, request: &PlanRequest, count: u32) -> usize {
        let body = serde_json::to_string(request).expect("JSON");
        let event = json!({"Records": [{"messageId": "1", "body": body, "receiptHandle": "r",
            "attributes": {"ApproximateReceiveCount": count.to_string()}, "messageAttributes": {}}]});
        let mut context = Context::default();
        let deadline = self.ports.clock.now() + Duration::from_secs(300);
        context.deadline = deadline.as_millis().try_into().expect("a time");
        let event = LambdaEvent::new(serde_json::from_value(event).expect("an event"), context);
        let hosts = Hosts::default().with("github.com", self.github.url());
        let pulls: Arc<dyn PullRequests> =
            Arc::new(GitHubAdapter::new(hosts, self.secrets.clone()).expect("an adapter"));
        let function = plan::Function::new(self.ports.clone(), pulls);
        let response = function.handle(event).await.expect("a response");
        response.batch_item_failures.len()
    }

    /// Opens a pull request of a branch to `main`.
    pub fn open(&self, branch: &str) -> PullRequest {
        let repository = &self.repository;
        self.github.open_pull_request(repository, branch, "main")
    }

    /// Opens a pull request of a branch to `main`. Returns the comment with its plan.
    pub fn comment_on(&self, branch: &str) -> String {
        let pull = self.open(branch);
        self.plan(&pull);
        self.comments(pull.number).remove(0)
    }

    /// Returns the texts of the comments of a pull request.
    pub fn comments(&self, number: u64) -> Vec<String> {
        let comments = self.github.comments(&self.repository, number);
        let text = |comment: &Value| comment["body"].as_str().expect("a string").to_owned();
        comments.iter().map(text).collect()
    }

    /// Returns everything that has left the process: requests, blobs and the log.
    pub fn everything(&self) -> String {
        let mut all = log();
        for call in self.github.calls() {
            all.push_str(&format!("{} {}\n", call.uri, call.body));
        }
        self.runtime.block_on(async {
            for entry in self.ports.blobs.list("").await.expect("a list") {
                let blob = self.ports.blobs.get(&entry.key).await.expect("a blob");
                let (bytes, _) = blob.expect("a blob");
                all.push_str(&format!(
                    "{}\n{}\n",
                    entry.key,
                    String::from_utf8_lossy(&bytes)
                ));
            }
        });
        all
    }

    /// Deletes the records of plans, as if the function was cut off before it wrote them.
    pub fn forget_plans(&self) {
        self.runtime.block_on(async {
            for entry in self.ports.blobs.list("plans/").await.expect("a list") {
                self.ports.blobs.delete(&entry.key).await.expect("deleted");
            }
        });
    }
}

/// Parses an object.
fn object(yaml: &str) -> Object {
    let documents = driftless_manifest::yaml::documents(
        yaml.as_bytes(),
        "object.yaml",
        driftless_manifest::yaml::Dialect::V2,
        &driftless_manifest::yaml::Limits::default(),
    );
    Object::new(documents.expect("YAML").remove(0)).expect("an object")
}

/// Starts the hub.
async fn hub(tree: FileTree, key: &str) -> World {
    let options = Options {
        url: Some(URL.to_owned()),
        paths: vec!["clusters/staging".to_owned()],
        ..Options::default()
    };
    let fleet = options.open_files(Path::new(""), tree).expect("a fleet");
    let (queue, clock) = (Arc::<MemoryQueue>::default(), Arc::<TestClock>::default());
    let world = World::start(
        &fleet,
        Arc::new(Offline),
        Arc::new(Offline),
        queue,
        clock,
        false,
    );
    let world = world.await.expect("a hub");
    let of = |kind: &str, name: &str, field: &str, data: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": "flux-system"}});
        object[field] = data;
        Object::new(object).expect("an object")
    };
    for object in [
        of(
            "Secret",
            "sops-age",
            "stringData",
            json!({"age.agekey": key}),
        ),
        of(
            "ConfigMap",
            "cluster",
            "data",
            json!({"REGION": "eu-west-7"}),
        ),
        of(
            "Secret",
            "cluster-secrets",
            "stringData",
            json!({"TOKEN": PASSWORDS[2]}),
        ),
        object(APPS),
    ] {
        world.give("staging", &object).await.expect("applied");
    }
    world
}
