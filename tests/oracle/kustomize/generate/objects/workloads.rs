//! Pods, workloads, and their autoscalers and disruption budgets.

use super::scalars::value_text;
use super::storage::claim_spec;
use super::{
    ACCOUNTS, CLAIMS, CONFIG_MAPS, IMAGES, Object, SECRETS, WORKLOADS, annotations, labels, start,
};
use crate::generate::yaml::{Quote, Yaml, list, map, plain, text};
use driftless_harness::random::Random;

pub(super) fn workload(
    random: &mut Random,
    api_version: &'static str,
    kind: &'static str,
) -> Object {
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

pub(super) fn claim_template(random: &mut Random) -> Yaml {
    let mut metadata = map([("name", text(random.pick(&CLAIMS)))]);
    if random.percent(50) {
        metadata.push("labels", labels(random));
    }
    map([("metadata", metadata), ("spec", claim_spec(random))])
}

pub(super) fn cron_job(random: &mut Random) -> Object {
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

pub(super) fn pod(random: &mut Random) -> Object {
    let name = random.pick(&WORKLOADS);
    let mut made = start(random, "v1", "Pod", name, false);
    made.body.push("spec", pod_spec(random));
    made
}

pub(super) fn template(random: &mut Random) -> Yaml {
    let mut metadata = map([("labels", labels(random))]);
    if random.percent(15) {
        metadata.push("annotations", annotations(random));
    }
    map([("metadata", metadata), ("spec", pod_spec(random))])
}

pub(super) fn pod_spec(random: &mut Random) -> Yaml {
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

pub(super) fn volumes(random: &mut Random) -> Vec<Yaml> {
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

pub(super) fn container(name: &str, random: &mut Random) -> Yaml {
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

pub(super) fn ports(random: &mut Random) -> Vec<Yaml> {
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

pub(super) fn variable(at: usize, random: &mut Random) -> Yaml {
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

pub(super) fn autoscaler(random: &mut Random) -> Object {
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

pub(super) fn disruption_budget(random: &mut Random) -> Object {
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
