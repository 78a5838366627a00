//! The sample fleet, served by one process: from an empty cluster to pushes, commands and the
//! process's end.

use driftless_harness::cluster::Cluster;
use driftless_harness::command::{Done, run_in};
use driftless_harness::github::{Change, GitHub, Repository, sign};
use driftless_harness::http::Http;
use driftless_harness::process::PATIENCE;
use driftless_harness::serve::{Foreground, Serve};
use driftless_harness::{ports, tools};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const SECRET: &str = "It's a Secret to Everybody";

struct World {
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    github: GitHub,
    fleet: Arc<Repository>,
    team_a: Arc<Repository>,
    team_b: Arc<Repository>,
    hub: Cluster,
    edge: Cluster,
}

impl World {
    fn start() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let github = GitHub::start();
        let directory = tools::tests().join("fleet");
        let fleet = github.repository_from("acme/fleet", &directory.join("platform"));
        let team_a = github.repository_from("acme/team-a", &directory.join("team-a"));
        let team_b = github.repository_from("acme/team-b", &directory.join("team-b"));
        team_a.set_private(true);
        github.add_token("ghp_team_a", &["acme/team-a"]);
        github.add_token("ghp_fleet", &["acme/fleet", "acme/team-b"]);
        let [hub, edge] = Cluster::start_all(["hub", "edge"]);
        let kubeconfig = home.path().join("hub.yaml");
        std::fs::write(&kubeconfig, hub.kubeconfig()).expect("write the kubeconfig");
        let world = Self {
            home,
            kubeconfig,
            github,
            fleet,
            team_a,
            team_b,
            hub,
            edge,
        };
        world.give_secrets();
        world
    }

    /// Creates what a platform team creates on its hub by hand: the key, the token and the remote
    /// cluster's kubeconfig.
    fn give_secrets(&self) {
        let key = std::fs::read_to_string(tools::tests().join("fleet/age.agekey"));
        let secrets = [
            (
                "sops-age",
                json!({"age.agekey": key.expect("read the key")}),
            ),
            (
                "git-token",
                json!({"username": "git", "password": "ghp_team_a"}),
            ),
        ];
        self.hub.namespace("team-a");
        self.hub.namespace("flux-system");
        for (name, data) in secrets {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
            let done = self
                .hub
                .api()
                .create("/api/v1/namespaces/team-a/secrets", &secret);
            done.expect("create a Secret");
        }
        self.hub
            .add_remote("flux-system", "edge-kubeconfig", &self.edge);
    }

    fn serve(&self) -> Serve {
        self.serve_with(&[])
    }

    fn serve_with(&self, flags: &[&str]) -> Serve {
        let kubeconfig = self.kubeconfig.to_str().expect("UTF-8");
        let root = ["--repository", "acme/fleet", "--path", "clusters/staging"];
        let args = [
            &[
                "--kubeconfig",
                kubeconfig,
                "--github-api",
                self.github.url(),
            ],
            &root[..],
            flags,
        ]
        .concat();
        let environment = [
            ("DRIFTLESS_WEBHOOK_SECRET", SECRET),
            ("GITHUB_TOKEN", "ghp_fleet"),
        ];
        let serve = Serve::start(self.home.path(), &args, &environment);
        self.github.add_webhook(&serve.url("/webhook"), SECRET);
        serve
    }

    /// Runs a command against the hub.
    fn run(&self, args: &[&str]) -> Done {
        let kubeconfig = self.kubeconfig.to_str().expect("UTF-8");
        run_in(self.home.path(), args, &[("KUBECONFIG", kubeconfig)])
    }

    fn push(&self, repository: &Repository, path: &str, text: &str) -> String {
        let push = self
            .github
            .push(repository, "main", &[Change::write(path, text)]);
        for delivery in &push.deliveries {
            assert_eq!(delivery.status, Some(202), "{delivery:?}");
        }
        push.sha
    }

    fn data(&self, namespace: &str, name: &str) -> Value {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        self.hub.api().find(&path).unwrap_or_default()["data"].clone()
    }
}

fn head(repository: &Repository) -> String {
    repository.resolve("main").expect("a head")
}

fn motd(text: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: motd\ndata:\n  text: {text}\n")
}

