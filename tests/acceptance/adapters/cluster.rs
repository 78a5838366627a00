//! The Kubernetes adapter: one suite, on a real API server over the network and on an embedded one
//! without a socket.

use crate::target::{InProcess, Target};
use driftless_adapters::cluster::KubeClusters;
use driftless_harness::cluster::Cluster;
use driftless_harness::http::Http;
use driftless_kernel::kubeconfig::{self, Options};
use driftless_kernel::ports::{
    Access, ApplyRequest, Change, Changes, Cluster as Port, Clusters, Delete, Deleted, ErrorKind,
    Impersonation, ListRequest, Login, Patch, PatchRequest, Resource, Secret,
};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the apply of an object that takes over no field.
fn apply_request<'a>(resource: &'a Resource, object: &'a Object) -> ApplyRequest<'a> {
    ApplyRequest {
        resource,
        object,
        manager: "kustomize-controller",
        force: false,
        dry_run: false,
    }
}

/// Runs each test on each server.
macro_rules! on_both_servers {
    ($($test:ident),* $(,)?) => {
        mod real {
            $(#[tokio::test] async fn $test() { super::$test(super::Target::real()).await; })*
        }
        mod embedded {
            $(#[tokio::test] async fn $test() { super::$test(super::Target::embedded()).await; })*
        }
    };
}

on_both_servers!(
    apply_create_patch_and_their_conflicts,
    a_delete_takes_only_what_was_meant,
    a_list_follows_its_pages_and_its_selector,
    a_watch_continues_from_a_version,
    discovery_is_asked_once_and_again_for_what_is_new,
    discovery_that_is_known_is_not_sent_again,
    requests_are_made_as_the_user_and_no_more,
    logins_and_certificates,
);

mod memory {
    use super::{CONFIG_MAP, Port as _, check_watches};
    use driftless_manifest::Gvk;
    use driftless_memory::MemoryCluster;
    use std::time::Duration;

    #[tokio::test]
    async fn a_watch_continues_from_a_version() {
        let cluster = MemoryCluster::default();
        let (version, kind) = CONFIG_MAP;
        let resource = cluster.resource(&Gvk::new(version, kind)).await;
        let resource = resource.expect("an answer").expect("every kind is served");
        check_watches(&cluster, &resource).await;
        cluster.compact();
        let watch = cluster.watch(&resource, "", "1", Duration::from_secs(1));
        assert!(watch.await.expect_err("too old").is_expired());
    }
}

const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");

fn access(server: Target) -> Access {
    let kubeconfig = server.kubeconfig();
    here(&kubeconfig)
}

/// Returns access by a kubeconfig of a server on this machine.
fn here(kubeconfig: &str) -> Access {
    let options = Options {
        allow_local: true,
        ..Options::default()
    };
    kubeconfig::parse(kubeconfig.as_bytes(), &options).expect("a kubeconfig")
}

async fn connect(server: Target, user: Option<&Impersonation>) -> Arc<dyn Port> {
    let connected = server.clusters().connect(&access(server), user).await;
    connected.expect("a client")
}

/// Returns the administrator's client, after creating the test's namespace, and the resource of
/// ConfigMaps.
async fn world(server: Target, namespace: &str) -> (Arc<dyn Port>, Resource) {
    server.namespace(namespace);
    let cluster = connect(server, None).await;
    let gvk = Gvk::new("v1", "ConfigMap");
    let resource = cluster.resource(&gvk).await.expect("discovery");
    (cluster, resource.expect("ConfigMaps are served"))
}

fn config(namespace: &str, name: &str, data: Value) -> Object {
    let metadata = json!({"name": name, "namespace": namespace});
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    Object::new(object).expect("an object")
}

async fn apply_create_patch_and_their_conflicts(server: Target) {
    let (cluster, resource) = world(server, "apply").await;
    let first = config("apply", "a", json!({"x": "1"}));
    let first = apply_request(&resource, &first);
    let dry_run = ApplyRequest {
        dry_run: true,
        ..first
    };
    cluster.apply(&dry_run).await.expect("a dry run");
    let get = async || {
        cluster
            .get(&resource, "apply", "a")
            .await
            .expect("an answer")
    };
    assert_eq!(get().await, None, "a dry run writes nothing");
    let made = cluster.apply(&first).await.expect("applied");
    assert_eq!(get().await.as_ref(), Some(&made));

    // Another manager's field: refused with the field's name, unless it is forced.
    let second = config("apply", "a", json!({"x": "2"}));
    let second = ApplyRequest {
        object: &second,
        manager: "another",
        ..first
    };
    let error = cluster.apply(&second).await.expect_err("a conflict");
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("kustomize-controller") && error.message.contains(".data.x"));
    let forced = ApplyRequest {
        force: true,
        ..second
    };
    cluster.apply(&forced).await.expect("forced");

    let again = cluster
        .create(&resource, &config("apply", "a", json!({})), "tests")
        .await;
    assert_eq!(again.expect_err("already exists").kind, ErrorKind::Conflict);
    let patch = async |patch: Patch| {
        cluster
            .patch(&PatchRequest {
                resource: &resource,
                namespace: "apply",
                name: "a",
                subresource: None,
                patch: &patch,
                manager: "driftless",
            })
            .await
    };
    let old = json!({"metadata": {"resourceVersion": made.meta("resourceVersion")}});
    let error = patch(Patch::Merge(old)).await.expect_err("an old version");
    assert_eq!(error.kind, ErrorKind::Conflict);
    let merged = patch(Patch::Merge(json!({"data": {"x": null, "y": "3"}}))).await;
    assert_eq!(
        merged.expect("patched").to_value()["data"],
        json!({"y": "3"})
    );
    let wrong = json!([{"op": "test", "path": "/data/y", "value": "4"}]);
    let error = patch(Patch::Json(wrong)).await.expect_err("a failed test");
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    let right = json!([{"op": "replace", "path": "/data/y", "value": "5"}]);
    assert_eq!(
        patch(Patch::Json(right)).await.expect("patched").to_value()["data"]["y"],
        "5"
    );
    // The manager is the given one; the other manager owns no field any longer.
    let managers = server.get("/api/v1/namespaces/apply/configmaps/a")["metadata"]["managedFields"]
        .to_string();
    assert!(managers.contains("\"driftless\"") && !managers.contains("\"another\""));
}

async fn a_delete_takes_only_what_was_meant(server: Target) {
    let (cluster, resource) = world(server, "delete").await;
    let delete =
        async |name: &str, how: &Delete| cluster.delete(&resource, "delete", name, how).await;
    let none = Delete::default();
    assert_eq!(delete("nothing", &none).await.expect("gone"), Deleted::Gone);
    let made = cluster
        .create(&resource, &config("delete", "a", json!({})), "tests")
        .await
        .expect("created");
    let of = |uid: &str, version: &str| Delete {
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
        propagation: Some("Background"),
    };
    for how in [
        of("another", made.meta("resourceVersion")),
        of(made.meta("uid"), "1"),
    ] {
        let error = delete("a", &how).await.expect_err("another object");
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    }
    let exact = of(made.meta("uid"), made.meta("resourceVersion"));
    assert_eq!(delete("a", &exact).await.expect("deleted"), Deleted::Gone);
    assert_eq!(delete("a", &exact).await.expect("gone"), Deleted::Gone);

    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "b", "namespace": "delete", "finalizers": ["acme.example/hold"]},
    });
    let held = Object::new(held).expect("an object");
    cluster
        .create(&resource, &held, "tests")
        .await
        .expect("created");
    assert_eq!(delete("b", &none).await.expect("marked"), Deleted::Pending);
    assert_eq!(delete("b", &none).await.expect("marked"), Deleted::Pending);
    // A namespace is deleted when its controller has finalized it.
    let namespaces = cluster
        .resource(&Gvk::new("v1", "Namespace"))
        .await
        .expect("discovery")
        .expect("served");
    server.namespace("delete-me");
    let deleted = cluster.delete(&namespaces, "", "delete-me", &none).await;
    assert_eq!(deleted.expect("marked"), Deleted::Pending);
    let there = cluster.get(&namespaces, "", "delete-me").await;
    let stays = matches!(server, Target::Real(_));
    assert_eq!(
        there.expect("an answer").is_some(),
        stays,
        "an embedded server empties it at once"
    );
}

