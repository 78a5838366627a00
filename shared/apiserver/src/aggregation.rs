//! Aggregated cluster roles get their rules, as the controller `clusterroleaggregation` of kube-controller-manager 1.36
//! gives them, but at once.

use serde_json::{Value, json};

use crate::request::{Moment, Request, User};
use crate::selector::Labels;
use crate::server::Server;
use crate::store::{Key, Name};

const GROUP: &str = "rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Brings aggregated roles up to date with the cluster roles that were written since the last time.
pub(crate) fn run(server: &mut Server, moment: &Moment) {
    if server.aggregated == server.store.version() {
        return;
    }
    let key: Key = (GROUP.to_owned(), "clusterroles".to_owned());
    let is_old = server.aggregated < server.store.forgotten();
    let written = || {
        let mut since = server.store.since(server.aggregated);
        since.any(|event| event.key == key)
    };
    if is_old || written() {
        let mut moment = moment.clone();
        // A role may aggregate aggregated ones: a chain of them takes a round for each.
        let rounds = aggregated(server, &key).len();
        for _ in 0..rounds {
            let mut changed = false;
            for name in aggregated(server, &key) {
                changed |= fill(server, &key, &name, &mut moment);
            }
            if !changed {
                break;
            }
        }
    }
    server.aggregated = server.store.version();
}

/// The roles that have a rule of aggregation.
fn aggregated(server: &Server, key: &Key) -> Vec<Name> {
    let all = server.store.list(key, "", None);
    all.filter(|(_, role)| role["aggregationRule"].is_object())
        .map(|(name, _)| name.clone())
        .collect()
}

/// Applies to one role the rules that it shall have. Returns whether they are other ones than before.
fn fill(server: &mut Server, key: &Key, name: &Name, moment: &mut Moment) -> bool {
    let Some(role) = server.store.get(key, name) else {
        return false;
    };
    let Some(rules) = rules(server, key, name, role) else {
        return false;
    };
    if role["rules"].as_array().map_or(&[][..], Vec::as_slice) == rules {
        return false;
    }
    let mut config = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name.1},
    });
    if !rules.is_empty() {
        config["rules"] = Value::Array(rules);
    }
    let request = Request {
        method: "PATCH".to_owned(),
        path: format!("/apis/{GROUP}/v1/clusterroles/{}", name.1),
        query: format!("fieldManager={MANAGER}&force=true"),
        headers: vec![("content-type".into(), "application/apply-patch+yaml".into())],
        body: serde_json::to_vec(&config).unwrap_or_default(),
        user: User::admin(MANAGER),
    };
    moment.next();
    server.answer(&request, moment.clone()).is_ok()
}

/// The rules of the roles that the selectors find, each rule once; `None` for a selector that is not one.
fn rules(server: &Server, key: &Key, name: &Name, role: &Value) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    let mut out: Vec<Value> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for selector in selectors.into_iter().flatten() {
        let selector = Labels::of_object(selector).ok()?;
        for (of, other) in server.store.list(key, "", None) {
            if of == name || !selector.matches(other) {
                continue;
            }
            for rule in other["rules"].as_array().into_iter().flatten() {
                if seen.insert(rule.to_string()) {
                    out.push(rule.clone());
                }
            }
        }
    }
    Some(out)
}
