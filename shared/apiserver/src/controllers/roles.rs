//! Sets the rules of aggregated cluster roles, as the controller `clusterroleaggregation` of
//! kube-controller-manager 1.36 does, but at once.

use serde_json::{Value, json};

use crate::request::answer;
use crate::request::api::Api;
use crate::request::message::Request;
use crate::store::state::State;
use crate::store::{Key, Name};
use crate::user::User;
use crate::values::clock::Clock;
use driftless_manifest::labels::LabelSelector;

const GROUP: &str = "rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Updates aggregated roles if cluster roles were written since the version `done`, which it sets.
pub(crate) fn aggregate(api: &mut Api, done: &mut u64, clock: &Clock) {
    let store = &api.state.store;
    if *done == store.version() {
        return;
    }
    let key: Key = (GROUP.to_owned(), "clusterroles".to_owned());
    let is_written =
        *done < store.compacted_version() || store.since(*done).any(|event| event.key == key);
    if is_written {
        // An aggregated role may aggregate another one: a chain of n roles takes up to n rounds.
        let rounds = aggregated_roles(&api.state, &key).len();
        let mut clock = clock.clone();
        for _ in 0..rounds {
            let mut changed = false;
            for name in aggregated_roles(&api.state, &key) {
                changed |= fill(api, &key, &name, &mut clock);
            }
            if !changed {
                break;
            }
        }
    }
    *done = api.state.store.version();
}

/// Returns the roles with an aggregation rule.
fn aggregated_roles(state: &State, key: &Key) -> Vec<Name> {
    let all = state.store.list(key, "", None);
    all.filter(|(_, role)| role["aggregationRule"].is_object())
        .map(|(name, _)| name.clone())
        .collect()
}

/// Applies the aggregated rules to one role. Returns whether the rules changed.
fn fill(api: &mut Api, key: &Key, name: &Name, clock: &mut Clock) -> bool {
    let Some(role) = api.state.store.get(key, name) else {
        return false;
    };
    let Some(rules) = rules(&api.state, key, name, role) else {
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
    clock.next();
    answer(api, &request, clock.clone()).is_ok()
}

/// Returns the rules of the selected roles without duplicates; `None` when a selector is not valid.
fn rules(state: &State, key: &Key, name: &Name, role: &Value) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    let mut out: Vec<Value> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for selector in selectors.into_iter().flatten() {
        let selector = LabelSelector::of_object(selector).ok()?;
        for (of, other) in state.store.list(key, "", None) {
            if of == name || !selector.matches_object(other) {
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
