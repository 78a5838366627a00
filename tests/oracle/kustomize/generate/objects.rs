//! Kubernetes objects that refer to each other: their names come from small pools.

use super::yaml::{Layout, Quote, Yaml, block, list, map, plain, text};
use driftless_tests::random::Random;

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

/// A random object.
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

/// A scalar that YAML or Go may take for something else.
pub fn scalar(random: &mut Random) -> Yaml {
    const PLAIN: [&str; 33] = [
        "1",
        "0",
        "-7",
        "8080",
        "1.0",
        "2.50",
        "1e3",
        "1.5e-7",
        "0x1F",
        "0o17",
        "017",
        "1_000",
        "true",
        "False",
        "yes",
        "off",
        "null",
        "~",
        "2024-01-02",
        "12:30:45",
        "1Gi",
        "500m",
        ".5",
        "+1",
        "v1.2.3",
        "1.2.3",
        "0b101",
        "=",
        "NaN",
        "-x",
        "123456789012345678901234567890",
        "a b",
        "x:y",
    ];
    const TEXTS: [&str; 26] = [
        "",
        " ",
        "text",
        "two words",
        "1",
        "true",
        "null",
        "1.0",
        "yes",
        "2024-01-02",
        "0x1F",
        "a: b",
        "# no",
        "- x",
        "tab\there",
        "trailing ",
        " leading",
        "quote \" and '",
        "back\\slash",
        "é ü 漢字 🙂",
        "line\nbreak",
        "two\nlines\n",
        "*star",
        "&and",
        "<a> & b",
        "a rather long text that goes on for more than eighty characters so that a writer may think of folding it somewhere",
    ];
    match random.below(10) {
        0..=3 => plain(random.pick(&PLAIN)),
        4..=7 => {
            let quote = random.pick(&[Quote::Single, Quote::Double]);
            Yaml::Quoted(random.pick(&TEXTS).to_owned(), quote)
        }
        8 => text(random.pick(&["word", "some-name", "a.b.c", "path/to"])),
        _ => {
            let mark = random.pick(&["|", "|-", "|+", ">", ">-"]);
            let lines = [
                "first\nsecond",
                "one line",
                "a\n\nb",
                "key: value\nlist:\n- x",
                "end   \nnext",
                "x\n  deep\ny",
            ];
            // The last one in a folded block is a known gap where a patch puts it into a list in flow style.
            let known = if mark.starts_with('>') {
                lines.len() - 1
            } else {
                lines.len()
            };
            Yaml::Block(random.pick(&lines[..known]).to_owned(), mark)
        }
    }
}

/// Writes some parts in another way.
fn restyle(node: &mut Yaml, random: &mut Random) {
    match node {
        Yaml::Map(fields, layout) => {
            if random.percent(4) {
                *layout = Layout::Flow;
            }
            fields
                .iter_mut()
                .for_each(|(_, value)| restyle(value, random));
        }
        Yaml::List(items, layout) => {
            *layout = match random.below(20) {
                0 => Layout::Flow,
                1..=5 => Layout::Indented,
                _ => *layout,
            };
            items.iter_mut().for_each(|item| restyle(item, random));
        }
        Yaml::Plain(text)
            if random.percent(3) && text.bytes().all(|byte| byte.is_ascii_alphabetic()) =>
        {
            *node = Yaml::Quoted(text.clone(), random.pick(&[Quote::Single, Quote::Double]));
        }
        _ => {}
    }
}

/// Kind, name and namespace, and the labels and annotations that it may have.
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

/// A label or two.
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

/// A value where only a text is allowed.
pub fn value_text(random: &mut Random) -> Yaml {
    match scalar(random) {
        Yaml::Plain(plain) => Yaml::Quoted(plain, Quote::Double),
        other => other,
    }
}

fn workload(random: &mut Random, api_version: &'static str, kind: &'static str) -> Object {
    let name = random.pick(&WORKLOADS);
    let mut made = start(random, api_version, kind, name, false);
    let mut spec = map([]);
    if kind != "DaemonSet" && kind != "Job" && random.percent(60) {
        spec.push("replicas", plain(random.below(5)));
    }
    if kind != "Job" {
        spec.push("selector", map([("matchLabels", labels(random))]));
    }
    if kind == "StatefulSet" {
        spec.push("serviceName", text(random.pick(&WORKLOADS)));
        if random.percent(60) {
            spec.push("volumeClaimTemplates", list(vec![claim_template(random)]));
        }
    }
    if kind == "Deployment" && random.percent(20) {
        let rolling = map([("maxSurge", plain(1)), ("maxUnavailable", plain("25%"))]);
        spec.push(
            "strategy",
            map([("type", text("RollingUpdate")), ("rollingUpdate", rolling)]),
        );
    }
    spec.push("template", template(random));
    made.body.push("spec", spec);
    made
}

