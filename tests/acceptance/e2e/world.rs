//! The world of real parts: GitHub's stub, AWS with the deployed functions, and real API servers.

use driftless_harness::aws::{LocalFunctions, Messages, MiniStack, Stack};
use driftless_harness::cluster::Cluster;
use driftless_harness::github::{Change, Delivery, GitHub, Repository};
use driftless_harness::http::Http;
use driftless_harness::skip::has_material;
use driftless_harness::tools;
use driftless_tests::site::{HubSpec, LIMIT, Node, Site};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const WEBHOOK_SECRET: &str = "It's a Secret to Everybody";
pub const TOKEN: &str = "ghs_installation_token_of_the_tests";

/// The time limit for a sweep.
const SWEEP_LIMIT: Duration = Duration::from_secs(15);

/// The runner of the functions.
enum Driver {
    /// MiniStack runs the functions as deployed: URL, queue and timer.
    Deployed,
    /// `cargo lambda watch` runs the functions; the test passes on messages and timer events.
    Watch(LocalFunctions),
}

/// All servers of a fleet.
pub struct World {
    pub github: GitHub,
    pub ministack: MiniStack,
    pub stack: Stack,
    pub hubs: BTreeMap<String, Cluster>,
    pub remotes: BTreeMap<String, Cluster>,
    repositories: Mutex<BTreeMap<String, Arc<Repository>>>,
    driver: Driver,
    /// The environment variables of the command, which describe the installation.
    environment: Vec<(String, String)>,
}