#[test]
fn one_process_is_a_whole_installation() {
    let world = World::start();
    let serve = world.serve();
    an_empty_cluster_becomes_the_fleet(&world, &serve);
    the_http_routes_show_the_state(&serve);
    a_push_lands(&world, &serve);
    foreign_and_forged_deliveries_queue_nothing(&world, &serve);
    get_prints_what_is_there(&world);
    a_suspended_object_is_left_alone_until_it_is_resumed(&world, &serve);
    reconcile_waits_and_reports(&world, &serve);
    a_broken_push_is_reported_with_its_file(&world, &serve);
    wrong_credentials_are_reported(&world);
    drop(serve);
    a_second_root_is_refused(&world);
    a_directory_is_a_source_and_the_end_is_graceful(&world);
}

/// Checks what the documents describe for a hub with tenants.
#[test]
fn a_locked_hub_has_a_root() {
    let lock = [
        "--default-service-account",
        "default",
        "--no-cross-namespace-refs",
    ];
    let line = "serviceAccountName: kustomize-controller";
    for document in ["README.md", "SECURITY.md", "infra/README.md"] {
        let text = std::fs::read_to_string(tools::workspace().join(document));
        let text = text.expect("read a document");
        assert!(text.contains(&lock.join(" ")), "{document}");
    }
    let world = World::start();
    for name in ["infrastructure", "tenants"] {
        let file = format!("clusters/staging/{name}.yaml");
        let text = std::fs::read_to_string(tools::tests().join("fleet/platform").join(&file));
        let text = text.expect("read the fleet");
        let named = text.replacen("spec:\n", &format!("spec:\n  {line}\n"), 1);
        assert_ne!(named, text);
        let change = Change::write(&file, named);
        world.github.push(&world.fleet, "main", &[change]);
    }
    let serve = world.serve_with(&lock);
    serve.eventually("the fleet is ready", || {
        for name in ["flux-system", "infrastructure", "tenants"] {
            serve.is_ready("flux-system", name, &head(&world.fleet))?;
        }
        serve.is_ready("team-a", "apps", &head(&world.team_a))?;
        serve.is_ready("team-b", "apps", &head(&world.team_b))
    });
    // A Kustomization of the platform without an account, like the root of `flux bootstrap`: its
    // message has the missing line.
    let nameless = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: nameless, namespace: flux-system}\n\
                    spec: {interval: 10m, path: ./infrastructure, prune: false, sourceRef: {kind: GitRepository, name: flux-system}}\n";
    world.push(&world.fleet, "clusters/staging/nameless.yaml", nameless);
    let path =
        "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/nameless";
    serve.eventually("the message", || {
        let object = world.hub.api().find(path).unwrap_or_default();
        let conditions = object["status"]["conditions"].to_string();
        let is_reported = conditions.contains("(Forbidden)")
            && conditions.contains(&format!("add '{line}' to its spec"));
        is_reported.then_some(()).ok_or(conditions)
    });
}

fn an_empty_cluster_becomes_the_fleet(world: &World, serve: &Serve) {
    serve.eventually("the fleet is ready", || {
        for name in ["flux-system", "infrastructure", "tenants", "edge"] {
            serve.is_ready("flux-system", name, &head(&world.fleet))?;
        }
        serve.is_ready("team-a", "apps", &head(&world.team_a))?;
        serve.is_ready("team-b", "apps", &head(&world.team_b))
    });
    let root = serve.object("GitRepository", "flux-system", "flux-system");
    assert_eq!(
        (&root["ready"], &root["observed"]),
        (&json!("True"), &json!(true)),
        "{root}"
    );
    let agent = "/apis/apps/v1/namespaces/edge/deployments/agent";
    assert!(world.edge.api().find(agent).is_some(), "the remote cluster");
    assert!(world.hub.api().find(agent).is_none(), "the hub");
    let secret = world
        .hub
        .api()
        .get("/api/v1/namespaces/team-a/secrets/database");
    assert!(secret.expect("the decrypted Secret").get("sops").is_none());
}

