//! The harness's clusters behave like the clusters of a fleet.

use driftless_harness::cluster::{ADMIN, Cluster};
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"key": value},
    })
}

fn config_map_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
            },
        },
    })
}

#[test]
fn an_apply_is_counted_and_recorded() {
    let cluster = Cluster::start("counts");
    let version = cluster.api().get("/version").unwrap();
    assert_eq!(version["gitVersion"], "v1.36.3");

    let before = cluster.writes();
    let path = config_map_path("a");
    let created = cluster
        .api()
        .apply(&path, "tester", &config_map("a", "1"))
        .unwrap();
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "tester");
    let same = cluster
        .api()
        .apply(&path, "tester", &config_map("a", "1"))
        .unwrap();
    assert_eq!(
        same["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );

    let writes = cluster.writes().since(&before);
    assert_eq!((writes.of("APPLY"), writes.total()), (2, 2), "{writes:?}");

    let requests = cluster.requests();
    let applies: Vec<_> = requests.iter().filter(|r| r.is_write()).collect();
    assert_eq!(applies.len(), 2, "{requests:?}");
    assert_eq!(applies[0].user, ADMIN);
    assert_eq!(applies[0].name, "a");
    assert_eq!((applies[0].code, applies[1].code), (201, 200));
}

#[test]
fn clusters_are_apart_and_survive_a_stop() {
    let [hub, remote] = Cluster::start_all(["hub", "remote"]);
    assert_eq!((hub.name(), remote.name()), ("hub", "remote"));
    let path = config_map_path("only-remote");
    remote
        .api()
        .apply(&path, "tester", &config_map("only-remote", "1"))
        .unwrap();
    assert!(hub.api().find(&path).is_none());

    remote.stop();
    let address = remote.url().replace("https://", "");
    assert!(
        std::net::TcpStream::connect(&address).is_err(),
        "{address} still answers"
    );
    remote.resume();
    assert!(remote.api().find(&path).is_some());

    hub.add_remote("default", "remote-kubeconfig", &remote);
    let secret = hub
        .api()
        .get("/api/v1/namespaces/default/secrets/remote-kubeconfig")
        .unwrap();
    assert!(secret["data"]["value"].is_string());
}

#[test]
fn the_parts_of_the_controllers_are_played() {
    let cluster = Cluster::start("controllers");
    let path = format!("{DEPLOYMENTS}/web");
    cluster
        .api()
        .create(DEPLOYMENTS, &deployment("web"))
        .unwrap();
    cluster.make_ready("default", "web");
    let web = cluster.api().get(&path).unwrap();
    assert_eq!(web["status"]["availableReplicas"], 2);
    assert_eq!(
        web["status"]["observedGeneration"],
        web["metadata"]["generation"]
    );

    cluster.namespace("tenant");
    cluster.api().delete("/api/v1/namespaces/tenant").unwrap();
    assert!(cluster.api().find("/api/v1/namespaces/tenant").is_some());
    cluster.finish_namespace("tenant");
    assert!(cluster.api().find("/api/v1/namespaces/tenant").is_none());
}

#[test]
fn roles_are_enforced() {
    let cluster = Cluster::start("roles");
    let token = cluster.service_account_token("default", "tenant");
    let tenant = cluster.api_with_token(&token);
    let refused = tenant
        .get("/api/v1/namespaces/default/secrets")
        .unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    let stranger = cluster
        .api_with_token("no-such-token")
        .get("/api/v1/namespaces")
        .unwrap_err();
    assert_eq!(stranger.code, 401);
}
