//! The roles of the deployed functions are exactly what the functions use: no call is refused, and
//! no right is without a call.

use crate::world::World;
use driftless_dashboard::auth::{Key, SESSION_COOKIE};
use driftless_harness::aws::Call;
use driftless_harness::charts::{self, Host, Validators};
use driftless_harness::github::{Change, Fault};
use driftless_harness::http::Http;
use driftless_harness::{process, tools};
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const FLEET: &str = "acme/fleet";
const CONFIG: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: default}\ndata: {}\n";
const HUB: HubSpec<'static> = one_hub(FLEET)[0];

/// The interval of all objects but the root's: it is over at each sweep, which rehearses them.
const INTERVAL: &str = "5s";
/// An object that every API server refuses.
const REFUSED: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: refused, namespace: default}\nspec: {ports: [{port: 0}]}\n";

/// The rights without a call here: the role, the action, a part of the resource, and the reason.
const UNSEEN: &[(&str, &str, &str, &str)] = &[
    ("", "logs:", ":log-group:", LAMBDA),
    ("", "sqs:ReceiveMessage", "", LAMBDA),
    ("", "sqs:DeleteMessage", "", LAMBDA),
    ("", "sqs:GetQueueAttributes", "", LAMBDA),
    ("", "xray:", "", "only with Tracing, by Lambda itself"),
    ("", "eks:", "", "only with EksClusters"),
    ("ReconcileRole", "kms:", "", "only with KmsKeys"),
    ("ReconcileRole", "ecr", "", "only with EcrRepositories"),
    ("ReconcileRole", "sts:", "", "only with EcrRepositories"),
    ("PlanRole", "kms:", "", "only with KmsKeys"),
    ("DriftRole", "ecr", "", "only with EcrRepositories"),
    ("DriftRole", "sts:", "", "only with EcrRepositories"),
    ("DriftRole", "s3:PutObject", "/limits/*", REHEARSAL),
];
const LAMBDA: &str = "Lambda itself writes logs and polls queues with the role of the function";
const REHEARSAL: &str = "only if a host refuses a rehearsal before it refuses a step";

/// Checks the calls of a run against the policies of the deployed roles. MiniStack refuses what
/// they do not allow, as AWS does.
#[test]
fn roles_allow_what_the_functions_do_and_nothing_else() {
    let parameters = [
        ("Receivers", "true"),
        ("Plans", "true"),
        ("Dashboard", "github"),
        (
            "DashboardAccess",
            r#"[{"users": ["auditor"], "namespaces": ["*"]}]"#,
        ),
    ];
    let world = World::start_with(false, &[HUB], &[], &parameters);
    exercise(&world);

    let calls = world.ministack.calls();
    let (allowed, refused): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(_, allowed)| *allowed);
    let refused: Vec<_> = refused.iter().map(|(call, _)| call).collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let allowed: Vec<Call> = allowed.into_iter().map(|(call, _)| call).collect();
    let roles: BTreeSet<&String> = allowed.iter().map(|call| &call.role).collect();
    let count = roles.len();
    assert_eq!(count, 6, "the roles of all deployed functions: {roles:?}");
    let rights = roles.iter().flat_map(|role| world.ministack.rights(role));
    let (used, unused): (Vec<Call>, Vec<Call>) =
        rights.partition(|right| allowed.iter().any(|call| right.allows(call)));
    let reason = |right: &Call| {
        let found = UNSEEN.iter().find(|(role, action, resource, _)| {
            right.role.contains(role)
                && right.action.starts_with(action)
                && right.resource.contains(resource)
        });
        found.map(|(_, _, _, reason)| *reason)
    };
    let is_unseen = |right: &&Call| reason(right).is_some();
    let line = |right: &Call| {
        let Call {
            role,
            action,
            resource,
            prefix,
        } = right;
        format!("{role} {action} {resource} {prefix}")
    };
    // S3 asks for the list when the object of a GetObject does not exist; MiniStack does not.
    let is_for_missing = |right: &&Call| {
        let object = format!("/{}", right.prefix);
        let mut others = used.iter().chain(unused.iter().filter(is_unseen));
        right.action == "s3:ListBucket"
            && others.any(|other| {
                other.role == right.role
                    && other.action == "s3:GetObject"
                    && other.resource.ends_with(&object)
            })
    };
    let unexpected: Vec<String> = unused
        .iter()
        .filter(|right| !is_unseen(right) && !is_for_missing(right))
        .map(line)
        .collect();
    assert!(
        unexpected.is_empty(),
        "rights without a call: {unexpected:#?}"
    );
    // A reason that a call refutes is removed.
    let is_refuted = |right: &&Call| reason(right).is_some_and(|reason| reason != REHEARSAL);
    let stale: Vec<String> = used.iter().filter(is_refuted).map(line).collect();
    assert!(stale.is_empty(), "seen after all: {stale:#?}");
}