fn the_http_routes_show_the_state(serve: &Serve) {
    assert_eq!(serve.get("/healthz").text(), "ok\n");
    let swept = serve.post("/sweep", &[], b"").json();
    assert_eq!(swept["hubs"][0]["hub"], "default", "{swept}");
    assert_eq!(swept["hubs"][0]["error"], Value::Null, "{swept}");
    let metrics = serve.get("/metrics").text();
    for line in [
        "driftless_steps_total{kind=\"Kustomization\",result=\"done\"}",
        "driftless_sweeps_total{result=\"done\"}",
        "driftless_queue_length",
    ] {
        assert!(metrics.contains(line), "{line} is not in:\n{metrics}");
    }
    // A request that a proxy on this machine forwards is not a local request.
    let proxied = [("x-forwarded-for", "192.0.2.1")];
    assert_eq!(serve.post("/sweep", &proxied, b"").status, 403);
    assert_eq!(serve.get("/nothing").status, 404);
    assert_eq!(serve.get("/webhook").status, 405);
}

fn a_push_lands(world: &World, serve: &Serve) {
    let sha = world.push(&world.team_a, "base/motd.yaml", &motd("pushed"));
    serve.eventually("the push landed", || serve.is_ready("team-a", "apps", &sha));
    assert_eq!(world.data("team-a", "motd"), json!({"text": "pushed"}));
}

fn foreign_and_forged_deliveries_queue_nothing(world: &World, serve: &Serve) {
    let foreign = world.github.repository("stranger/things");
    let push = world
        .github
        .push(&foreign, "main", &[Change::write("a.yaml", "a: b\n")]);
    let [delivery] = &push.deliveries[..] else {
        panic!("one delivery, not {:?}", push.deliveries)
    };
    assert_eq!(delivery.status, Some(200), "{delivery:?}");
    let answer: Value = serde_json::from_str(&delivery.answer).expect("JSON");
    assert_eq!(answer["queued"], json!([]), "{answer}");
    assert!(
        answer["note"]
            .as_str()
            .is_some_and(|note| note.contains("stranger/things")),
        "{answer}"
    );

    let reference = "refs/heads/main";
    let body = world
        .github
        .push_payload(&world.fleet, reference, None, &head(&world.fleet));
    let body = body.to_string();
    let deliver = |signature: Option<&str>, body: &[u8]| {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("x-github-event", "push"),
        ];
        headers.extend(signature.map(|signature| ("x-hub-signature-256", signature)));
        serve.post("/webhook", &headers, body)
    };
    let forged = sign("another secret", body.as_bytes());
    for signature in [None, Some(""), Some("sha1=00"), Some(forged.as_str())] {
        let answer = deliver(signature, body.as_bytes());
        assert_eq!(answer.status, 401, "{signature:?}: {}", answer.text());
        assert!(answer.text().contains("signature"), "{}", answer.text());
    }
    let large = vec![b' '; 30 << 20];
    let answer = deliver(Some(&sign(SECRET, &large)), &large);
    assert_eq!(answer.status, 413, "{}", answer.text());
    let answer = deliver(Some(&sign(SECRET, b"no JSON")), b"no JSON");
    assert_eq!(answer.status, 400, "{}", answer.text());
}

fn get_prints_what_is_there(world: &World) {
    let table = world.run(&["get", "kustomizations", "-A"]).ok();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split('\t').map(str::trim).collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "NAMESPACE",
            "NAME",
            "REVISION",
            "SUSPENDED",
            "READY",
            "MESSAGE"
        ]
    );
    let short = format!("main@sha1:{}", &head(&world.team_a)[..8]);
    let message = format!("Applied revision: {short}");
    let apps = lines
        .iter()
        .find(|line| line[0] == "team-a")
        .expect("team-a");
    assert_eq!(
        apps[1..6],
        ["apps", &short, "False", "True", &message],
        "{table}"
    );
    assert_eq!(lines.len(), 7, "{table}");

    let one = world
        .run(&["get", "ks", "apps", "-n", "team-b", "--output", "json"])
        .json();
    assert_eq!(
        (&one["kind"], &one["metadata"]["name"]),
        (&json!("Kustomization"), &json!("apps"))
    );
    let all = world
        .run(&["get", "sources", "git", "-A", "-o", "json"])
        .json();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(3), "{all}");
    let names = world.run(&["get", "sources", "git", "-o", "name"]).ok();
    assert_eq!(
        names,
        "gitrepository.source.toolkit.fluxcd.io/flux-system\n"
    );
    let everything = world.run(&["get", "all"]).ok();
    for name in ["gitrepository/flux-system", "kustomization/edge"] {
        assert!(everything.contains(name), "{everything}");
    }
    let missing = world.run(&["get", "kustomizations", "nothing"]);
    let words = [
        "Kustomization object 'nothing' not found in \"flux-system\" namespace",
        "driftless get kustomizations -A",
    ];
    missing.refused(1, &words);
}