fn claim_template(random: &mut Random) -> Yaml {
    let mut metadata = map([("name", text(random.pick(&CLAIMS)))]);
    if random.percent(50) {
        metadata.push("labels", labels(random));
    }
    map([("metadata", metadata), ("spec", claim_spec(random))])
}

fn claim_spec(random: &mut Random) -> Yaml {
    let mut spec = map([("accessModes", list(vec![text("ReadWriteOnce")]))]);
    if random.percent(50) {
        spec.push("storageClassName", text(random.pick(&["fast", "slow"])));
    }
    spec.push(
        "resources",
        map([("requests", map([("storage", plain("1Gi"))]))]),
    );
    spec
}

fn cron_job(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let version = random.pick(&["batch/v1", "batch/v1beta1"]);
    let mut made = start(random, version, "CronJob", name, false);
    let job = map([("spec", map([("template", template(random))]))]);
    made.body.push(
        "spec",
        map([
            (
                "schedule",
                Yaml::Quoted("*/5 * * * *".to_owned(), Quote::Single),
            ),
            ("jobTemplate", job),
        ]),
    );
    made
}

fn pod(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let mut made = start(random, "v1", "Pod", name, false);
    made.body.push("spec", pod_spec(random));
    made
}

fn template(random: &mut Random) -> Yaml {
    let mut metadata = map([("labels", labels(random))]);
    if random.percent(15) {
        metadata.push("annotations", annotations(random));
    }
    map([("metadata", metadata), ("spec", pod_spec(random))])
}

fn pod_spec(random: &mut Random) -> Yaml {
    let mut spec = map([]);
    if random.percent(40) {
        spec.push("serviceAccountName", text(random.pick(&ACCOUNTS)));
    }
    if random.percent(20) {
        let item = |random: &mut Random| map([("name", text(random.pick(&SECRETS)))]);
        spec.push("imagePullSecrets", list(vec![item(random)]));
    }
    if random.percent(20) {
        spec.push("initContainers", list(vec![container("init", random)]));
    }
    let mut containers = vec![container("main", random)];
    if random.percent(30) {
        containers.push(container("sidecar", random));
    }
    spec.push("containers", list(containers));
    if random.percent(40) {
        spec.push("volumes", list(volumes(random)));
    }
    if random.percent(15) {
        let toleration = map([
            ("key", text("dedicated")),
            ("operator", text("Exists")),
            ("effect", text("NoSchedule")),
        ]);
        spec.push("tolerations", list(vec![toleration]));
    }
    if random.percent(10) {
        let spread = map([
            ("maxSkew", plain(1)),
            ("topologyKey", text("kubernetes.io/hostname")),
            ("whenUnsatisfiable", text("DoNotSchedule")),
            ("labelSelector", map([("matchLabels", labels(random))])),
        ]);
        spec.push("topologySpreadConstraints", list(vec![spread]));
    }
    spec
}

fn volumes(random: &mut Random) -> Vec<Yaml> {
    let mut volumes = vec![map([
        ("name", text("config")),
        (
            "configMap",
            map([("name", text(random.pick(&CONFIG_MAPS)))]),
        ),
    ])];
    if random.percent(40) {
        let secret = map([("secretName", text(random.pick(&SECRETS)))]);
        volumes.push(map([("name", text("secret")), ("secret", secret)]));
    }
    if random.percent(30) {
        let claim = map([("claimName", text(random.pick(&CLAIMS)))]);
        volumes.push(map([
            ("name", text("claim")),
            ("persistentVolumeClaim", claim),
        ]));
    }
    if random.percent(20) {
        let source = map([(
            "configMap",
            map([("name", text(random.pick(&CONFIG_MAPS)))]),
        )]);
        let projected = map([("sources", list(vec![source]))]);
        volumes.push(map([("name", text("projected")), ("projected", projected)]));
    }
    if random.percent(20) {
        volumes.push(map([("name", text("scratch")), ("emptyDir", map([]))]));
    }
    volumes
}

