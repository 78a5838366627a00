//! Tests across several requests: history, controllers, many servers.

use super::client::{Client, clock};
use driftless_apiserver::{Body, HISTORY, Watch};
use serde_json::{Value, json};

impl Client {
    fn send(&mut self, method: &str, target: &str, body: &Value) -> Value {
        let text = body.to_string();
        let answer = self.ask(method, target, "application/json", text.as_bytes());
        answer.value().unwrap().clone()
    }

    fn get(&mut self, target: &str) -> Value {
        self.ask("GET", target, "", b"").value().unwrap().clone()
    }

    fn watch(&mut self, target: &str) -> Watch {
        let Body::Watch(watch) = self.ask("GET", target, "", b"").body else {
            panic!("no watch at {target}");
        };
        *watch
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[test]
fn a_watch_continues_until_its_history_is_gone() {
    let mut client = Client::new();
    let mut watch = client.watch(&format!("{MAPS}?watch=true"));
    let mut old = watch.clone();
    assert!(client.server.poll(&mut watch).is_empty());
    client.send("POST", MAPS, &map("a"));
    let events = client.server.poll(&mut watch);
    assert_eq!((events.len(), &events[0]["type"]), (1, &json!("ADDED")));
    assert!(client.server.poll(&mut watch).is_empty());
    for number in 0..=HISTORY {
        let mut changed = map("a");
        changed["data"] = json!({"n": number.to_string()});
        client.send("PUT", &format!("{MAPS}/a"), &changed);
    }
    let events = client.server.poll(&mut old);
    assert_eq!(events[0]["object"]["code"], 410);
    assert!(old.ended());
    let late = client.watch(&format!("{MAPS}?watch=true&resourceVersion=1"));
    assert!(late.ended());
}

#[test]
fn workloads_run_only_when_called() {
    let mut client = Client::new();
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let workload = |kind: &str, more: Value| {
        let mut spec = json!({"selector": selector, "template": template});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
    };
    let apps = "/apis/apps/v1/namespaces/default";
    client.send(
        "POST",
        &format!("{apps}/deployments"),
        &workload("Deployment", json!({"replicas": 3})),
    );
    let set = json!({"serviceName": "a"});
    client.send(
        "POST",
        &format!("{apps}/statefulsets"),
        &workload("StatefulSet", set),
    );
    client.send(
        "POST",
        &format!("{apps}/daemonsets"),
        &workload("DaemonSet", json!({})),
    );
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": once}});
    client.send("POST", "/apis/batch/v1/namespaces/default/jobs", &job);
    let available = |client: &mut Client| {
        client.get(&format!("{apps}/deployments/a"))["status"]["availableReplicas"].clone()
    };
    assert_eq!(available(&mut client), Value::Null);
    assert_eq!(client.server.run_workloads(&clock(1)), 4);
    assert_eq!(client.server.run_workloads(&clock(2)), 0, "nothing is new");
    assert_eq!(available(&mut client), 3);
    let status = |client: &mut Client, path: &str| client.get(path)["status"].clone();
    assert_eq!(
        status(&mut client, &format!("{apps}/statefulsets/a"))["readyReplicas"],
        1
    );
    assert_eq!(
        status(&mut client, &format!("{apps}/daemonsets/a"))["numberReady"],
        1
    );
    assert_eq!(
        status(&mut client, "/apis/batch/v1/namespaces/default/jobs/a")["succeeded"],
        1
    );

    let fewer = br#"{"spec": {"replicas": 1}}"#;
    client.ask(
        "PATCH",
        &format!("{apps}/deployments/a"),
        "application/merge-patch+json",
        fewer,
    );
    assert_eq!(client.server.run_workloads(&clock(3)), 1);
    assert_eq!(available(&mut client), 1);
    let deployment = status(&mut client, &format!("{apps}/deployments/a"));
    assert_eq!(deployment["observedGeneration"], 2);
}

#[test]
fn a_custom_resource_may_have_any_qualified_finalizer() {
    let mut client = Client::new();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.acme.example"},
        "spec": {
            "group": "acme.example", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.send("POST", definitions, &definition);
    let finalizers = json!(["finalizers.fluxcd.io"]);
    let widget = json!({"apiVersion": "acme.example/v1", "kind": "Widget", "metadata": {"name": "a", "finalizers": finalizers}});
    let widgets = "/apis/acme.example/v1/namespaces/default/widgets";
    assert_eq!(
        client.send("POST", widgets, &widget)["metadata"]["finalizers"],
        finalizers
    );
    let mut other = map("a");
    other["metadata"]["finalizers"] = json!(["x.example/a", "finalizers.fluxcd.io"]);
    let refused = client.send("POST", MAPS, &other);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("metadata.finalizers[1]"), "{message}");
}

#[test]
fn controllers_run_only_when_called() {
    let mut client = Client::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
    client.send("POST", "/api/v1/namespaces", &namespace);
    client.send("POST", "/api/v1/namespaces/x/configmaps", &map("a"));
    client.send("DELETE", "/api/v1/namespaces/x", &json!({}));
    assert_eq!(
        client.get("/api/v1/namespaces/x")["status"]["phase"],
        "Terminating"
    );
    assert!(client.server.settle(&clock(1)) > 0);
    assert_eq!(client.get("/api/v1/namespaces/x")["code"], 404);

    let owner = client.send("POST", MAPS, &map("owner"));
    let mut owned = map("owned");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    client.send("POST", MAPS, &owned);
    assert_eq!(client.server.settle(&clock(2)), 0);
    client.send("DELETE", &format!("{MAPS}/owner"), &json!({}));
    assert_eq!(client.get(&format!("{MAPS}/owned"))["kind"], "ConfigMap");
    client.server.settle(&clock(3));
    assert_eq!(client.get(&format!("{MAPS}/owned"))["code"], 404);
}

#[test]
fn protobuf_is_read() {
    // ConfigMap{metadata: {name: "p"}, data: {"k": "v"}} in its envelope.
    let object = b"\x0a\x03\x0a\x01p\x12\x06\x0a\x01k\x12\x01v";
    let mut body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".to_vec();
    body.push(u8::try_from(object.len()).unwrap());
    body.extend_from_slice(object);
    let mut client = Client::new();
    let media = "application/vnd.kubernetes.protobuf";
    let made = client.ask("POST", MAPS, media, &body);
    assert_eq!(made.status, 201, "{:?}", made.body);
    assert_eq!(client.get(&format!("{MAPS}/p"))["data"], json!({"k": "v"}));
    for cut in 1..body.len() {
        let answer = client.ask("POST", MAPS, media, &body[..cut]);
        assert!(answer.status >= 400, "{cut}");
    }
}

#[test]
fn hostile_bodies_are_refused() {
    let mut client = Client::new();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        deep.as_bytes(),
        b"null",
        b"[]",
        b"\"x\"",
        b"{\"metadata\":1}",
        b"\xff\xfe",
    ] {
        for (method, target, media) in [
            ("POST", MAPS, "application/json"),
            (
                "PATCH",
                "/api/v1/namespaces/default",
                "application/merge-patch+json",
            ),
            (
                "PATCH",
                "/api/v1/namespaces/default",
                "application/json-patch+json",
            ),
            (
                "PATCH",
                "/api/v1/namespaces/default",
                "application/strategic-merge-patch+json",
            ),
            (
                "PATCH",
                "/api/v1/namespaces/default?fieldManager=m",
                "application/apply-patch+yaml",
            ),
            ("DELETE", "/api/v1/namespaces/default", "application/json"),
        ] {
            let answer = client.ask(method, target, media, body);
            assert!(answer.status >= 400 || body == b"[]", "{method} {media}");
        }
    }
}

#[test]
fn servers_are_independent() {
    let first = Client::new().server;
    let mut all: Vec<Client> = (0..100).map(|_| Client::of(first.clone())).collect();
    for client in &mut all {
        for number in 0..20 {
            client.send("POST", MAPS, &map(&format!("m{number}")));
        }
    }
    let objects: usize = all
        .iter_mut()
        .map(|client| client.get(MAPS)["items"].as_array().unwrap().len())
        .sum();
    println!("{objects} objects in {} servers", all.len());
    assert_eq!(objects, 2_000);
}
