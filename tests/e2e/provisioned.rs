//! Clusters that the fleet's objects create (Kamaji, Cluster API): a stand-in of the provider's
//! controller creates their kubeconfig Secret late, rotates it, and deletes it with the cluster. A
//! Kustomization and a HelmRelease wait for it.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const APP: &str = "/api/v1/namespaces/default/configmaps/app";
/// The object of the release.
const WEB: &str = "/api/v1/namespaces/default/configmaps/web";

/// The resource of a provider of clusters and its kubeconfig Secret.
struct Provider {
    /// The kind of its clusters, with group and version.
    kind: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    secret: &'static str,
    key: &'static str,
}

const KAMAJI: Provider = Provider {
    kind: "TenantControlPlane",
    group: "kamaji.clastix.io",
    version: "v1alpha1",
    plural: "tenantcontrolplanes",
    secret: "tenant-admin-kubeconfig",
    key: "admin.conf",
};
const CLUSTER_API: Provider = Provider {
    kind: "Cluster",
    group: "cluster.x-k8s.io",
    version: "v1beta1",
    plural: "clusters",
    secret: "tenant-kubeconfig",
    key: "value",
};

impl Provider {
    /// Returns the CustomResourceDefinition of its clusters.
    fn definition(&self) -> String {
        let Self {
            kind,
            group,
            version,
            plural,
            ..
        } = self;
        let singular = kind.to_lowercase();
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\nspec:\n  \
             group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}\n  versions:\n  - \
             name: {version}\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema: {{type: object, \
             x-kubernetes-preserve-unknown-fields: true}}\n"
        )
    }

    /// Returns a cluster, and a Kustomization and a HelmRelease that apply objects on it.
    fn cluster(&self) -> String {
        let Self {
            kind,
            group,
            version,
            secret,
            key,
            ..
        } = self;
        format!(
            "apiVersion: {group}/{version}\nkind: {kind}\nmetadata: {{name: tenant, namespace: default}}\nspec: {{controlPlane: \
             {{}}}}\n---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: apps, namespace: \
             default}}\nspec:\n  interval: 1h\n  retryInterval: 30m\n  prune: true\n  path: ./apps\n  sourceRef: {{kind: \
             GitRepository, name: flux-system, namespace: flux-system}}\n  kubeConfig:\n    secretRef: {{name: {secret}, key: {key}}}\n\
             ---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web, namespace: \
             default}}\nspec:\n  interval: 1h\n  releaseName: web\n  chart:\n    spec:\n      chart: ./charts/web\n      \
             reconcileStrategy: Revision\n      sourceRef: {{kind: GitRepository, name: flux-system, namespace: flux-system}}\n  \
             kubeConfig:\n    secretRef: {{name: {secret}, key: {key}}}\n"
        )
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/default/secrets/{}", self.secret)
    }

    fn cluster_path(&self) -> String {
        let Self {
            group,
            version,
            plural,
            ..
        } = self;
        format!("/apis/{group}/{version}/namespaces/default/{plural}/tenant")
    }
}

/// The login that the controller writes.
enum Login {
    /// None yet: the control plane starts.
    Starting,
    /// A login that the cluster does not accept, as between the two writes of a rotation.
    Early,
    /// The cluster's own login.
    Valid,
}

/// A stand-in of the controller of a provider.
struct Controller<'w> {
    provider: &'w Provider,
    hub: &'w dyn Node,
    tenant: &'w dyn Node,
    login: Login,
}

impl Controller<'_> {
    /// Makes the Secret what the cluster object and the login ask for.
    fn reconcile(&self) {
        let (hub, path) = (self.hub, self.provider.path());
        let secret = hub.find(&path);
        if hub.find(&self.provider.cluster_path()).is_none() {
            // The cluster is deleted, and the Secret with it.
            if secret.is_some() {
                self.tenant.stop();
                hub.delete(&path);
            }
            return;
        }
        let valid = self.tenant.kubeconfig();
        let kubeconfig = match self.login {
            Login::Starting => return,
            Login::Early => valid.replace("token: ", "token: un"),
            Login::Valid => valid,
        };
        let data = json!({self.provider.key: kubeconfig});
        match secret {
            None => hub.secret("default", self.provider.secret, &data),
            Some(_) => hub.patch(&path, &json!({"stringData": data})),
        }
    }

    /// Changes the login that the controller writes.
    fn rotate(&mut self, login: Login) {
        self.login = login;
        self.reconcile();
    }
}

fn apps(world: &Embedded) -> (String, String, String) {
    ready(world.cluster("hub"), "Kustomization", "default", "apps")
}

fn web(world: &Embedded) -> (String, String, String) {
    ready(world.cluster("hub"), "HelmRelease", "default", "web")
}

/// Advances the time by a minute, and sweeps.
fn minute(world: &Embedded, controller: &Controller<'_>) {
    world.advance(Duration::from_secs(60));
    controller.reconcile();
    world.sweep();
    world.settle();
}