fn manifest(api: &str, kind: &str, name: &str, spec: Value) -> Change {
    let object = json!({
        "apiVersion": api, "kind": kind,
        "metadata": {"name": name, "namespace": "flux-system"}, "spec": spec,
    });
    Change::write(
        &format!("clusters/hub/{kind}-{name}.yaml"),
        object.to_string(),
    )
}

/// Lets the functions do everything that they do.
fn exercise(world: &World) {
    let hub: &dyn Node = world.hub("hub");
    capsule_proxy(world, hub);
    let (host, directory) = (Host::start(), tempfile::tempdir().expect("a directory"));
    let files = [
        ("values.yaml", "a: 1\n"),
        (
            "templates/a.yaml",
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: of-the-chart}\n",
        ),
    ];
    host.set_validators(Validators::Etag);
    charts::package(directory.path(), "app", "1.0.0", &files);
    charts::index(directory.path(), &host, "/stable", "");
    let (source, kustomize) = (
        "source.toolkit.fluxcd.io/v1",
        "kustomize.toolkit.fluxcd.io/v1",
    );
    let notification = "notification.toolkit.fluxcd.io/v1beta3";
    let kustomization = |name: &str, more: Value| {
        let mut spec = json!({
            "interval": INTERVAL, "retryInterval": "2s", "path": "apps", "prune": true,
            "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
        });
        for (key, value) in more.as_object().expect("fields") {
            spec[key] = value.clone();
        }
        manifest(kustomize, "Kustomization", name, spec)
    };
    let other = |name: &str| {
        let spec = json!({
            "interval": INTERVAL, "url": "https://github.com/acme/other", "ref": {"branch": "main"},
        });
        manifest(source, "GitRepository", name, spec)
    };
    let release = |name: &str| {
        let chart =
            json!({"chart": "app", "sourceRef": {"kind": "HelmRepository", "name": "charts"}});
        let spec = json!({"interval": INTERVAL, "chart": {"spec": chart}});
        manifest("helm.toolkit.fluxcd.io/v2", "HelmRelease", name, spec)
    };
    hub.secret("flux-system", "hook", &json!({"token": "of-the-hook"}));
    let objects = [
        Change::write("apps/config.yaml", CONFIG),
        kustomization("apps", json!({"decryption": {"provider": "sops"}})),
        kustomization("later", json!({"dependsOn": [{"name": "remote"}]})),
        kustomization(
            "remote",
            json!({"kubeConfig": {"secretRef": {"name": "edge"}}}),
        ),
        manifest(
            source,
            "HelmRepository",
            "charts",
            json!({"interval": INTERVAL, "url": format!("{}/stable", host.url())}),
        ),
        other("other"),
        // The files of another repository, which a plan reads from the bucket.
        kustomization(
            "elsewhere",
            json!({"path": "./", "sourceRef": {"kind": "GitRepository", "name": "other"}}),
        ),
        // The API server refuses its object, whose file the dashboard finds.
        Change::write("refused/service.yaml", REFUSED),
        kustomization("refused", json!({"path": "refused", "retryInterval": "1h"})),
        release("app"),
        manifest(
            notification,
            "Provider",
            "chat",
            json!({"type": "generic", "address": format!("{}/chat", host.url())}),
        ),
        manifest(
            notification,
            "Alert",
            "all",
            json!({
                "providerRef": {"name": "chat"}, "eventSources": [{"kind": "Kustomization", "name": "*"}],
            }),
        ),
        manifest(
            "notification.toolkit.fluxcd.io/v1",
            "Receiver",
            "hook",
            json!({
                "type": "generic", "interval": INTERVAL, "secretRef": {"name": "hook"},
                "resources": [{"kind": "GitRepository", "name": "flux-system"}],
            }),
        ),
    ];
    let file = Change::write(
        "config.yaml",
        CONFIG.replace("name: config", "name: elsewhere"),
    );
    world.commit("acme/other", &[file]);
    world.commit(FLEET, &objects);
    world.sweep();
    let state = |kind: &str, name: &str| {
        let (status, reason, message) = ready(hub, kind, "flux-system", name);
        format!("{kind}/{name}: {status} {reason}: {message}")
    };
    let until = |kind: &str, name: &str, expected: &str| {
        world.eventually(&format!("{name} is {expected}"), || {
            let state = state(kind, name);
            state.contains(expected).then_some(()).ok_or(state)
        });
    };
    until("Kustomization", "later", "DependencyNotReady");
    let aws = world.ministack.aws();
    for host in ["gitlab", "gitea", "bitbucket", "azuredevops"] {
        aws.put_secret(&format!("driftless/{host}/webhook"), "of-the-host");
    }
    aws.put_secret("driftless/remotes/hub/flux-system/edge", &hub.kubeconfig());
    let objects = [
        ("Kustomization", "apps"),
        ("Kustomization", "remote"),
        ("Kustomization", "later"),
        ("HelmRelease", "app"),
        ("Receiver", "hook"),
        ("GitRepository", "other"),
        ("Kustomization", "elsewhere"),
    ];
    for (kind, name) in objects {
        until(kind, name, ": True");
    }
    until("Kustomization", "refused", ": False");
    deliver(world, hub);
    world.capsule();
    plan(world);
    dashboard(world);
    rehearse(world);

    // Records and artifacts are damaged, and an object whose steps were cut off runs isolated.
    let bucket = world.stack.output("Bucket");
    world.settle();
    for prefix in [
        "artifacts/",
        "commits/",
        "charts/",
        "journal/",
        "objects/",
        "notifications/",
    ] {
        for key in aws.keys(bucket, prefix) {
            aws.put_object(bucket, &key, b"damaged");
        }
    }
    let cut_off = json!({"interruptions": 3, "lease": {"nonce": "", "until": 0}, "awaited": false, "hops": 0, "said": "", "failures": 0});
    let key = "objects/hub/kustomizations/flux-system/apps.json";
    aws.put_object(bucket, key, cut_off.to_string().as_bytes());
    // Each function starts anew, with nothing in memory.
    for (process, _) in world.ministack.functions() {
        let mut end = Command::new("kill");
        process::run(end.arg(process.to_string()));
    }
    // The new source and release find the notes of the others.
    let changed = [
        Change::write("apps/config.yaml", CONFIG.replace("{}", "{a: b}")),
        other("again"),
        release("again"),
    ];
    world.commit(FLEET, &changed);
    for (kind, name) in [("GitRepository", "flux-system")]
        .into_iter()
        .chain(objects)
        .chain([
            ("HelmChart", "flux-system-app"),
            ("HelmRepository", "charts"),
        ])
    {
        world.request("hub", kind, "flux-system", name, "changed");
    }
    world.sweep();
    world.settle();

    // Everything is deleted.
    let removed = [
        "Receiver-hook",
        "Kustomization-elsewhere",
        "GitRepository-other",
        "HelmRelease-app",
        "Kustomization-apps",
    ];
    let removed = removed.map(|name| Change::remove(&format!("clusters/hub/{name}.yaml")));
    let pushed = Site::push(world, FLEET, &removed);
    accepted(&pushed);
    world.eventually("the objects are gone", || {
        match hub.find(&path("Receiver", "flux-system", "hook")) {
            Some(_) => Err(state("Receiver", "hook")),
            None => Ok(()),
        }
    });
    world.sweep();
    world.settle();

    // GitHub asks for a wait, which is shared with the other functions.
    let limited = Fault::Limited {
        status: 429,
        retry_after: 20,
    };
    world.github.fail("git/ref", limited, 1);
    world.request("hub", "GitRepository", "flux-system", "again", "changed");
    world.eventually("the wait is recorded", || {
        match aws.keys(bucket, "limits/").is_empty() {
            true => Err(state("GitRepository", "again")),
            false => Ok(()),
        }
    });
}

