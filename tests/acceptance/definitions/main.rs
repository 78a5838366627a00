//! The definitions of driftless, compared with Flux's own on real API servers: the same objects are
//! accepted, with the same defaults, and the same are refused, with the same message.

mod objects;

use driftless_adapters::embedded::Embedded;
use driftless_adapters::local::SystemClock;
use driftless_apiserver::{Body, Request, User};
use driftless_flux::custom_resource_definitions;
use driftless_harness::cluster::{Api, Cluster};
use driftless_harness::tools::FLUX_DEFINITIONS;
use driftless_manifest::Object;
use driftless_manifest::yaml::{self, Dialect, Limits};
use objects::Case;
use serde_json::{Value, json};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of cases that run at a time.
const WORKERS: usize = 8;

fn flux_definitions() -> Vec<Value> {
    let entries = std::fs::read_dir(FLUX_DEFINITIONS.path()).expect("list the definitions");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("a definition").path())
        .collect();
    paths.sort();
    let parsed = paths.iter().map(|path| {
        let text = std::fs::read_to_string(path).expect("read a definition");
        let documents = yaml::documents(
            text.as_bytes(),
            "definition",
            Dialect::V2,
            &Limits::default(),
        );
        documents.expect("YAML").pop().expect("a definition")
    });
    // That of source-watcher is recorded: its module does not build with this version of Go.
    let generators = include_str!("../../corpus/artifact-generator/definition.json");
    let generators = serde_json::from_str(generators).expect("a definition");
    parsed.chain([generators]).collect()
}

fn our_definitions() -> Vec<Value> {
    let all = custom_resource_definitions().into_iter();
    all.map(Object::into_value).collect()
}

