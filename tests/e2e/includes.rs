//! GitRepositories that include files of other repositories.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::json;
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const SHARED: &str = "acme/shared";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

/// Returns a GitRepository, with lines of `spec.include`.
fn repository(name: &str, url: &str, include: &str) -> Change {
    let text = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: {name}\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  url: https://github.com/{url}\n  ref:\n    branch: main\n{include}"
    );
    Change::write(&format!("clusters/hub/{name}.yaml"), text)
}

fn kustomization(source: &str) -> Change {
    let text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: apps\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  path: ./apps\n  prune: true\n  targetNamespace: default\n  sourceRef:\n    kind: GitRepository\n    \
         name: {source}\n"
    );
    Change::write("clusters/hub/apps.yaml", text)
}

fn config(color: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shared\ndata:\n  color: {color}\n")
}

const INCLUDE: &str =
    "  include:\n  - repository:\n      name: shared\n    fromPath: base\n    toPath: apps/base\n";

/// Returns the color of the ConfigMap that only the included repository has.
fn color(world: &Embedded) -> Option<String> {
    let path = "/api/v1/namespaces/default/configmaps/shared";
    let found = world.cluster("hub").send("GET", path, "", None).ok()?;
    found["data"]["color"].as_str().map(str::to_owned)
}

fn step(world: &Embedded) {
    world.sweep();
    world.settle();
}

#[test]
fn files_of_an_included_repository_are_built_and_followed() {
    let world = Embedded::start(&HUB, &[]);
    let kustomize = "resources: [base]\n";
    let files = [
        repository("app", FLEET, INCLUDE),
        kustomization("app"),
        Change::write("apps/kustomization.yaml", kustomize),
    ];
    world.commit(FLEET, &files);
    step(&world);
    let hub = world.cluster("hub");
    let (status, reason, message) = ready(hub, "GitRepository", "flux-system", "app");
    assert_eq!((&*status, &*reason), ("False", "NotFound"), "{message}");
    assert!(
        message.contains("could not get resource for include 'shared'"),
        "{message}"
    );

    let base = "resources: [shared.yaml]\n";
    let shared = [
        Change::write("base/kustomization.yaml", base),
        Change::write("base/shared.yaml", config("green")),
        Change::write("other.yaml", "not: included\n"),
    ];
    world.commit(SHARED, &shared);
    world.push(FLEET, &[repository("shared", SHARED, "")]);
    step(&world);
    for name in ["app", "shared"] {
        let (status, _, message) = ready(hub, "GitRepository", "flux-system", name);
        assert_eq!(status, "True", "{name}: {message}");
    }
    let (status, _, message) = ready(hub, "Kustomization", "flux-system", "apps");
    assert_eq!(status, "True", "{message}");
    assert_eq!(color(&world).as_deref(), Some("green"));
    let path = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/app";
    let status = hub.send("GET", path, "", None).unwrap()["status"].clone();
    assert_eq!(
        status["observedInclude"],
        json!([{"repository": {"name": "shared"}, "fromPath": "base", "toPath": "apps/base"}])
    );
    let shared_path = path.replace("/app", "/shared");
    let included = hub.send("GET", &shared_path, "", None).unwrap()["status"]["artifact"].clone();
    assert_eq!(status["includedArtifacts"], json!([included]));

    // A push to the included repository reaches the objects of the one that includes it.
    world.push(SHARED, &[Change::write("base/shared.yaml", config("blue"))]);
    step(&world);
    assert_eq!(color(&world).as_deref(), Some("blue"));
}

#[test]
fn repositories_that_include_each_other_are_refused() {
    let world = Embedded::start(&HUB, &[]);
    world.commit(
        SHARED,
        &[Change::write("base/shared.yaml", config("green"))],
    );
    let files = [
        repository("app", FLEET, INCLUDE),
        repository("shared", SHARED, ""),
    ];
    world.commit(FLEET, &files);
    step(&world);
    let hub = world.cluster("hub");
    let (status, _, message) = ready(hub, "GitRepository", "flux-system", "app");
    assert_eq!(status, "True", "{message}");
    let back = "  include:\n  - repository:\n      name: app\n";
    world.push(FLEET, &[repository("shared", SHARED, back)]);
    step(&world);
    world.advance(Duration::from_secs(900));
    step(&world);
    let (_, reason, message) = ready(hub, "GitRepository", "flux-system", "shared");
    assert_eq!(reason, "IllegalPath", "{message}");
    assert!(
        message.contains("'app' includes this repository"),
        "{message}"
    );
}
