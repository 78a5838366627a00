//! Tests of an embedded API server through each of its clients: kube's client, the core's port, a
//! kubeconfig, HTTPS.

use std::sync::Arc;
use std::time::Duration;

use driftless_adapters::cluster::KubeClusters;
use driftless_adapters::embedded::{Embedded, EmbeddedClusters, kubeconfig};
use driftless_adapters::local::SystemClock;
use driftless_apiserver::User;
use driftless_kernel::kubeconfig::{Options, parse};
use driftless_kernel::ports::{
    ApplyRequest, Cluster, Clusters, ErrorKind, Impersonation, Login, Secret,
};
use driftless_manifest::{Gvk, Object};
use futures::io::AsyncBufReadExt;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

fn server() -> Embedded {
    Embedded::new(Arc::new(SystemClock))
}

fn config_map(name: &str) -> Object {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"a": "1"},
    });
    Object::new(value).unwrap()
}

async fn apply(
    cluster: &dyn Cluster,
    name: &str,
) -> Result<Object, driftless_kernel::ports::PortError> {
    let gvk = Gvk::new("v1", "ConfigMap");
    let resource = cluster.resource(&gvk).await?.unwrap();
    let request = ApplyRequest {
        resource: &resource,
        object: &config_map(name),
        manager: "test",
        force: true,
        dry_run: false,
    };
    cluster.apply(&request).await
}

fn request(uri: &str) -> http::Request<Vec<u8>> {
    http::Request::get(uri).body(Vec::new()).unwrap()
}

#[tokio::test]
async fn kube_reaches_it_without_a_socket() {
    let server = server();
    let client = kube::Client::new(server.service(User::admin("me")), "default");
    let answer: Value = client
        .request(request("/api/v1/namespaces/default"))
        .await
        .unwrap();
    assert_eq!(answer["kind"], "Namespace");
    let missing = client
        .request::<Value>(request("/api/v1/namespaces/x"))
        .await;
    assert!(matches!(missing, Err(kube::Error::Api(status)) if status.code == 404));
}

#[tokio::test]
async fn a_watch_streams_what_happens() {
    let server = server();
    let client = kube::Client::new(server.service(User::admin("me")), "default");
    let uri = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=60";
    let mut lines = client.request_stream(request(uri)).await.unwrap().lines();
    let cluster = server.cluster(User::admin("me"), "test").unwrap();
    for name in ["a", "b"] {
        apply(&cluster, name).await.unwrap();
        let line = tokio::time::timeout(Duration::from_secs(5), lines.next()).await;
        let event: Value = serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!(name))
        );
    }
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over() {
    let server = server();
    let client = kube::Client::new(server.service(User::admin("me")), "default");
    let uri = "/api/v1/namespaces?watch=true&timeoutSeconds=1";
    let lines = client.request_stream(request(uri)).await.unwrap().lines();
    let lines: Vec<String> = lines.try_collect().await.unwrap();
    assert_eq!(lines.len(), 4, "the namespaces of every cluster");
}

#[tokio::test]
async fn a_deleted_namespace_goes_with_what_is_in_it() {
    let server = server();
    let cluster = server.cluster(User::admin("me"), "test").unwrap();
    apply(&cluster, "a").await.unwrap();
    let client = kube::Client::new(server.service(User::admin("me")), "default");
    let delete = http::Request::delete("/api/v1/namespaces/kube-node-lease")
        .body(Vec::new())
        .unwrap();
    client.request::<Value>(delete).await.unwrap();
    let gone = client
        .request::<Value>(request("/api/v1/namespaces/kube-node-lease"))
        .await;
    assert!(
        matches!(gone, Err(kube::Error::Api(status)) if status.code == 404),
        "deleted without a controller"
    );
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_server_of_its_address() {
    let (a, b) = (server(), server());
    let clusters = EmbeddedClusters::new();
    clusters.add("https://a.demo.internal", &a);
    clusters.add("https://b.demo.internal/", &b);
    let text = kubeconfig("https://a.demo.internal", None, &a.token(User::admin("me")));
    let access = parse(text.as_bytes(), &Options::default()).unwrap();
    let cluster = clusters.connect(&access, None).await.unwrap();
    apply(cluster.as_ref(), "x").await.unwrap();
    let count = |server: &Embedded| server.with(|server, _| server.version());
    assert!(count(&a) > count(&b), "only the first has the object");

    // The token of one server is not valid for another, and other addresses have no server.
    let foreign = kubeconfig("https://b.demo.internal", None, &a.token(User::admin("me")));
    let access = parse(foreign.as_bytes(), &Options::default()).unwrap();
    let refused = clusters.connect(&access, None).await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Denied);
    let nowhere = kubeconfig("https://c.demo.internal", None, "t");
    let access = parse(nowhere.as_bytes(), &Options::default()).unwrap();
    let refused = clusters.connect(&access, None).await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn other_users_have_other_rights() {
    let server = server();
    let clusters = EmbeddedClusters::new();
    clusters.add("https://a.demo.internal", &server);
    let text = kubeconfig(
        "https://a.demo.internal",
        None,
        &server.token(User::admin("me")),
    );
    let access = parse(text.as_bytes(), &Options::default()).unwrap();
    let user = Impersonation::service_account("default", "guest");
    let cluster = clusters.connect(&access, Some(&user)).await.unwrap();
    let refused = apply(cluster.as_ref(), "x").await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Denied);
    assert!(
        refused
            .message
            .contains("system:serviceaccount:default:guest"),
        "{refused}"
    );
}

#[tokio::test]
async fn https_with_a_token() {
    let server = server();
    let listener = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let text = listener.kubeconfig(User::admin("me"));
    let mut access = parse(text.as_bytes(), &Options::default()).unwrap();
    let cluster = KubeClusters::new().connect(&access, None).await.unwrap();
    apply(cluster.as_ref(), "x").await.unwrap();

    access.login = Login::Token(Secret::new("wrong"));
    let cluster = KubeClusters::new().connect(&access, None).await.unwrap();
    let refused = apply(cluster.as_ref(), "x").await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");

    let address = "0.0.0.0:0".parse().unwrap();
    assert!(
        server.serve(address).await.is_err(),
        "only loopback addresses"
    );
}