async fn a_list_follows_its_pages_and_its_selector(server: Target) {
    let (cluster, resource) = world(server, "list").await;
    let names: Vec<String> = (0..520).map(|n| format!("c-{n:03}")).collect();
    for some in names.chunks(26) {
        let made = some.iter().map(|name| {
            let mut object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "list"},
            });
            if name.ends_with('7') {
                object["metadata"]["labels"] = json!({"acme.example/seven": "yes"});
            }
            let object = Object::new(object).expect("an object");
            let (cluster, resource) = (cluster.clone(), resource.clone());
            async move { cluster.create(&resource, &object, "tests").await }
        });
        for made in futures::future::join_all(made).await {
            made.expect("created");
        }
    }
    let before = server.requests().map(|all| all.len());
    let whole = ListRequest {
        namespace: "list",
        ..ListRequest::all(&resource)
    };
    let all = cluster.list(&whole).await.expect("a list");
    let found: Vec<&str> = all.iter().map(Object::name).collect();
    assert_eq!(found, names);
    assert!(
        all.iter()
            .all(|one| one.kind() == "ConfigMap" && one.api_version() == "v1")
    );
    if let (Some(before), Some(mut requests)) = (before, server.requests()) {
        let pages = requests.split_off(before);
        let pages = pages
            .iter()
            .filter(|one| one.uri.contains("/namespaces/list/configmaps?"));
        assert_eq!(pages.count(), 2);
    }
    let selector = "acme.example/seven in (yes),!other";
    let selected = ListRequest { selector, ..whole };
    let some = cluster.list(&selected).await.expect("a list");
    assert_eq!(some.len(), 52);
    let nowhere = ListRequest {
        namespace: "nowhere",
        ..whole
    };
    assert!(cluster.list(&nowhere).await.expect("empty").is_empty());
}