fn container(name: &str, random: &mut Random) -> Yaml {
    let mut container = map([("name", text(name)), ("image", text(random.pick(&IMAGES)))]);
    if random.percent(40) {
        let count = 1 + random.below(3);
        container.push(
            "env",
            list((0..count).map(|at| variable(at, random)).collect()),
        );
    }
    if random.percent(20) {
        let field = random.pick(&["configMapRef", "secretRef"]);
        let pool = if field == "secretRef" {
            &SECRETS
        } else {
            &CONFIG_MAPS
        };
        container.push(
            "envFrom",
            list(vec![map([(
                field,
                map([("name", text(random.pick(pool)))]),
            )])]),
        );
    }
    if random.percent(40) {
        container.push("ports", list(ports(random)));
    }
    if random.percent(25) {
        let args = [
            "--host=$(HOST)",
            "$(PORT)",
            "--x",
            "$$(HOST)",
            "$(NONE)",
            "a b",
        ];
        container.push(
            "args",
            list(vec![text(random.pick(&args)), text(random.pick(&args))]),
        );
    }
    if random.percent(25) {
        let limits = map([
            ("cpu", plain(random.pick(&["1", "500m", "0.5"]))),
            ("memory", plain("1Gi")),
        ]);
        container.push("resources", map([("limits", limits)]));
    }
    if random.percent(25) {
        let mount = map([("name", text("config")), ("mountPath", text("/etc/config"))]);
        container.push("volumeMounts", list(vec![mount]));
    }
    container
}

fn ports(random: &mut Random) -> Vec<Yaml> {
    let mut port = map([("containerPort", plain(8080))]);
    if random.percent(50) {
        port.push("name", text("http"));
    }
    if random.percent(40) {
        port.push("protocol", text("TCP"));
    }
    let mut ports = vec![port];
    if random.percent(30) {
        ports.push(map([
            ("containerPort", plain(random.pick(&[8080, 9090]))),
            ("protocol", text("UDP")),
        ]));
    }
    ports
}

fn variable(at: usize, random: &mut Random) -> Yaml {
    let name = text(["MODE", "TOKEN", "ADDRESS"][at]);
    let key = map([
        ("name", text(random.pick(&CONFIG_MAPS))),
        ("key", text("mode")),
    ]);
    match random.below(5) {
        0 => map([
            ("name", name),
            ("valueFrom", map([("configMapKeyRef", key)])),
        ]),
        1 => {
            let key = map([
                ("name", text(random.pick(&SECRETS))),
                ("key", text("token")),
            ]);
            map([("name", name), ("valueFrom", map([("secretKeyRef", key)]))])
        }
        2 => map([("name", name), ("value", text("$(HOST):$(PORT)"))]),
        _ => map([("name", name), ("value", value_text(random))]),
    }
}

