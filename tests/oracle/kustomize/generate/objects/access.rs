//! Accounts, roles and bindings.

use super::{ACCOUNTS, CONFIG_MAPS, NAMESPACES, Object, SECRETS, labels, start};
use crate::generate::yaml::{Quote, Yaml, list, map, text};
use driftless_harness::random::Random;

pub(super) fn service_account(random: &mut Random) -> Object {
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

pub(super) fn role(random: &mut Random, kind: &'static str) -> Object {
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

pub(super) fn binding(random: &mut Random, kind: &'static str) -> Object {
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