impl World {
    /// Starts everything: the stack from infra/template.yaml, the hubs with `driftless bootstrap`,
    /// the remote clusters.
    pub fn start(watch: bool, hubs: &[HubSpec<'_>], remotes: &[&str]) -> Self {
        Self::start_with(watch, hubs, remotes, &[])
    }

    /// Starts everything, with more parameters of the stack.
    pub fn start_with(
        watch: bool,
        hubs: &[HubSpec<'_>],
        remotes: &[&str],
        more: &[(&str, &str)],
    ) -> Self {
        let github = GitHub::start();
        github.add_token(TOKEN, &[]);
        let ministack = MiniStack::start();
        let functions = crate::binaries::directory();
        let mut bootstraps = Vec::from(
            [
                ("WebhookFunction", "webhook"),
                ("ReconcileFunction", "reconcile"),
                ("IsolatedFunction", "reconcile"),
                ("DriftFunction", "drift"),
                ("CapsuleFunction", "capsule"),
            ]
            .map(|(id, name)| (id, functions.join(name))),
        );
        for (parameter, id, name) in [
            ("Plans", "PlanFunction", "plan"),
            ("Dashboard", "DashboardFunction", "dashboard"),
        ] {
            if more.iter().any(|(given, _)| *given == parameter) {
                bootstraps.push((id, crate::binaries::on_request(name)));
            }
        }
        let template = tools::workspace().join("infra/template.yaml");
        let parameters = [
            ("GitHubApi", github.url()),
            ("LogLevel", "info"),
            ("Capsule", "true"),
        ];
        let parameters = [&parameters[..], more].concat();
        let stack = ministack.deploy("driftless", &template, &parameters, &bootstraps);
        let aws = ministack.aws();
        aws.put_secret("driftless/github/webhook", WEBHOOK_SECRET);
        aws.put_secret("driftless/github/token", TOKEN);
        let start = |name: &str| (name.to_owned(), Cluster::start(name));
        let clusters: BTreeMap<String, Cluster> = hubs.iter().map(|hub| start(hub.name)).collect();
        let remotes = remotes.iter().map(|name| start(name)).collect();
        let mut environment = ministack.environment();
        environment.extend([
            (
                "DRIFTLESS_BUCKET".to_owned(),
                stack.output("Bucket").to_owned(),
            ),
            (
                "DRIFTLESS_QUEUE_URL".to_owned(),
                stack.output("QueueUrl").to_owned(),
            ),
            ("DRIFTLESS_GITHUB_API".to_owned(), github.url().to_owned()),
        ]);
        for hub in hubs {
            bootstrap(hub, &clusters[hub.name], &environment, &[]);
        }
        let driver = if watch {
            let environment: Vec<(&str, &str)> = environment
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            Driver::Watch(LocalFunctions::start(&environment))
        } else {
            Driver::Deployed
        };
        let world = Self {
            github,
            ministack,
            stack,
            hubs: clusters,
            remotes,
            repositories: Mutex::default(),
            driver,
            environment,
        };
        let url = match &world.driver {
            Driver::Deployed => world.ministack.reach(world.stack.output("WebhookUrl")),
            Driver::Watch(functions) => functions.function_url("webhook"),
        };
        world.github.add_webhook(&url, WEBHOOK_SECRET);
        world
    }

    pub fn hub(&self, name: &str) -> &Cluster {
        &self.hubs[name]
    }

    pub fn remote(&self, name: &str) -> &Cluster {
        &self.remotes[name]
    }

    /// Returns the function URL that a GitHub webhook of this world sends to.
    pub fn webhook_url(&self) -> String {
        match &self.driver {
            Driver::Deployed => self.ministack.reach(self.stack.output("WebhookUrl")),
            Driver::Watch(functions) => functions.function_url("webhook"),
        }
    }

    /// Runs the timer's event now, and waits until the hubs are swept.
    pub fn sweep(&self) {
        let event: Value = serde_json::from_str(
            &std::fs::read_to_string(tools::workspace().join("events/drift-schedule.json"))
                .expect("read the event"),
        )
        .expect("JSON");
        match &self.driver {
            Driver::Deployed => {
                let aws = self.ministack.aws();
                let answer = aws.invoke(self.stack.output("DriftFunction"), &event);
                let queued = answer.expect("drift")["queued"].as_array().map(Vec::len);
                assert_eq!(queued, Some(self.hubs.len()), "a message for each hub");
                let queue = self.stack.output("SweepQueueUrl");
                let start = Instant::now();
                // The message of a sweep that is cut off stays in flight.
                while aws.messages(queue) != Messages::default() && start.elapsed() < SWEEP_LIMIT {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            Driver::Watch(functions) => {
                functions.invoke("drift", &event).expect("drift");
            }
        }
    }

    /// Registers a hub again, with more flags.
    pub fn bootstrap(&self, hub: &HubSpec<'_>, flags: &[&str]) {
        bootstrap(hub, self.hub(hub.name), &self.environment, flags);
    }

    /// Returns the keys of the bucket.
    pub fn keys(&self) -> Vec<String> {
        self.ministack.aws().keys(self.stack.output("Bucket"), "")
    }

    /// Deletes every object of the bucket.
    pub fn empty_bucket(&self) {
        let bucket = self.stack.output("Bucket");
        for key in self.keys() {
            let parameters = json!({"Bucket": bucket, "Key": key});
            self.ministack.aws().must("s3", "delete_object", parameters);
        }
    }

    /// Runs a command for the installation. Returns what it prints.
    pub fn command(&self, args: &[&str]) -> String {
        run(&self.environment, args)
    }

    /// Runs the event of Capsule's timer. Returns the function's answer.
    pub fn capsule(&self) -> Value {
        let file = tools::workspace().join("events/capsule-schedule.json");
        let text = std::fs::read_to_string(file).expect("read the event");
        let event: Value = serde_json::from_str(&text).expect("JSON");
        match &self.driver {
            Driver::Deployed => {
                let aws = self.ministack.aws();
                let answer = aws.invoke(self.stack.output("CapsuleFunction"), &event);
                answer.expect("capsule")
            }
            Driver::Watch(functions) => functions.invoke("capsule", &event).expect("capsule"),
        }
    }

    /// Puts a request into the queue, as a step would.
    pub fn request(&self, hub: &str, kind: &str, namespace: &str, name: &str, cause: &str) {
        let body = json!({"hub": hub, "cause": cause, "object": {"kind": kind, "namespace": namespace, "name": name}});
        self.ministack
            .aws()
            .send(self.stack.output("QueueUrl"), &body.to_string());
    }

    /// Passes the queue's messages to the functions if only the test does.
    pub fn pump(&self) {
        let Driver::Watch(functions) = &self.driver else {
            return;
        };
        let queue = self.stack.output("QueueUrl");
        loop {
            let received = self.ministack.aws().must(
                "sqs",
                "receive_message",
                json!({"QueueUrl": queue, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0}),
            );
            let messages = received["Messages"].as_array().cloned().unwrap_or_default();
            if messages.is_empty() {
                return;
            }
            let record = |message: &Value| {
                json!({"messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"], "body": message["Body"],
                       "eventSource": "aws:sqs", "attributes": {}, "messageAttributes": {}})
            };
            let event = json!({"Records": messages.iter().map(record).collect::<Vec<_>>()});
            let answer = functions.invoke("reconcile", &event).expect("reconcile");
            assert_eq!(answer["batchItemFailures"], json!([]), "steps failed");
            for message in messages {
                let handle = json!({"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]});
                self.ministack.aws().must("sqs", "delete_message", handle);
            }
        }
    }

    /// Waits until `check` succeeds; panics with its last error and the functions' logs.
    pub fn eventually(&self, description: &str, check: impl FnMut() -> Result<(), String>) {
        self.within(LIMIT, description, check);
    }

    /// Waits like `eventually`, with another limit.
    pub fn within(
        &self,
        limit: Duration,
        description: &str,
        mut check: impl FnMut() -> Result<(), String>,
    ) {
        let start = Instant::now();
        let mut last = String::new();
        while start.elapsed() < limit {
            self.pump();
            match check() {
                Ok(()) => {
                    eprintln!("  {description}: {:.1} s", start.elapsed().as_secs_f64());
                    return;
                }
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!(
            "{description}: not within {} s: {last}\n{}",
            limit.as_secs(),
            self.logs()
        );
    }

    /// Waits until all work is done: no message for a second, or only delayed ones for longer than
    /// any delay of a step except the retry of a failure.
    pub fn settle(&self) {
        let queue = self.stack.output("QueueUrl").to_owned();
        let mut quiet = None;
        self.eventually("the queue is quiet", || {
            let messages = self.ministack.aws().messages(&queue);
            if messages.visible + messages.in_flight > 0 {
                quiet = None;
                return Err(format!("{messages:?}"));
            }
            let since = *quiet.get_or_insert_with(Instant::now);
            let enough = if messages.delayed == 0 { 1 } else { 8 };
            if since.elapsed() >= Duration::from_secs(enough) {
                Ok(())
            } else {
                Err(format!("{messages:?}"))
            }
        });
    }

    /// Returns the JSON lines in the log of a function: `webhook`, `reconcile` or `drift`.
    pub fn log_lines(&self, function: &str) -> Vec<Value> {
        let aws = self.ministack.aws();
        let groups = aws.call("logs", "describe_log_groups", &json!({}));
        let groups = groups.unwrap_or_default()["logGroups"].take();
        let names = groups.as_array().into_iter().flatten();
        let names = names.filter_map(|group| group["logGroupName"].as_str());
        let own = names.filter(|name| name.to_lowercase().contains(function));
        let lines = own.flat_map(|name| aws.logs(name));
        lines
            .filter_map(|line| serde_json::from_str(line.trim()).ok())
            .collect()
    }

    /// Returns the last lines of every function's log.
    pub fn logs(&self) -> String {
        let groups = self
            .ministack
            .aws()
            .call("logs", "describe_log_groups", &json!({}))
            .unwrap_or_default();
        let mut text = self.ministack.log_tail();
        for group in groups["logGroups"].as_array().into_iter().flatten() {
            let name = group["logGroupName"].as_str().unwrap_or_default();
            let lines = self.ministack.aws().logs(name);
            text.push_str(&format!(
                "\n== {name}\n{}",
                lines[lines.len().saturating_sub(60)..].join("\n")
            ));
        }
        text
    }

    /// Posts a body to the webhook with this signature. Returns the HTTP status.
    pub fn post(&self, body: &[u8], signature: &str) -> u16 {
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", "push"),
            ("x-github-delivery", "00000000-0000-0000-0000-000000000000"),
            ("x-hub-signature-256", signature),
        ];
        Http::plain()
            .send("POST", &self.webhook_url(), &headers, Some(body))
            .map_or(0, |answer| answer.status)
    }
}

impl World {
    /// Returns a repository of the stub of GitHub.
    pub fn repository(&self, name: &str) -> Arc<Repository> {
        let mut known = self.repositories.lock().expect("the repositories");
        let make = || self.github.repository(name);
        known.entry(name.to_owned()).or_insert_with(make).clone()
    }
}

impl Site for World {
    fn cluster(&self, name: &str) -> &dyn Node {
        let found = self.hubs.get(name).or_else(|| self.remotes.get(name));
        found.unwrap_or_else(|| panic!("no cluster {name}"))
    }

    fn import(&self, repository: &str, directory: &Path) {
        self.repository(repository)
            .commit_directory("main", directory, "Import");
    }

    fn set_private(&self, repository: &str, tokens: &[&str]) {
        self.repository(repository).set_private(true);
        for token in tokens {
            self.github.add_token(token, &[repository]);
        }
    }

    fn head(&self, repository: &str) -> String {
        self.repository(repository).resolve("main").expect("a head")
    }

    fn commit(&self, repository: &str, changes: &[Change]) -> String {
        self.repository(repository)
            .commit("main", changes, "Change by a test")
    }

    fn push(&self, repository: &str, changes: &[Change]) -> Vec<Delivery> {
        let repository = self.repository(repository);
        self.github.push(&repository, "main", changes).deliveries
    }

    fn redeliver(&self, delivery: &Delivery) -> Vec<Delivery> {
        self.github.redeliver(delivery)
    }

    fn post(&self, body: &[u8], signature: &str) -> u16 {
        World::post(self, body, signature)
    }

    fn queued(&self) -> usize {
        let queue = self.stack.output("QueueUrl");
        let messages = self.ministack.aws().messages(queue);
        let count = messages.visible + messages.delayed + messages.in_flight;
        usize::try_from(count).expect("a count")
    }

    fn sweep(&self) {
        World::sweep(self);
    }

    fn request(&self, hub: &str, kind: &str, namespace: &str, name: &str) {
        World::request(self, hub, kind, namespace, name, "changed");
    }

    fn settle(&self) {
        World::settle(self);
    }

    fn until(
        &self,
        limit: Duration,
        description: &str,
        check: &mut dyn FnMut() -> Result<(), String>,
    ) {
        self.within(limit, description, check);
    }
}

/// Runs `driftless bootstrap` on a hub.
fn bootstrap(
    hub: &HubSpec<'_>,
    cluster: &Cluster,
    environment: &[(String, String)],
    flags: &[&str],
) {
    let directory = tempfile::tempdir().expect("a directory");
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).expect("write the kubeconfig");
    let mut args = vec!["bootstrap", "--name", hub.name];
    if !hub.repository.is_empty() {
        args.extend(["--repository", hub.repository, "--branch", hub.branch]);
        args.extend(["--path", hub.path]);
    }
    args.extend(flags);
    let kubeconfig = kubeconfig.to_string_lossy();
    args.extend(["--allow-local-clusters", "--kubeconfig", &kubeconfig]);
    run(environment, &args);
}

/// Runs driftless with an environment; panics if it fails. Returns what it prints.
fn run(environment: &[(String, String)], args: &[&str]) -> String {
    let mut command = std::process::Command::new(crate::binaries::directory().join("driftless"));
    command.args(args);
    command.envs(environment.iter().map(|(key, value)| (key, value)));
    let output = command.output().expect("run driftless");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "driftless {args:?}: {text}");
    text
}

/// Returns the directory of a real fleet next to the checkout; prints a note if it does not exist.
pub fn shared_fleet(name: &str) -> Option<PathBuf> {
    let directory = tools::workspace().join("../shared/fleets").join(name);
    has_material(&directory).then_some(directory)
}
