//! The oil tenant of capsule-addon-fluxcd, as the administrator creates it in the add-on's README.

/// The objects that the administrator creates in the add-on's README.
pub const TENANT: &str = r#"---
apiVersion: v1
kind: Namespace
metadata:
  name: oil-system
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: gitops-reconciler
  namespace: oil-system
  annotations:
    capsule.addon.fluxcd/enabled: "true"
---
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata:
  name: oil
spec:
  additionalRoleBindings:
  - clusterRoleName: cluster-admin
    subjects:
    - name: gitops-reconciler
      kind: ServiceAccount
      namespace: oil-system
  owners:
  - name: system:serviceaccount:oil-system:gitops-reconciler
    kind: ServiceAccount
"#;
/// The objects that are reconciled as the tenant.
pub const APPS: &str = r#"---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: oil-apps
  namespace: oil-system
spec:
  interval: 10m
  prune: true
  serviceAccountName: gitops-reconciler
  kubeConfig:
    secretRef:
      name: gitops-reconciler-kubeconfig
      key: kubeconfig
  sourceRef:
    kind: GitRepository
    name: oil
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: oil
  namespace: oil-system
spec:
  interval: 10m
  url: https://github.com/oil/oil-apps
  ref: {branch: main}
"#;

/// Returns Capsule's CustomResourceDefinitions, without their schemas.
pub fn definitions() -> String {
    let kinds = ["Tenant", "GlobalTenantResource", "CapsuleConfiguration"];
    let all = kinds.map(|kind| definition(kind, &(kind.to_lowercase() + "s")));
    all.concat()
}

fn definition(kind: &str, plural: &str) -> String {
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {plural}.capsule.clastix.io\n\
         spec:\n  group: capsule.clastix.io\n  scope: Cluster\n  names: {{kind: {kind}, plural: {plural}, singular: {}}}\n  versions:\n  \
         - name: v1beta2\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema: {{type: object, \
         x-kubernetes-preserve-unknown-fields: true}}\n",
        kind.to_lowercase()
    )
}

/// Returns a ConfigMap as a YAML document.
pub fn config(namespace: &str, name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{a: b}}\n"
    )
}
