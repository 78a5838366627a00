//! Objects that several scenarios commit.

use driftless_harness::github::Change;

/// Returns a Kustomization of the directory of its name; `more` is the end of its spec.
pub fn kustomization(name: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  path: ./{name}\n  prune: true\n  sourceRef:\n    kind: GitRepository\n    name: flux-system\n{more}"
    )
}

/// Returns the change that adds the Kustomization `apps` to the hub of [`one_hub`].
///
/// [`one_hub`]: crate::site::one_hub
pub fn apps(more: &str) -> Change {
    Change::write("clusters/hub/apps.yaml", kustomization("apps", more))
}

/// Returns the change that gives the Deployment `web`, of the Kustomization `apps`, this image.
pub fn deployment(image: &str) -> Change {
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\nspec:\n  replicas: 1\n  \
         selector:\n    matchLabels: {{app: web}}\n  template:\n    metadata:\n      labels: {{app: web}}\n    \
         spec:\n      containers:\n      - name: web\n        image: {image}\n"
    );
    Change::write("apps/web.yaml", text)
}
