//! Services, Ingresses, network policies and webhooks.

use super::{NAMESPACES, Object, SECRETS, WORKLOADS, labels, start};
use crate::generate::yaml::{list, map, plain, text};
use driftless_harness::random::Random;

pub(super) fn service(random: &mut Random) -> Object {
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

pub(super) fn ingress(random: &mut Random) -> Object {
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

pub(super) fn network_policy(random: &mut Random) -> Object {
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

pub(super) fn webhooks(random: &mut Random) -> Object {
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