fn a_suspended_object_is_left_alone_until_it_is_resumed(world: &World, serve: &Serve) {
    let done = world.run(&[
        "suspend",
        "kustomization",
        "apps",
        "-n",
        "team-a",
        "--output",
        "json",
    ]);
    assert!(done.err.contains("kustomization suspended"), "{}", done.err);
    assert_eq!(done.json()["spec"]["suspend"], true);
    let refused = world.run(&["reconcile", "kustomization", "apps", "-n", "team-a"]);
    refused.refused(
        1,
        &[
            "team-a/apps is suspended",
            "driftless resume kustomization apps -n team-a",
        ],
    );

    let sha = world.push(&world.team_a, "base/motd.yaml", &motd("held"));
    await_source(serve, "team-a", &sha);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(world.data("team-a", "motd"), json!({"text": "pushed"}));

    let done = world.run(&["resume", "kustomization", "apps", "-n", "team-a"]);
    assert!(
        done.err
            .contains(&format!("applied revision main@sha1:{sha}")),
        "{}",
        done.err
    );
    done.ok();
    assert_eq!(world.data("team-a", "motd"), json!({"text": "held"}));
}

fn reconcile_waits_and_reports(world: &World, serve: &Serve) {
    // No webhook announces this commit: --with-source finds it.
    let sha = world.team_b.commit(
        "main",
        &[Change::write("apps/motd.yaml", motd("unannounced"))],
        "Unannounced",
    );
    let args = [
        "reconcile",
        "kustomization",
        "apps",
        "-n",
        "team-b",
        "--with-source",
        "--output",
        "json",
    ];
    let done = world.run(&args);
    for line in [
        "GitRepository annotated",
        &format!("fetched revision main@sha1:{sha}"),
        &format!("applied revision main@sha1:{sha}"),
    ] {
        assert!(done.err.contains(line), "{line} is not in:\n{}", done.err);
    }
    let object = done.json();
    assert!(
        object["status"]["lastAppliedRevision"]
            .as_str()
            .is_some_and(|revision| revision.ends_with(&sha)),
        "{object}"
    );
    assert_eq!(world.data("team-b", "motd"), json!({"text": "unannounced"}));
    serve.is_ready("team-b", "apps", &sha).expect("ready");

    let source = world.run(&["reconcile", "source", "git", "flux-system"]);
    assert!(
        source.err.contains(&format!(
            "fetched revision main@sha1:{}",
            head(&world.fleet)
        )),
        "{}",
        source.err
    );
    source.ok();
    world
        .run(&["reconcile", "kustomization", "nothing"])
        .refused(1, &["'nothing' not found"]);
}

/// Waits until the source of a team has a commit.
fn await_source(serve: &Serve, namespace: &str, sha: &str) {
    serve.eventually(&format!("the source of {namespace} has {sha}"), || {
        let source = serve.object("GitRepository", namespace, "apps");
        let revision = source["revision"].as_str().unwrap_or_default();
        match revision.ends_with(sha) {
            true => Ok(()),
            false => Err(source.to_string()),
        }
    });
}

fn a_broken_push_is_reported_with_its_file(world: &World, serve: &Serve) {
    let good = motd("unannounced");
    let sha = world.push(&world.team_b, "apps/motd.yaml", "kind: [\n");
    await_source(serve, "team-b", &sha);
    let done = world.run(&["reconcile", "kustomization", "apps", "-n", "team-b"]);
    done.refused(1, &["team-b/apps", "reconciliation failed", "motd.yaml"]);
    assert_eq!(
        world.data("team-b", "motd"),
        json!({"text": "unannounced"}),
        "deleted"
    );
    let failed = world
        .run(&[
            "get",
            "kustomizations",
            "-A",
            "--status-selector",
            "ready=false",
        ])
        .ok();
    assert_eq!(failed.lines().count(), 2, "{failed}");
    world.push(&world.team_b, "apps/motd.yaml", &good);
    serve.eventually("the repaired push landed", || {
        serve.is_ready("team-b", "apps", &head(&world.team_b))
    });
}