/// Registers the hub with a proxy of Capsule: the capsule function then reads its kubeconfig.
fn capsule_proxy(world: &World, hub: &dyn Node) {
    let kubeconfig = hub.kubeconfig();
    let line = |key: &str| {
        let mut lines = kubeconfig.lines();
        let found = lines.find_map(|line| line.trim().strip_prefix(key));
        found.expect("a line").trim().trim_matches('"').to_owned()
    };
    let directory = tempfile::tempdir().expect("a directory");
    let authority = directory.path().join("ca.crt");
    let encoded = line("certificate-authority-data:");
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
    std::fs::write(&authority, decoded.expect("base64")).expect("write the authority");
    let authority = authority.to_str().expect("a path");
    let server = line("server:");
    world.bootstrap(
        &HUB,
        &["--capsule-proxy", &server, "--capsule-proxy-ca", authority],
    );
}

/// Lets the plan function comment on a pull request, and again when its record is damaged.
fn plan(world: &World) {
    // The login of the other functions may not comment.
    world.github.add_token("a-token", &[FLEET]);
    let aws = world.ministack.aws();
    aws.put_secret("driftless/github/token", "a-token");
    let fleet = world.repository(FLEET);
    // That of a private repository also reads the live clusters and the other sources.
    fleet.set_private(true);
    fleet.reset("change", &fleet.resolve("main").expect("a head"));
    let changed = Change::write("apps/config.yaml", CONFIG.replace("{}", "{planned: \"1\"}"));
    fleet.commit("change", &[changed], "Change by a pull request");
    let pull = world.github.open_pull_request(&fleet, "change", "main");
    accepted(&pull.deliveries);
    let commented = |expected: &str| {
        world.eventually(&format!("the comment has {expected}"), || {
            let comments = world.github.comments(&fleet, pull.number);
            let text = comments.first().map(|one| one["body"].to_string());
            let text = text.unwrap_or_default();
            match text.contains(expected) {
                true => Ok(()),
                false => Err(text),
            }
        });
    };
    commented("planned");
    let bucket = world.stack.output("Bucket");
    for key in aws.keys(bucket, "plans/") {
        aws.put_object(bucket, &key, b"damaged");
    }
    let changed = Change::write("apps/config.yaml", CONFIG.replace("{}", "{again: \"2\"}"));
    fleet.commit("change", &[changed], "Change the pull request");
    world
        .github
        .announce_pull_request(&fleet, pull.number, "synchronize");
    commented("again");
    fleet.set_private(false);
}

