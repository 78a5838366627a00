//! The objects of a new cluster: namespaces, and the default roles of RBAC.

use serde_json::{Value, json};

use crate::request::answer;
use crate::request::api::Api;
use crate::request::message::Request;
use crate::user::User;
use crate::values::clock::Clock;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Fills a new server, as the API server does when it starts.
pub(crate) fn fill(api: &mut Api, mut clock: Clock) {
    for name in NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(api, "/api/v1/namespaces", &object, &mut clock);
    }
    let roles: Value = serde_json::from_str(include_str!("bootstrap.json")).unwrap_or_default();
    for object in roles.as_array().into_iter().flatten() {
        let plural = match object["kind"].as_str() {
            Some("ClusterRole") => "clusterroles",
            _ => "clusterrolebindings",
        };
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
        create(api, &path, object, &mut clock);
    }
}

fn create(api: &mut Api, path: &str, object: &Value, clock: &mut Clock) {
    let request = Request {
        method: "POST".into(),
        path: path.to_owned(),
        headers: vec![("user-agent".into(), "kube-apiserver".into())],
        body: object.to_string().into_bytes(),
        user: User::admin("system:apiserver"),
        ..Request::default()
    };
    clock.next();
    let created = answer(api, &request, clock.clone());
    debug_assert!(created.is_ok(), "{path}: {created:?}");
}