fn wrong_credentials_are_reported(world: &World) {
    let file = world.home.path().join("stranger.yaml");
    std::fs::write(&file, world.hub.kubeconfig_with_token("a-stranger"))
        .expect("write the kubeconfig");
    let file = file.to_str().expect("UTF-8");
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    for args in [
        &["get", "all"][..],
        &["suspend", "ks", "apps"],
        &[&serve[..], &["--name", "other"]].concat(),
    ] {
        let done = world.run(&[args, &["--kubeconfig", file]].concat());
        let words = [
            &world.hub.url(),
            "Unauthorized",
            "Next: check the credentials",
        ];
        done.refused(1, &words);
        assert!(!done.err.contains("a-stranger"), "{}", done.err);
    }
    // No other process may use the data directory of the running one.
    world
        .run(&serve)
        .refused(1, &["is used by another driftless serve", "--data"]);
}

fn a_second_root_is_refused(world: &World) {
    let args = [
        "serve",
        "--repository",
        "acme/other",
        "--listen",
        "127.0.0.1:0",
    ];
    let words = [
        "the hub already follows another root",
        "https://github.com/acme/fleet",
        "--repository",
    ];
    world.run(&args).refused(1, &words);
}

/// The remote cluster of the other tests is its own hub here, like a cluster on a laptop.
fn a_directory_is_a_source_and_the_end_is_graceful(world: &World) {
    let kubeconfig = world.home.path().join("edge.yaml");
    std::fs::write(&kubeconfig, world.edge.kubeconfig()).expect("write the kubeconfig");
    let directory = world.home.path().join("local");
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
        driftless_harness::process::run(git.arg("-C").arg(&directory).args(identity).args(args))
    };
    std::fs::create_dir_all(directory.join("dev")).expect("a directory");
    let write = |text: &str| {
        let object = motd(text).replace("name: motd", "name: motd\n  namespace: default");
        std::fs::write(directory.join("dev/motd.yaml"), object).expect("write");
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", text]);
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    write("from a directory");

    let address = format!("127.0.0.1:{}", ports::free());
    let url = format!("file://{}", directory.display());
    let config = kubeconfig.to_str().expect("UTF-8");
    let args = [
        "--kubeconfig",
        config,
        "--repository",
        &url,
        "--path",
        "dev",
        "--listen",
        &address,
    ];
    let serve = Foreground::start(world.home.path(), &args);
    let text = || {
        let found = world
            .edge
            .api()
            .find("/api/v1/namespaces/default/configmaps/motd");
        found.unwrap_or_default()["data"]["text"].clone()
    };
    wait("the directory is applied", || text() == "from a directory");
    let root = world.edge.api().find(
        "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system",
    );
    let root = root.expect("the root source");
    assert_eq!(
        root["spec"]["url"],
        format!("https://folder.invalid{}", directory.display())
    );
    write("and again");
    let run = |args: &[&str]| run_in(world.home.path(), args, &[("KUBECONFIG", config)]);
    run(&["reconcile", "kustomization", "flux-system", "--with-source"]).ok();
    assert_eq!(text(), "and again");
    assert_eq!(
        Http::plain()
            .get(&format!("http://{address}/healthz"))
            .status,
        200
    );

    let (code, log) = serve.end("TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("DRIFTLESS_WEBHOOK_SECRET is not set"), "{log}");
    assert!(log.contains("stopping"), "{log}");

    // The same again without --repository: nothing is created, and the directory is still the
    // source.
    write("after a restart");
    let again = ["--kubeconfig", config, "--listen", &address];
    let serve = Foreground::start(world.home.path(), &again);
    wait("the directory is read again", || {
        text() == "after a restart"
    });
    let (code, log) = serve.end("TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains(&format!(
            "{url} is read, because it was the last --repository"
        )),
        "{log}"
    );
    assert!(
        !log.contains("created ") && !log.contains("updated "),
        "{log}"
    );
}

fn wait(description: &str, done: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{description}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