/// Asks the dashboard for the objects, and for the file of a failure.
fn dashboard(world: &World) {
    let aws = world.ministack.aws();
    let cookie_key = "0123456789abcdef0123456789abcdef";
    let login = json!({"clientId": "a", "clientSecret": "b", "cookieKey": cookie_key});
    aws.put_secret("driftless/dashboard/login", &login.to_string());
    let end = SystemTime::now().duration_since(UNIX_EPOCH);
    let end = (end.expect("a time after 1970") + LIMIT).as_millis();
    let end = u64::try_from(end).expect("milliseconds");
    let ticket = json!({"name": "auditor", "groups": [], "end": end, "id": "1"});
    let key = Key::new(cookie_key.as_bytes()).expect("a key");
    let cookie = format!("{SESSION_COOKIE}={}", key.seal("session", &ticket));
    let file = tools::workspace().join("events/dashboard-get.json");
    let event = std::fs::read_to_string(file).expect("the event");
    let event: Value = serde_json::from_str(&event).expect("JSON");
    let get = |path: &str| {
        let mut event = event.clone();
        event["rawPath"] = path.into();
        event["rawQueryString"] = "".into();
        event["requestContext"]["http"]["path"] = path.into();
        event["cookies"] = json!([cookie]);
        let answer = aws.invoke(world.stack.output("DashboardFunction"), &event);
        let answer = answer.unwrap_or_else(|error| panic!("{error:?}\n{}", world.logs()));
        assert_eq!(answer["statusCode"], 200, "{path}: {answer}");
        let body = answer["body"].as_str().unwrap_or_default();
        serde_json::from_str::<Value>(body).expect("JSON")
    };
    let pushes = get("/api/v1/pushes");
    assert!(pushes.to_string().contains("main@sha1:"), "{pushes}");
    let refused = get("/api/v1/objects/hub/Kustomization/flux-system/refused");
    let text = refused.to_string();
    assert!(text.contains("refused/service.yaml"), "{refused}");
}