fn check_life_cycle(provider: &Provider) {
    let world = Embedded::start(&HUB, &["tenant"]);
    let config = |value: &str| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: app, namespace: default}}\ndata: {{a: {value}}}\n"
        );
        Change::write("apps/app.yaml", text)
    };
    let definition = Change::write("clusters/hub/definition.yaml", provider.definition());
    let fleet = Change::write("clusters/hub/tenant.yaml", provider.cluster());
    let chart = [
        Change::write(
            "charts/web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        ),
        Change::write(
            "charts/web/templates/web.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
        ),
    ];
    let changes = [&[definition, fleet, config("one")][..], &chart].concat();
    world.commit(FLEET, &changes);
    world.sweep();
    world.settle();
    let (hub, tenant) = (world.cluster("hub"), world.cluster("tenant"));
    let mut controller = Controller {
        provider,
        hub,
        tenant,
        login: Login::Starting,
    };
    assert!(hub.find(&provider.cluster_path()).is_some());
    for waiting in [apps, web] {
        let (status, reason, message) = waiting(&world);
        assert_eq!(status, "False", "{reason}: {message}");
        assert!(message.contains(provider.secret), "{message}");
    }

    // The control plane starts slowly: the retries become rare.
    world.steps();
    (0..60).for_each(|_| minute(&world, &controller));
    let steps = world.steps();
    for object in ["Kustomization/default/apps", "HelmRelease/default/web"] {
        let count = steps.get(object).copied().unwrap_or_default();
        assert!(count <= 12, "{object}: {count} steps");
    }
    controller.rotate(Login::Valid);
    minute(&world, &controller);
    for ready in [apps, web] {
        let (status, reason, message) = ready(&world);
        assert_eq!(status, "True", "{reason}: {message}");
    }
    assert_eq!(tenant.get(APP)["data"]["a"], "one");
    assert!(tenant.find(WEB).is_some());

    // The Secret is rotated: first to a login that the cluster does not accept yet.
    controller.rotate(Login::Early);
    world.push(FLEET, &[config("two")]);
    world.settle();
    let (status, _, message) = apps(&world);
    assert_eq!(status, "False", "{message}");
    assert_eq!(tenant.get(APP)["data"]["a"], "one");
    minute(&world, &controller);
    controller.rotate(Login::Valid);
    minute(&world, &controller);
    let (status, reason, message) = apps(&world);
    assert_eq!(status, "True", "{reason}: {message}");
    assert_eq!(tenant.get(APP)["data"]["a"], "two");

    // The cluster is deleted, with its Kustomization and HelmRelease: the deletion is not blocked,
    // and nothing is left on the hub.
    let gone = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rest, namespace: default}\n";
    world.push(FLEET, &[Change::write("clusters/hub/tenant.yaml", gone)]);
    controller.reconcile();
    world.settle();
    (0..5).for_each(|_| minute(&world, &controller));
    assert!(hub.find(&provider.cluster_path()).is_none());
    assert!(hub.find(&provider.path()).is_none());
    for (kind, name) in [("Kustomization", "apps"), ("HelmRelease", "web")] {
        let left: Option<Value> = hub.find(&path(kind, "default", name));
        assert!(left.is_none(), "{left:?}");
    }
    let (status, reason, message) = ready(hub, "Kustomization", "flux-system", "flux-system");
    assert_eq!(status, "True", "{reason}: {message}");
}

#[test]
fn kamaji_provision() {
    check_life_cycle(&KAMAJI);
}

#[test]
fn capi_provision() {
    check_life_cycle(&CLUSTER_API);
}

/// The secret manager has the kubeconfig that the hub lacks, for one Secret of one namespace.
#[test]
fn a_kubeconfig_of_the_secret_manager_replaces_a_secret() {
    let world = Embedded::start(&HUB, &["edge"]);
    let kubeconfig = world.cluster("edge").kubeconfig();
    let world = world.with_secret("remotes/hub/flux-system/edge-kubeconfig", &kubeconfig);
    let sync = |name: &str, secret: &str| {
        let text = format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
             spec:\n  interval: 10m\n  path: ./apps\n  prune: true\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n  \
             kubeConfig: {{secretRef: {{name: {secret}}}}}\n"
        );
        Change::write(&format!("clusters/hub/{name}.yaml"), text)
    };
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, namespace: default}\n";
    world.commit(
        FLEET,
        &[
            sync("apps", "edge-kubeconfig"),
            sync("others", "another-kubeconfig"),
            Change::write("apps/app.yaml", config),
        ],
    );
    world.sweep();
    world.settle();
    let hub = world.cluster("hub");
    let (status, _, message) = ready(hub, "Kustomization", "flux-system", "apps");
    assert_eq!(status, "True", "{message}");
    assert!(world.cluster("edge").find(APP).is_some() && hub.find(APP).is_none());
    let (_, _, message) = ready(hub, "Kustomization", "flux-system", "others");
    assert!(
        message.contains("Secret/flux-system/another-kubeconfig"),
        "{message}"
    );
    // A Secret of the hub counts before it.
    hub.secret(
        "flux-system",
        "edge-kubeconfig",
        &json!({"value": "not a kubeconfig"}),
    );
    world.request("hub", "Kustomization", "flux-system", "apps");
    world.settle();
    let (status, _, message) = ready(hub, "Kustomization", "flux-system", "apps");
    assert_eq!(status, "False", "{message}");
    assert!(
        message.contains("Secret/flux-system/edge-kubeconfig, key 'value'"),
        "{message}"
    );
}