fn install(cluster: &Cluster, definitions: &[Value]) {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().expect("a name");
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        cluster
            .api()
            .apply(&path, "tester", definition)
            .expect("apply a definition");
        let start = Instant::now();
        while !is_served(cluster, definition) {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{name} is not served"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn is_served(cluster: &Cluster, definition: &Value) -> bool {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().expect("versions");
    versions.iter().all(|version| {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let (group, version) = (text(&spec["group"]), text(&version["name"]));
        let plural = text(&spec["names"]["plural"]);
        match cluster
            .api()
            .get(&format!("/apis/{group}/{version}/{plural}"))
        {
            Ok(_) => true,
            // 404: not known yet; 429: known, but its storage is not ready.
            Err(refused) if matches!(refused.code, 404 | 429) => false,
            Err(refused) => panic!("{plural}.{group}/{version}: {refused}"),
        }
    })
}

/// Returns a server's answer to an object: its spec, or the refusal.
fn answer(api: &Api, case: &Case) -> Result<Value, String> {
    let path = format!("{}?dryRun=All&fieldValidation=Strict", case.path);
    match api.create(&path, &case.object) {
        Ok(created) => Ok(created["spec"].clone()),
        Err(refused) => Err(refused.to_string()),
    }
}

/// Returns whether only the definitions of driftless have a case's field, as documented in
/// FLUX-API.md: a dependency's kind, and the status of kinds that are not served.
fn is_added(case: &Case) -> bool {
    case.field.ends_with("dependsOn[].kind") || case.field.starts_with("status")
}

#[test]
fn definitions_as_strict_as_flux() {
    let flux = flux_definitions();
    let [theirs, ours] = Cluster::start_all(["flux", "ours"]);
    std::thread::scope(|scope| {
        scope.spawn(|| install(&theirs, &flux));
        scope.spawn(|| install(&ours, &our_definitions()));
    });
    let cases: Vec<Case> = flux.iter().flat_map(objects::of).collect();
    assert!(cases.len() >= 400, "{} objects", cases.len());
    let compare = |case: &Case| {
        let (theirs, ours) = (answer(theirs.api(), case), answer(ours.api(), case));
        (theirs != ours && !is_added(case))
            .then(|| format!("{}\n  Flux: {theirs:?}\n  ours: {ours:?}", case.name))
    };
    let different: Vec<String> = in_parallel(&cases, compare);
    let refused = in_parallel(&cases, |case| answer(ours.api(), case).err());
    println!(
        "{} objects, {} refused, {} different",
        cases.len(),
        refused.len(),
        different.len()
    );
    assert!(refused.len() >= 200 && cases.len() - refused.len() >= 200);
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Checks that fields that only the older versions have are accepted there, and refused by name in
/// the newest.
#[test]
fn fields_of_older_versions_are_refused_by_name() {
    let cluster = Cluster::start("older");
    install(&cluster, &our_definitions());
    let path = |version: &str| {
        format!(
            "/apis/kustomize.toolkit.fluxcd.io/{version}/namespaces/default/kustomizations?dryRun=All&fieldValidation=Strict"
        )
    };
    let object = |version: &str| {
        json!({"apiVersion": format!("kustomize.toolkit.fluxcd.io/{version}"), "kind": "Kustomization",
            "metadata": {"name": "apps", "namespace": "default"},
            "spec": {"interval": "5m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "fleet"},
                "patchesStrategicMerge": [{"kind": "Deployment", "metadata": {"name": "web"}}]}})
    };
    cluster
        .api()
        .create(&path("v1beta2"), &object("v1beta2"))
        .expect("the older version has the field");
    let refused = cluster.api().create(&path("v1"), &object("v1"));
    let refused = refused.expect_err("the newest version has not").message;
    assert!(
        refused.contains("spec.patchesStrategicMerge")
            && refused.contains("field not declared in schema"),
        "{refused}"
    );
}

/// Returns the embedded server's answer to a request.
fn ask(server: &Embedded, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let kind = match method {
        "PATCH" => "application/apply-patch+yaml",
        _ => "application/json",
    };
    let request = Request::new(method, path, User::admin("tester"));
    let body = body.to_string();
    let response = server.handle(&request.with_body(kind, body));
    let Body::Json(answer, _) = response.body else {
        panic!("{method} {path}: no JSON");
    };
    let text = |key: &str| answer[key].as_str().unwrap_or_default();
    match response.status {
        200..=299 => Ok(answer["spec"].clone()),
        code => Err(format!("{code} {}: {}", text("reason"), text("message"))),
    }
}

/// Objects that both servers refuse, with different messages.
const DIFFERENT: [&str; 23] = [
    "Provider spec.proxy: 2049 characters",
    "Provider spec.proxy: 3000 characters",
    "Receiver spec.oidcProviders[]: another type",
    "ArtifactGenerator spec.artifacts[].copy[].from: ''",
    "ArtifactGenerator spec.artifacts[].copy[].from: 1025 characters",
    "ArtifactGenerator spec.artifacts[].copy[].from: 3000 characters",
    "ArtifactGenerator spec.artifacts[].copy[].to: ''",
    "ArtifactGenerator spec.artifacts[].copy[].to: 1025 characters",
    "ArtifactGenerator spec.artifacts[].copy[].to: 3000 characters",
    "ArtifactGenerator spec.artifacts[].inputsFrom: ''",
    "ArtifactGenerator spec.artifacts[].inputsFrom: 1025 characters",
    "ArtifactGenerator spec.artifacts[].inputsFrom: 3000 characters",
    "ArtifactGenerator spec.artifacts[].originRevision: 3000 characters",
    "ArtifactGenerator spec.artifacts[].originRevision: 65 characters",
    "ArtifactGenerator spec.artifacts[].revision: 3000 characters",
    "ArtifactGenerator spec.artifacts[].revision: 65 characters",
    "ArtifactGenerator spec.managedNamespaces.metadata.fromSource.path: ''",
    "ArtifactGenerator spec.managedNamespaces.metadata.fromSource.path: 1025 characters",
    "ArtifactGenerator spec.managedNamespaces.metadata.fromSource.path: 3000 characters",
    "ArtifactGenerator spec.pathPattern: 1025 characters",
    "ArtifactGenerator spec.pathPattern: 3000 characters",
    "ArtifactGenerator spec.serviceAccountName: ''",
    "ArtifactGenerator spec.sources[].namespace: ''",
];

/// Objects that only the real server refuses: the embedded one does not evaluate the rule of
/// namespaces, which calls the library of formats.
const ACCEPTED: [&str; 7] = [
    "ArtifactGenerator spec.artifacts[].namespace: ''",
    "ArtifactGenerator spec.artifacts[].namespace: '1.5m'",
    "ArtifactGenerator spec.artifacts[].namespace: 'git@a:b'",
    "ArtifactGenerator spec.artifacts[].namespace: 'http://a'",
    "ArtifactGenerator spec.artifacts[].namespace: 'oci://a'",
    "ArtifactGenerator spec.artifacts[].namespace: 'ssh://a'",
    "ArtifactGenerator spec.artifacts[].namespace: 1024 characters",
];

/// Checks that the embedded API server judges as the real one, except for [`DIFFERENT`] and
/// [`ACCEPTED`].
#[test]
fn the_embedded_server_enforces_them() {
    let cases: Vec<Case> = flux_definitions().iter().flat_map(objects::of).collect();
    let real = Cluster::start("real");
    install(&real, &our_definitions());
    let embedded = Embedded::new(Arc::new(SystemClock));
    for definition in our_definitions() {
        let name = definition["metadata"]["name"].as_str().expect("a name");
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let path = format!("{path}?fieldManager=tester&force=true");
        ask(&embedded, "PATCH", &path, &definition).expect("apply a definition");
    }
    let different: Vec<String> = in_parallel(&cases, |case| {
        let path = format!("{}?dryRun=All&fieldValidation=Strict", case.path);
        let real = answer(real.api(), case);
        let embedded = ask(&embedded, "POST", &path, &case.object);
        (real != embedded
            && !DIFFERENT.contains(&case.name.as_str())
            && !ACCEPTED.contains(&case.name.as_str()))
        .then(|| {
            format!(
                "{}\n  real:     {real:?}\n  embedded: {embedded:?}",
                case.name
            )
        })
    });
    println!("{} objects, {} different", cases.len(), different.len());
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Returns the findings of all cases, in their order.
fn in_parallel<T: Send>(cases: &[Case], find: impl Fn(&Case) -> Option<T> + Sync) -> Vec<T> {
    let (find, size) = (&find, cases.len().div_ceil(WORKERS));
    std::thread::scope(|scope| {
        let parts: Vec<_> = cases
            .chunks(size)
            .map(|part| scope.spawn(move || part.iter().filter_map(find).collect::<Vec<T>>()))
            .collect();
        let joined = parts
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|e| resume_unwind(e)));
        joined.flatten().collect()
    })
}
