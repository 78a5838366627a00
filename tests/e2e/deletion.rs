//! Deletion of an object whose tenant has no account or rights any longer.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::json;

const FLEET: &str = "acme/deletion";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const ACCOUNT: &str = "/api/v1/namespaces/team/serviceaccounts/flux";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings";

/// Starts a hub with a tenant's Kustomization that acts as the tenant's account, on the hub or on
/// the cluster `edge`.
fn start(remote: bool) -> Embedded {
    let world = Embedded::start(&HUB, &["edge"]);
    let app = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: team\n";
    let empty = "resources: []\n";
    world.commit(
        FLEET,
        &[
            Change::write("apps/app.yaml", app),
            Change::write("clusters/hub/kustomization.yaml", empty),
        ],
    );
    let (hub, edge) = (world.cluster("hub"), world.cluster("edge"));
    for cluster in [hub, edge] {
        cluster.namespace("team");
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "flux"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "flux", "namespace": "team"}]});
        cluster.create(BINDINGS, &binding);
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "flux"}});
        cluster.create("/api/v1/namespaces/team/serviceaccounts", &account);
    }
    hub.secret("team", "edge", &json!({"value": edge.kubeconfig()}));
    let mut object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "apps"},
        "spec": {"interval": "10m", "path": "./apps", "prune": true, "serviceAccountName": "flux",
            "sourceRef": {"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"}}});
    if remote {
        object["spec"]["kubeConfig"] = json!({"secretRef": {"name": "edge"}});
    }
    hub.create(&path("Kustomization", "team", ""), &object);
    world.sweep();
    world.settle();
    let (status, reason, message) = ready(hub, "Kustomization", "team", "apps");
    assert_eq!(status, "True", "{reason}: {message}");
    world
}

/// Deletes the Kustomization and runs a sweep. Returns the messages of the events.
fn delete(world: &Embedded) -> String {
    let hub = world.cluster("hub");
    hub.delete(&path("Kustomization", "team", "apps"));
    world.sweep();
    world.pump();
    let events = hub.get("/api/v1/namespaces/team/events");
    let events = events["items"].as_array().expect("items");
    let messages = events.iter().filter_map(|event| event["message"].as_str());
    messages.collect::<Vec<_>>().join("\n")
}

fn is_there(world: &Embedded) -> bool {
    let hub = world.cluster("hub");
    hub.find(&path("Kustomization", "team", "apps")).is_some()
}

mod deletion_without_a_service_account {
    use super::*;

    #[test]
    fn releases_the_object_and_reports_what_is_left() {
        let world = start(false);
        let hub = world.cluster("hub");
        hub.delete(ACCOUNT);
        hub.delete(&format!("{BINDINGS}/flux"));
        let messages = delete(&world);
        assert!(!is_there(&world), "{messages}");
        assert!(
            messages.contains(
                "unable to prune objects (ServiceAccount 'team/flux' not found): ConfigMap/team/app"
            ),
            "{messages}"
        );
        assert!(hub.find(&path("ConfigMap", "team", "app")).is_some());
        assert!(world.stored("objects/hub/kustomizations/team/").is_empty());
    }

    /// The deletion is retried as in Flux: the rights may be granted again.
    #[test]
    fn an_account_without_rights_is_waited_for() {
        let world = start(false);
        let hub = world.cluster("hub");
        hub.delete(&format!("{BINDINGS}/flux"));
        let messages = delete(&world);
        assert!(is_there(&world));
        assert!(
            messages.contains("pruning for deleted resource failed"),
            "{messages}"
        );
        // The account is deleted, as at the end of its namespace.
        hub.delete(ACCOUNT);
        world.settle();
        assert!(!is_there(&world));
    }

    /// The rights on a remote cluster belong to the user's name, so the prune is tried without the
    /// account.
    #[test]
    fn a_remote_cluster_is_pruned_without_the_account() {
        let world = start(true);
        let (hub, edge) = (world.cluster("hub"), world.cluster("edge"));
        hub.delete(ACCOUNT);
        delete(&world);
        assert!(!is_there(&world));
        assert!(edge.find(&path("ConfigMap", "team", "app")).is_none());
        let world = start(true);
        let (hub, edge) = (world.cluster("hub"), world.cluster("edge"));
        hub.delete(ACCOUNT);
        edge.delete(&format!("{BINDINGS}/flux"));
        let messages = delete(&world);
        assert!(!is_there(&world), "{messages}");
        assert!(messages.contains("unable to prune objects"), "{messages}");
        assert!(edge.find(&path("ConfigMap", "team", "app")).is_some());
    }
}
