//! Objects with `spec.kubeConfig.configMapRef`: on a cluster that accepts a token (each side's
//! own), and with invalid ConfigMaps.

use driftless_harness::cluster::Cluster;
use serde_json::{Value, json};

/// The names of the ConfigMaps, and the fields in which each differs from the valid one.
const CONFIG_MAPS: [(&str, &[(&str, &str)]); 10] = [
    ("opened", &[]),
    ("opened-no-account", &[("serviceAccountName", "absent")]),
    ("opened-no-address", &[("address", "")]),
    ("opened-no-tls", &[("address", "http://127.0.0.1:1")]),
    ("opened-no-provider", &[("provider", "")]),
    ("opened-eks", &[("provider", "aws"), ("cluster", "prod")]),
    (
        "opened-eks-no-role",
        &[
            ("provider", "aws"),
            ("cluster", "arn:aws:eks:eu-west-1:012345678901:cluster/prod"),
        ],
    ),
    ("opened-aks", &[("provider", "azure")]),
    ("opened-gke", &[("provider", "gcp")]),
    (
        "opened-gke-no-account",
        &[("provider", "gcp"), ("serviceAccountName", "absent")],
    ),
];

/// Returns a Kustomization and a HelmRelease for each ConfigMap, and for a missing one.
pub fn objects(cluster: &Cluster) -> String {
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "opener", "namespace": "apps",
            "annotations": {"gcp.auth.fluxcd.io/workload-identity-provider": "b"}}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "opener"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "opener", "namespace": "apps"}]}),
    ];
    for (name, changes) in CONFIG_MAPS {
        let mut data = json!({"provider": "generic", "address": cluster.url(), "ca.crt": cluster.ca(),
            "serviceAccountName": "opener", "audiences": "https://kubernetes.default.svc\n"});
        for (key, value) in changes {
            data[*key] = json!(value);
        }
        all.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"}, "data": data}));
    }
    let names = CONFIG_MAPS.iter().map(|(name, _)| *name);
    all.extend(names.chain(["opened-no-map"]).flat_map(followers));
    json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string()
}

fn followers(name: &str) -> [Value; 2] {
    let way = json!({"configMapRef": {"name": name}});
    [
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": name, "namespace": "apps"},
            "spec": {"interval": "1h", "path": "./opened", "prune": true, "namePrefix": format!("{name}-"), "kubeConfig": way,
                "sourceRef": {"kind": "GitRepository", "name": "fleet"}}}),
        json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": "apps"},
            "spec": {"interval": "1h", "kubeConfig": way, "values": {"color": "red"},
                "chart": {"spec": {"chart": "web", "version": "1.x", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}}}}),
    ]
}
