//! Remote bases in a tenant's kustomization: refused, until the platform allows them for a hub.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;

const FLEET: &str = "acme/remote";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

#[test]
fn remote_bases_are_fetched_when_the_hub_allows_them() {
    let world = Embedded::start(&HUB, &[]);
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: default\n";
    world.commit(
        "acme/base",
        &[
            Change::write("config/kustomization.yaml", "resources: [app.yaml]\n"),
            Change::write("config/app.yaml", config),
            Change::write(
                "out/kustomization.yaml",
                "resources: [../../../../../../clusters]\n",
            ),
        ],
    );
    let entry = |directory: &str| {
        let text = format!("resources: ['https://github.com/acme/base//{directory}?ref=main']\n");
        Change::write("clusters/hub/kustomization.yaml", text)
    };
    world.commit(FLEET, &[entry("config")]);
    world.sweep();
    world.settle();
    let hub = world.cluster("hub");
    let (_, reason, message) = ready(hub, "Kustomization", "flux-system", "flux-system");
    assert_eq!(reason, "BuildFailed");
    assert!(
        message.contains("is remote: only files and directories"),
        "{message}"
    );
    let path = "/api/v1/namespaces/default/configmaps/app";
    assert!(hub.find(path).is_none());

    world.change("hub", |settings| settings.allow_remote_bases = true);
    world.request("hub", "Kustomization", "flux-system", "flux-system");
    world.settle();
    let (status, _, message) = ready(hub, "Kustomization", "flux-system", "flux-system");
    assert_eq!(status, "True", "{message}");
    assert!(hub.find(path).is_some());

    // A fetched base cannot read the tenant's own files, and a failure deletes nothing.
    world.push(FLEET, &[entry("out")]);
    world.settle();
    let (_, reason, message) = ready(hub, "Kustomization", "flux-system", "flux-system");
    assert_eq!(reason, "BuildFailed", "{message}");
    assert!(message.contains("clusters"), "{message}");
    assert!(hub.find(path).is_some());
}