/// Repeats the sweep until its rehearsals have read all that they may read: on a busy machine one
/// may exceed its time.
fn rehearse(world: &World) {
    let bucket = world.stack.output("Bucket");
    let mut places = ["hubs", "remotes", "tenants", "github"]
        .map(|directory| format!(":secret:driftless/{directory}/"))
        .to_vec();
    places.extend(["index", "receivers"].map(|directory| format!(":{bucket}/{directory}/")));
    world.within(3 * LIMIT, "the rehearsals have read each place", || {
        world.sweep();
        world.settle();
        let calls = world.ministack.calls();
        let has_read = |place: &String| {
            let of_drift = calls
                .iter()
                .filter(|(call, _)| call.role.contains("DriftRole"));
            of_drift
                .into_iter()
                .any(|(call, _)| call.resource.contains(place))
        };
        places.retain(|place| !has_read(place));
        match places.is_empty() {
            true => Ok(()),
            false => Err(format!("no read of {places:?}")),
        }
    });
}

/// Sends a delivery of every host and of the Receiver, and a message that cannot be read.
fn deliver(world: &World, hub: &dyn Node) {
    let aws = world.ministack.aws();
    let directory = tools::workspace().join("events");
    let event = |name: &str| -> Value {
        let text = std::fs::read_to_string(directory.join(name)).expect("an event");
        serde_json::from_str(&text).expect("JSON")
    };
    for host in [
        "push",
        "gitlab-push",
        "gitea-push",
        "bitbucket-push",
        "azuredevops-push",
    ] {
        let event = event(&format!("webhook-{host}.json"));
        aws.invoke(world.stack.output("WebhookFunction"), &event)
            .expect("an answer");
    }
    let receiver = hub.get(&path("Receiver", "flux-system", "hook"));
    let hook = receiver["status"]["webhookPath"].as_str().expect("a path");
    let url = world.webhook_url();
    let answer = Http::plain().post(&format!("{}{hook}", url.trim_end_matches('/')), &json!({}));
    assert_eq!(answer.status, 200, "{}", answer.text());

    let broken = event("reconcile-sqs-broken.json");
    for (function, queue) in [
        ("ReconcileFunction", "QueueUrl"),
        ("IsolatedFunction", "IsolatedQueueUrl"),
        ("PlanFunction", "PlanQueueUrl"),
    ] {
        let name = world
            .stack
            .output(queue)
            .rsplit('/')
            .next()
            .expect("a name");
        let mut broken = broken.clone();
        for record in broken["Records"].as_array_mut().expect("records") {
            record["eventSourceARN"] = json!(format!("arn:aws:sqs:us-east-1:000000000000:{name}"));
        }
        let answer = aws
            .invoke(world.stack.output(function), &broken)
            .expect("an answer");
        assert_ne!(answer["batchItemFailures"], json!([]));
    }
}