async fn discovery_is_asked_once_and_again_for_what_is_new(server: Target) {
    let clusters = server.clusters();
    let (access, gvk) = (access(server), Gvk::new("acme.example/v1", "Gadget"));
    // Other tests of this binary also send requests: a user name identifies those of this test.
    let user = Impersonation::service_account("discovery", "asks");
    let cluster = clusters
        .connect(&access, Some(&user))
        .await
        .expect("a client");
    let discovery_requests = || {
        server.requests().map(|requests| {
            let discovery = requests
                .iter()
                .filter(|one| one.as_user == user.user && one.resource.is_empty());
            discovery.count()
        })
    };
    assert_eq!(cluster.resource(&gvk).await.expect("discovery"), None);
    let deployments = Gvk::new("apps/v1", "Deployment");
    let found = cluster
        .resource(&deployments)
        .await
        .expect("discovery")
        .expect("served");
    assert_eq!(
        (found.plural.as_str(), found.namespaced),
        ("deployments", true)
    );
    let before = discovery_requests();
    for _ in 0..5 {
        cluster
            .resource(&deployments)
            .await
            .expect("discovery")
            .expect("served");
    }
    let again = clusters
        .connect(&access, Some(&user))
        .await
        .expect("a client");
    again
        .resource(&deployments)
        .await
        .expect("discovery")
        .expect("served");
    assert_eq!(
        discovery_requests(),
        before,
        "a hit is remembered, also by the next client"
    );
    assert_eq!(
        cluster
            .versions("apps", "Nothing")
            .await
            .expect("discovery"),
        []
    );

    let names = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.acme.example"},
        "spec": {"group": "acme.example", "scope": "Cluster", "names": names,
                 "versions": [version("v1", true), version("v1beta1", false)]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.acme.example";
    server.apply(path, &definition);
    let start = Instant::now();
    let found = loop {
        match cluster.resource(&gvk).await.expect("discovery") {
            Some(found) => break found,
            None => assert!(start.elapsed() < Duration::from_secs(20), "never served"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(
        (found.plural.as_str(), found.namespaced),
        ("gadgets", false)
    );
    let versions = cluster
        .versions("acme.example", "Gadget")
        .await
        .expect("discovery");
    let versions: Vec<_> = versions
        .iter()
        .map(|one| one.gvk.version.as_str())
        .collect();
    assert_eq!(versions, ["v1", "v1beta1"]);

    // A deleted definition is not cached forever: an error on use makes the next lookup ask again.
    server.delete(path);
    let admin = connect(server, None).await;
    while admin.list(&ListRequest::all(&found)).await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "served for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let gone = clusters.connect(&access, None).await.expect("a client");
    let error = gone
        .list(&ListRequest::all(&found))
        .await
        .expect_err("not served");
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    while cluster.resource(&gvk).await.expect("discovery").is_some() {
        assert!(
            start.elapsed() < Duration::from_secs(40),
            "remembered for ever"
        );
        gone.list(&ListRequest::all(&found))
            .await
            .expect_err("not served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn discovery_that_is_known_is_not_sent_again(server: Target) {
    let access = access(server);
    let Login::Token(token) = &access.login else {
        panic!("a token");
    };
    let bearer = format!("Bearer {}", token.expose_str().expect("text"));
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let http = Http::trusting(server.authority()).with_header("authorization", &bearer);
    for path in ["/api", "/apis"] {
        let url = format!("{}{path}", access.server);
        let ask = |validator: &str| {
            let headers = [("accept", accept), ("if-none-match", validator)];
            http.send("GET", &url, &headers, None).expect("an answer")
        };
        // Other tests of this binary define resources meanwhile.
        let known = (0..20).any(|_| {
            let first = ask("\"none\"");
            assert_eq!(first.status, 200, "{path}");
            let validator = first.headers.get("etag").expect("a validator");
            let again = ask(validator.to_str().expect("text"));
            assert!(again.status == 200 || again.text().is_empty());
            let has_media_type = again.headers.contains_key("content-type");
            assert!(
                again.status == 200 || !has_media_type,
                "{path}: a media type without a body"
            );
            again.status == 304
        });
        assert!(known, "{path} is always sent");
    }
}

async fn requests_are_made_as_the_user_and_no_more(server: Target) {
    let (admin, resource) = world(server, "tenant").await;
    server.namespace("neighbour");
    let user = Impersonation::service_account("tenant", "reconciler");
    let tenant = connect(server, Some(&user)).await;
    let object = config("tenant", "a", json!({}));
    let error = tenant
        .apply(&apply_request(&resource, &object))
        .await
        .expect_err("no rights");
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains(&user.user), "{error}");

    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "reconciler", "namespace": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "config-editor"},
        "subjects": [{"kind": "ServiceAccount", "name": "reconciler", "namespace": "tenant"}],
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "config-editor"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    server.apply(&format!("{roles}/clusterroles/config-editor"), &role);
    let path = format!("{roles}/namespaces/tenant/rolebindings/reconciler");
    server.apply(&path, &binding);
    let start = Instant::now();
    while let Err(error) = tenant.apply(&apply_request(&resource, &object)).await {
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(start.elapsed() < Duration::from_secs(20), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let elsewhere = config("neighbour", "a", json!({}));
    let error = tenant
        .apply(&apply_request(&resource, &elsewhere))
        .await
        .expect_err("elsewhere");
    assert_eq!(error.kind, ErrorKind::Denied);
    assert_eq!(
        tenant
            .list(&ListRequest::all(&resource))
            .await
            .expect_err("all")
            .kind,
        ErrorKind::Denied
    );
    assert!(
        admin
            .get(&resource, "neighbour", "a")
            .await
            .expect("read")
            .is_none()
    );
    if let Some(mut writes) = server.requests() {
        writes.retain(|one| {
            one.verb == "patch"
                && one.resource == "configmaps"
                && ["tenant", "neighbour"].contains(&one.namespace.as_str())
        });
        assert!(
            !writes.is_empty() && writes.iter().all(|one| one.as_user == user.user),
            "{writes:?}"
        );
    }
    let broken = Impersonation {
        user: "a\nb".into(),
    };
    let refused = server
        .clusters()
        .connect(&access(server), Some(&broken))
        .await;
    assert_eq!(refused.err().map(|e| e.kind), Some(ErrorKind::Invalid));
}

async fn logins_and_certificates(server: Target) {
    let good = access(server);
    let get = async |access: &Access| {
        let cluster = KubeClusters::new().connect(access, None).await?;
        let namespaces = cluster.resource(&Gvk::new("v1", "Namespace")).await?;
        cluster
            .get(&namespaces.expect("served"), "", "default")
            .await
    };
    assert!(get(&good).await.expect("an answer").is_some());
    let login = |login: Login| Access {
        login,
        ..access(server)
    };
    let token = |token: &str| login(Login::Token(Secret::new(token.to_owned())));
    let basic = Login::Basic {
        username: "u".into(),
        password: Secret::new("canary"),
    };
    let key = |key: &str| {
        login(Login::Certificate {
            certificate: server.authority().as_bytes().to_vec(),
            key: Secret::new(key.to_owned()),
        })
    };
    let foreign = InProcess::start();
    let authority = |pem: &str| Access {
        certificate_authority: Some(pem.as_bytes().to_vec()),
        ..access(server)
    };
    let named = |name: &str| Access {
        tls_server_name: Some(name.into()),
        ..access(server)
    };
    let at = |address: &str| Access {
        server: address.into(),
        ..access(server)
    };
    for (case, access, kind) in [
        ("a wrong token", token("canary"), ErrorKind::Denied),
        ("a wrong password", login(basic), ErrorKind::Denied),
        ("an empty token", token(" "), ErrorKind::Invalid),
        (
            "a token with a line's end",
            token("a\ncanary"),
            ErrorKind::Invalid,
        ),
        ("an invalid key", key("canary"), ErrorKind::Invalid),
        (
            "an invalid authority",
            authority("canary"),
            ErrorKind::Invalid,
        ),
        (
            "another authority",
            authority(foreign.authority()),
            ErrorKind::Unavailable,
        ),
        (
            "the system's authorities",
            Access {
                certificate_authority: None,
                ..access(server)
            },
            ErrorKind::Unavailable,
        ),
        (
            "another name",
            named("other.example"),
            ErrorKind::Unavailable,
        ),
        ("plain http", at("http://127.0.0.1:1"), ErrorKind::Invalid),
        ("no address", at("https://"), ErrorKind::Invalid),
        (
            "no listener",
            at("https://127.0.0.1:1"),
            ErrorKind::Unavailable,
        ),
    ] {
        let error = get(&access).await.expect_err(case);
        assert_eq!(error.kind, kind, "{case}: {error}");
        assert!(!error.message.contains("canary"), "{case}: {error}");
    }
    drop_elsewhere(foreign).await;
    // Names that resolve to this machine, in several spellings.
    let port = good.server.rsplit(':').next().expect("a port");
    for host in ["localhost", "2130706433", "0x7f.1"] {
        let by_name = Access {
            tls_server_name: Some("localhost".into()),
            ..at(&format!("https://{host}:{port}"))
        };
        assert!(get(&by_name).await.expect("an answer").is_some(), "{host}");
        let elsewhere = Access {
            allow_local: false,
            ..by_name
        };
        let error = get(&elsewhere).await.expect_err(host);
        assert_eq!(error.kind, ErrorKind::Unavailable, "{host}: {error}");
        let message = "has no address that may be reached";
        assert!(error.message.contains(message), "{host}: {error}");
    }
    // The certificate's other name, and a server that is not checked at all.
    assert!(get(&named("localhost")).await.expect("an answer").is_some());
    let unchecked = Access {
        insecure_skip_tls_verify: true,
        certificate_authority: None,
        ..access(server)
    };
    assert!(get(&unchecked).await.expect("an answer").is_some());
}

/// Drops a server on another thread: a runtime cannot end within another one.
async fn drop_elsewhere(server: InProcess) {
    let dropped = tokio::task::spawn_blocking(move || drop(server));
    dropped.await.expect("the listener ends");
}

#[tokio::test]
async fn a_dark_cluster_costs_little_and_comes_back() {
    let dark = Cluster::start("dark");
    let access = here(&dark.kubeconfig());
    let clusters = KubeClusters::new();
    let cluster = clusters.connect(&access, None).await.expect("a client");
    let namespaces = cluster
        .resource(&Gvk::new("v1", "Namespace"))
        .await
        .expect("discovery")
        .expect("served");
    dark.stop();
    let start = Instant::now();
    let error = cluster
        .get(&namespaces, "", "default")
        .await
        .expect_err("dark");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(error.message.contains(&dark.url()), "{error}");
    // An address that never answers connections.
    let nowhere = Access {
        server: "https://192.0.2.1:6443".into(),
        ..access.clone()
    };
    let silent = clusters.connect(&nowhere, None).await.expect("a client");
    let error = silent
        .resource(&Gvk::new("v1", "Pod"))
        .await
        .expect_err("silent");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
    dark.resume();
    assert!(
        cluster
            .get(&namespaces, "", "default")
            .await
            .expect("back")
            .is_some()
    );
}

async fn a_watch_continues_from_a_version(server: Target) {
    let (cluster, resource) = world(server, "watched").await;
    check_watches(cluster.as_ref(), &resource).await;
    let second = Duration::from_secs(1);
    // A real API server forgets changes when it starts again, and when there are many.
    if let Target::Embedded(_) = server {
        // More changes than an embedded server keeps.
        for number in 0..1001 {
            let path = "/api/v1/namespaces/watched/configmaps/counter";
            let data = json!({"n": number.to_string()});
            server.apply(path, &config("watched", "counter", data).into_value());
        }
        let old = cluster.watch(&resource, "", "1", second).await;
        assert!(old.expect_err("too old").is_expired());
    }
    let user = Impersonation::service_account("watched", "nothing");
    let tenant = connect(server, Some(&user)).await;
    let refused = tenant.watch(&resource, "", "1", second).await;
    assert_eq!(refused.expect_err("refused").kind, ErrorKind::Denied);
}

/// Checks the changes of ConfigMaps that are created, changed and deleted, or that leave the
/// selection.
async fn check_watches(cluster: &dyn Port, resource: &Resource) {
    const LABEL: &str = "example.com/watched";
    let put = async |name: &str, is_selected: bool, value: &str| {
        let mut object = config("watched", name, json!({"value": value}));
        if is_selected {
            object.set_label(LABEL, "yes");
        }
        let applied = cluster.apply(&apply_request(resource, &object)).await;
        applied.expect("applied");
    };
    let watch = async |version: &str, seconds: u64| {
        let time = Duration::from_secs(seconds);
        let seen = cluster.watch(resource, LABEL, version, time).await;
        let Changes { changes, version } = seen.expect("the changes");
        let texts = changes.iter().map(|change| match change {
            Change::Written(object) => format!("+{}", object.name()),
            Change::Deleted(object) => format!("-{}", object.name()),
        });
        (texts.collect::<Vec<_>>().join(" "), version)
    };
    for (name, is_selected) in [("a", true), ("b", true), ("c", false)] {
        put(name, is_selected, "1").await;
    }
    let page = cluster.page(resource, LABEL, "").await.expect("a page");
    let names: Vec<&str> = page.objects.iter().map(Object::name).collect();
    assert_eq!((names.join(" ").as_str(), page.next.as_str()), ("a b", ""));

    put("d", true, "1").await;
    put("a", true, "2").await;
    let options = Delete::default();
    let deleted = cluster.delete(resource, "watched", "b", &options).await;
    assert_eq!(deleted.expect("deleted"), Deleted::Gone);
    put("c", false, "2").await;
    let (texts, version) = watch(&page.version, 0).await;
    assert_eq!(texts, "+d +a -b");
    put("d", false, "1").await;
    let (texts, version) = watch(&version, 0).await;
    assert_eq!(texts, "-d");
    assert_eq!(watch(&version, 0).await.0, "");
    // Changes of other objects move the version by a bookmark. A real API server sends it in the
    // last 2 s of a watch if the kind changes meanwhile.
    put("e", false, "1").await;
    let meanwhile = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        put("e", false, "2").await;
    };
    let ((texts, moved), ()) = futures::join!(watch(&version, 3), meanwhile);
    assert_eq!(texts, "");
    assert_ne!(moved, version, "no bookmark");
    put("e", true, "1").await;
    assert_eq!(watch(&moved, 0).await.0, "+e");
}
