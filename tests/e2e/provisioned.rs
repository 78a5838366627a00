//! Clusters that the fleet's objects create (Kamaji, Cluster API): their kubeconfig Secret is
//! created late, rotated, and deleted.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = [HubSpec {
    name: "hub",
    repository: FLEET,
    branch: "main",
    path: "./clusters/hub",
}];
const APP: &str = "/api/v1/namespaces/default/configmaps/app";

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

    /// Returns a cluster, and a Kustomization that applies objects on it.
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
             GitRepository, name: flux-system, namespace: flux-system}}\n  kubeConfig:\n    secretRef: {{name: {secret}, key: {key}}}\n"
        )
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/default/secrets/{}", self.secret)
    }

    fn write(&self, hub: &dyn Node, kubeconfig: &str) {
        let data = json!({self.key: kubeconfig});
        match hub.find(&self.path()) {
            None => hub.secret("default", self.secret, &data),
            Some(_) => hub.patch(&self.path(), &json!({"stringData": data})),
        }
    }
}

fn apps(world: &Embedded) -> (String, String, String) {
    ready(world.cluster("hub"), "Kustomization", "default", "apps")
}

/// Advances the time by a minute, and sweeps.
fn minute(world: &Embedded) {
    world.advance(Duration::from_secs(60));
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
    world.commit(FLEET, &[definition, fleet, config("one")]);
    world.sweep();
    world.settle();
    let (hub, tenant) = (world.cluster("hub"), world.cluster("tenant"));
    let cluster = format!(
        "/apis/{}/{}/namespaces/default/{}/tenant",
        provider.group, provider.version, provider.plural
    );
    assert!(hub.find(&cluster).is_some());
    let (status, reason, message) = apps(&world);
    assert_eq!(status, "False", "{reason}: {message}");
    assert!(message.contains(provider.secret), "{message}");

    // The control plane starts slowly: the retries become rare.
    world.steps();
    (0..60).for_each(|_| minute(&world));
    let steps = world.steps().get("Kustomization/default/apps").copied();
    assert!(steps.unwrap_or_default() <= 12, "{steps:?}");
    world.steps();
    provider.write(hub, &tenant.kubeconfig());
    minute(&world);
    let (status, reason, message) = apps(&world);
    assert_eq!(status, "True", "{reason}: {message}");
    assert_eq!(tenant.get(APP)["data"]["a"], "one");

    // The Secret is rotated: first to a login that the cluster does not accept yet, as between the
    // two writes of a rotation.
    let unknown = tenant.kubeconfig().replace("token: ", "token: un");
    assert_ne!(unknown, tenant.kubeconfig());
    provider.write(hub, &unknown);
    world.push(FLEET, &[config("two")]);
    world.settle();
    let (status, _, message) = apps(&world);
    assert_eq!(status, "False", "{message}");
    assert_eq!(tenant.get(APP)["data"]["a"], "one");
    minute(&world);
    provider.write(hub, &tenant.kubeconfig());
    minute(&world);
    let (status, reason, message) = apps(&world);
    assert_eq!(status, "True", "{reason}: {message}");
    assert_eq!(tenant.get(APP)["data"]["a"], "two");

    // The cluster is deleted before its objects: the deletion is not blocked, and nothing is left
    // on the hub.
    tenant.stop();
    hub.delete(&provider.path());
    let gone = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rest, namespace: default}\n";
    world.push(FLEET, &[Change::write("clusters/hub/tenant.yaml", gone)]);
    world.settle();
    (0..5).for_each(|_| minute(&world));
    assert!(hub.find(&cluster).is_none());
    let left: Option<Value> = hub.find(&path("Kustomization", "default", "apps"));
    assert!(left.is_none(), "{left:?}");
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