fn service(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let mut made = start(random, "v1", "Service", name, false);
    let mut spec = map([("selector", labels(random))]);
    let mut ports = vec![map([
        ("name", text("http")),
        ("port", plain(80)),
        ("targetPort", text("http")),
    ])];
    if random.percent(40) {
        ports.push(map([
            ("name", text("metrics")),
            ("port", plain(9090)),
            ("protocol", text("TCP")),
        ]));
    }
    spec.push("ports", list(ports));
    if random.percent(20) {
        spec.push("type", text("LoadBalancer"));
    }
    made.body.push("spec", spec);
    made
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

fn service_account(random: &mut Random) -> Object {
    let name = random.pick(&ACCOUNTS);
    let mut made = start(random, "v1", "ServiceAccount", name, false);
    if random.percent(40) {
        let item = map([("name", text(random.pick(&SECRETS)))]);
        made.body.push(
            random.pick(&["secrets", "imagePullSecrets"]),
            list(vec![item]),
        );
    }
    made
}

fn role(random: &mut Random, kind: &'static str) -> Object {
    let name = random.pick(&["reader", "writer", "web"]);
    let mut made = start(
        random,
        "rbac.authorization.k8s.io/v1",
        kind,
        name,
        kind == "ClusterRole",
    );
    let mut rule = map([
        (
            "apiGroups",
            list(vec![Yaml::Quoted(String::new(), Quote::Double)]),
        ),
        ("resources", list(vec![text("configmaps")])),
        (
            "verbs",
            list(vec![
                text("get"),
                Yaml::Quoted("*".to_owned(), Quote::Single),
            ]),
        ),
    ]);
    if random.percent(40) {
        rule.push(
            "resourceNames",
            list(vec![
                text(random.pick(&CONFIG_MAPS)),
                text(random.pick(&CONFIG_MAPS)),
            ]),
        );
    }
    made.body.push("rules", list(vec![rule]));
    if kind == "ClusterRole" && random.percent(30) {
        let selector = map([("matchLabels", labels(random))]);
        made.body.push(
            "aggregationRule",
            map([("clusterRoleSelectors", list(vec![selector]))]),
        );
    }
    made
}

fn binding(random: &mut Random, kind: &'static str) -> Object {
    let name = random.pick(&["reader", "writer", "web"]);
    let mut made = start(
        random,
        "rbac.authorization.k8s.io/v1",
        kind,
        name,
        kind == "ClusterRoleBinding",
    );
    let role = if kind == "ClusterRoleBinding" {
        "ClusterRole"
    } else {
        random.pick(&["Role", "ClusterRole"])
    };
    let reference = map([
        ("apiGroup", text("rbac.authorization.k8s.io")),
        ("kind", text(role)),
        ("name", text(random.pick(&["reader", "writer", "web"]))),
    ]);
    made.body.push("roleRef", reference);
    let mut subject = map([
        ("kind", text("ServiceAccount")),
        ("name", text(random.pick(&ACCOUNTS))),
    ]);
    if random.percent(60) {
        subject.push("namespace", text(random.pick(&NAMESPACES)));
    }
    let group = map([
        ("kind", text("Group")),
        ("name", text("system:masters")),
        ("apiGroup", text("rbac.authorization.k8s.io")),
    ]);
    let subjects = if random.percent(30) {
        vec![subject, group]
    } else {
        vec![subject]
    };
    made.body.push("subjects", list(subjects));
    made
}

fn ingress(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let mut made = start(random, "networking.k8s.io/v1", "Ingress", name, false);
    let service = map([
        ("name", text(random.pick(&WORKLOADS))),
        ("port", map([("number", plain(80))])),
    ]);
    let path = map([
        ("path", text("/")),
        ("pathType", text("Prefix")),
        ("backend", map([("service", service)])),
    ]);
    let rule = map([
        ("host", text(random.pick(&["$(HOST)", "example.com"]))),
        ("http", map([("paths", list(vec![path]))])),
    ]);
    let mut spec = map([("rules", list(vec![rule]))]);
    if random.percent(40) {
        let tls = map([
            ("secretName", text(random.pick(&SECRETS))),
            ("hosts", list(vec![text("example.com")])),
        ]);
        spec.push("tls", list(vec![tls]));
    }
    if random.percent(30) {
        spec.push("ingressClassName", text("nginx"));
    }
    made.body.push("spec", spec);
    made
}

fn autoscaler(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let version = random.pick(&["autoscaling/v2", "autoscaling/v1"]);
    let mut made = start(random, version, "HorizontalPodAutoscaler", name, false);
    let target = map([
        ("apiVersion", text("apps/v1")),
        ("kind", text(random.pick(&["Deployment", "StatefulSet"]))),
        ("name", text(random.pick(&WORKLOADS))),
    ]);
    made.body.push(
        "spec",
        map([
            ("scaleTargetRef", target),
            ("minReplicas", plain(1)),
            ("maxReplicas", plain(5)),
        ]),
    );
    made
}

fn disruption_budget(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let mut made = start(random, "policy/v1", "PodDisruptionBudget", name, false);
    let selector = map([("matchLabels", labels(random))]);
    made.body.push(
        "spec",
        map([
            ("minAvailable", plain(random.pick(&["1", "50%"]))),
            ("selector", selector),
        ]),
    );
    made
}

fn claim(random: &mut Random) -> Object {
    let name = random.pick(&CLAIMS);
    let mut made = start(random, "v1", "PersistentVolumeClaim", name, false);
    let mut spec = claim_spec(random);
    if random.percent(40) {
        spec.push("volumeName", text("disk"));
    }
    made.body.push("spec", spec);
    made
}

fn volume(random: &mut Random) -> Object {
    if random.percent(40) {
        let mut made = start(random, "storage.k8s.io/v1", "StorageClass", "fast", true);
        made.body.push("provisioner", text("example.com/disk"));
        return made;
    }
    let mut made = start(random, "v1", "PersistentVolume", "disk", true);
    let claim = map([
        ("name", text(random.pick(&CLAIMS))),
        ("namespace", text(random.pick(&NAMESPACES))),
    ]);
    made.body.push(
        "spec",
        map([("storageClassName", text("fast")), ("claimRef", claim)]),
    );
    made
}

fn namespace(random: &mut Random) -> Object {
    let name = random.pick(&NAMESPACES);
    start(random, "v1", "Namespace", name, true)
}

fn network_policy(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let mut made = start(random, "networking.k8s.io/v1", "NetworkPolicy", name, false);
    let selector = |random: &mut Random| map([("matchLabels", labels(random))]);
    let from = map([("podSelector", selector(random))]);
    let rule = map([("from", list(vec![from]))]);
    made.body.push(
        "spec",
        map([
            ("podSelector", selector(random)),
            ("ingress", list(vec![rule])),
        ]),
    );
    made
}

fn webhooks(random: &mut Random) -> Object {
    let kind = random.pick(&[
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    ]);
    let mut made = start(
        random,
        "admissionregistration.k8s.io/v1",
        kind,
        "guard",
        true,
    );
    let service = map([
        ("name", text(random.pick(&WORKLOADS))),
        ("namespace", text(random.pick(&NAMESPACES))),
    ]);
    let hook = map([
        ("name", text("guard.example.com")),
        ("clientConfig", map([("service", service)])),
    ]);
    made.body.push("webhooks", list(vec![hook]));
    made
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
