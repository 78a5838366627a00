//! Kubernetes objects that refer to each other: their names come from small pools.

mod access;
mod network;
mod scalars;
mod storage;
mod workloads;

use crate::generate::yaml::{Yaml, block, list, map, plain, text};
use access::{binding, role, service_account};
use driftless_harness::random::Random;
use network::{ingress, network_policy, service, webhooks};
use scalars::restyle;
pub use scalars::{scalar, value_text};
use storage::{claim, volume};
use workloads::{autoscaler, cron_job, disruption_budget, pod, workload};

/// An object that a layer can see.
#[derive(Clone, Debug)]
pub struct Object {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub name: String,
    pub namespace: Option<&'static str>,
    pub body: Yaml,
}

pub const NAMESPACES: [&str; 3] = ["alpha", "beta", "default"];
pub const LABELS: [&str; 5] = [
    "app",
    "tier",
    "app.kubernetes.io/name",
    "env",
    "example.com/team",
];
pub const VARS: [&str; 3] = ["HOST", "PORT", "IMAGE"];
const WORKLOADS: [&str; 4] = ["web", "api", "db", "cache"];
pub const CONFIG_MAPS: [&str; 3] = ["settings", "features", "web"];
pub const SECRETS: [&str; 3] = ["creds", "tls", "web"];
const ACCOUNTS: [&str; 3] = ["runner", "default", "web"];
const CLAIMS: [&str; 2] = ["data", "logs"];
pub const IMAGES: [&str; 7] = [
    "nginx",
    "nginx:1.25",
    "ghcr.io/acme/api:v1.2.3",
    "registry.local:5000/team/web",
    "registry.local:5000/team/web:dev@sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3",
    "redis@sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3",
    "$(IMAGE)",
];

type Maker = fn(&mut Random) -> Object;

/// Returns a random object.
pub fn object(random: &mut Random) -> Object {
    const MAKERS: [(usize, Maker); 23] = [
        (16, |r| workload(r, "apps/v1", "Deployment")),
        (6, |r| workload(r, "apps/v1", "StatefulSet")),
        (4, |r| workload(r, "apps/v1", "DaemonSet")),
        (3, |r| workload(r, "batch/v1", "Job")),
        (4, cron_job),
        (3, pod),
        (10, service),
        (9, config_map),
        (7, secret),
        (4, service_account),
        (3, |r| role(r, "Role")),
        (3, |r| role(r, "ClusterRole")),
        (5, |r| binding(r, "RoleBinding")),
        (3, |r| binding(r, "ClusterRoleBinding")),
        (4, ingress),
        (3, autoscaler),
        (2, disruption_budget),
        (3, claim),
        (2, volume),
        (3, namespace),
        (2, network_policy),
        (2, webhooks),
        (6, custom),
    ];
    let total = MAKERS.iter().map(|(weight, _)| weight).sum();
    let mut at = random.below(total);
    let maker = MAKERS.iter().find(|(weight, _)| {
        let here = at < *weight;
        at = at.wrapping_sub(*weight);
        here
    });
    let mut made = maker.expect("the weights add up").1(random);
    restyle(&mut made.body, random);
    made
}

/// Starts an object: its kind, name and namespace, and perhaps labels and annotations.
fn start(
    random: &mut Random,
    api_version: &'static str,
    kind: &'static str,
    name: &str,
    cluster: bool,
) -> Object {
    let namespace = (!cluster && random.percent(25)).then(|| random.pick(&NAMESPACES));
    let mut metadata = map([("name", text(name))]);
    if let Some(namespace) = namespace {
        metadata.push("namespace", text(namespace));
    }
    if random.percent(40) {
        metadata.push("labels", labels(random));
    }
    if random.percent(25) {
        metadata.push("annotations", annotations(random));
    }
    Object {
        api_version,
        kind,
        name: name.to_owned(),
        namespace,
        body: map([
            ("apiVersion", text(api_version)),
            ("kind", text(kind)),
            ("metadata", metadata),
        ]),
    }
}

/// Returns one or two labels.
pub fn labels(random: &mut Random) -> Yaml {
    let mut labels = map([]);
    let first = random.below(LABELS.len());
    for at in 0..=random.below(2) {
        labels.push(
            LABELS[(first + at) % LABELS.len()],
            text(random.pick(&["web", "api", "prod"])),
        );
    }
    labels
}

fn annotations(random: &mut Random) -> Yaml {
    let mut annotations = map([(
        random.pick(&["note", "example.com/owner", "a/b"]),
        value_text(random),
    )]);
    if random.percent(30) {
        annotations.push(
            "config.kubernetes.io/local-config",
            text(random.pick(&["false", "no", "true"])),
        );
    }
    annotations
}

fn config_map(random: &mut Random) -> Object {
    let name = random.pick(&CONFIG_MAPS);
    let mut made = start(random, "v1", "ConfigMap", name, false);
    let mut data = map([]);
    for key in ["mode", "app.yaml", "EXTRA"].iter().take(random.below(4)) {
        data.push(
            key,
            if *key == "app.yaml" {
                block("server:\n  port: 80\n# end\n")
            } else {
                value_text(random)
            },
        );
    }
    made.body.push("data", data);
    made
}

fn secret(random: &mut Random) -> Object {
    let name = random.pick(&SECRETS);
    let mut made = start(random, "v1", "Secret", name, false);
    if random.percent(50) {
        made.body.push("type", text("Opaque"));
    }
    if random.percent(60) {
        made.body.push("data", map([("token", text("aGVsbG8"))]));
    }
    if random.percent(60) {
        made.body
            .push("stringData", map([("plain", value_text(random))]));
    }
    made
}

fn namespace(random: &mut Random) -> Object {
    let name = random.pick(&NAMESPACES);
    start(random, "v1", "Namespace", name, true)
}

fn custom(random: &mut Random) -> Object {
    let name = random.pick(&["gadget", "web"]);
    let mut made = start(random, "example.com/v1", "Widget", name, false);
    let count = random.below(4);
    let items = (0..count).map(|at| {
        map([
            ("name", text(["a", "b", "c"][at])),
            ("value", scalar(random)),
        ])
    });
    let items = items.collect();
    let mut spec = map([("items", list(items)), ("any", scalar(random))]);
    if random.percent(40) {
        spec.push("list", list(vec![scalar(random), scalar(random)]));
    }
    if random.percent(40) {
        spec.push(
            "configMapRef",
            map([("name", text(random.pick(&CONFIG_MAPS)))]),
        );
    }
    if random.percent(20) {
        spec.push(
            "deep",
            map([("x.y/z", map([("number", plain(3))])), ("empty", map([]))]),
        );
    }
    made.body.push("spec", spec);
    made
}
