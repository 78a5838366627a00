//! The oil tenant of capsule-addon-fluxcd on a real API server: the deployed functions give its
//! owner a kubeconfig, and requests through it are made as that account.

use crate::world::World;
use driftless_harness::github::Change;
use driftless_tests::capsule::{APPS, TENANT, config, definitions};
use driftless_tests::site::*;
use serde_json::{Value, json};

const FLEET: &str = "acme/fleet";
const OIL: &str = "oil/oil-apps";
const HUB: HubSpec<'static> = HubSpec {
    name: "hub",
    repository: FLEET,
    branch: "main",
    path: "./clusters/hub",
};
const OWNER: &str = "system:serviceaccount:oil-system:gitops-reconciler";
const SECRET: &str = "/api/v1/namespaces/oil-system/secrets/gitops-reconciler-kubeconfig";
const GLOBAL: &str =
    "/apis/capsule.clastix.io/v1beta2/globaltenantresources/oil-gitops-reconciler-kubeconfig";

/// Returns the value of a line of a kubeconfig.
fn line<'a>(kubeconfig: &'a str, key: &str) -> &'a str {
    let found = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix(key));
    found
        .unwrap_or_else(|| panic!("no {key} in the kubeconfig"))
        .trim()
        .trim_matches('"')
}

fn push(world: &World, fleet: &str) {
    Site::push(
        world,
        FLEET,
        &[Change::write("clusters/hub/tenants.yaml", fleet)],
    );
    world.settle();
}

#[test]
fn oil_tenant() {
    let world = World::start(false, &[HUB], &[]);
    let hub: &dyn Node = world.hub("hub");
    // The API server itself replaces the Capsule proxy: it authenticates the kubeconfig's user.
    let kubeconfig = hub.kubeconfig();
    let directory = tempfile::tempdir().expect("a directory");
    let authority = directory.path().join("ca.crt");
    let encoded = line(&kubeconfig, "certificate-authority-data:");
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
    std::fs::write(&authority, decoded.expect("base64")).expect("write the authority");
    let authority = authority.to_str().expect("a path");
    let server = line(&kubeconfig, "server:");
    world.bootstrap(
        &HUB,
        &["--capsule-proxy", server, "--capsule-proxy-ca", authority],
    );

    world.commit(
        OIL,
        &[Change::write("app.yaml", config("oil-system", "app"))],
    );
    world.commit(
        FLEET,
        &[Change::write("clusters/hub/capsule.yaml", definitions())],
    );
    push(&world, &format!("{TENANT}{APPS}"));
    let app = "/api/v1/namespaces/oil-system/configmaps/app";
    world.eventually("the tenant's app is there", || match hub.find(app) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{:?}",
            ready(hub, "Kustomization", "oil-system", "oil-apps")
        )),
    });
    assert!(hub.get(SECRET)["data"]["kubeconfig"].is_string());
    let requests = hub.requests();
    let mut writes = requests
        .iter()
        .filter(|one| one.is_write() && one.namespace == "oil-system");
    assert!(
        writes.any(|one| one.user == OWNER && one.name == "app"),
        "the app was not applied through the owner's kubeconfig"
    );

    // When nothing has changed, the timer's run writes nothing.
    let rest = json!({"hubs": [{"hub": "hub", "applied": [], "deleted": []}]});
    assert_eq!(world.capsule(), rest);

    // The Secret is copied to the tenant's namespaces, and removed again.
    let global = TENANT.replace(
        "enabled: \"true\"",
        "enabled: \"true\"\n    capsule.addon.fluxcd/kubeconfig-global: \"true\"",
    );
    push(&world, &format!("{global}{APPS}"));
    world.capsule();
    let spread: Value = hub.get(GLOBAL);
    let copy = &spread["spec"]["resources"][0]["rawItems"][0];
    assert_eq!(copy["data"], hub.get(SECRET)["data"]);

    push(&world, &TENANT.replace("\"true\"", "\"false\""));
    world.capsule();
    for path in [SECRET, GLOBAL] {
        assert!(hub.find(path).is_none(), "{path}");
    }
}
