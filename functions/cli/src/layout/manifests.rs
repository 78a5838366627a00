//! The contents of the files that the commands write.

use super::resources::kustomization;
use crate::create::Tenant;
use driftless_flux::Invalid;
use driftless_manifest::{names, yaml};
use serde_json::{Value, json};

/// The generation of Flux's API in new files.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    is_old: bool,
}

/// Parses the URL of a Git repository.
pub fn url(text: &str) -> Result<String, Invalid> {
    let is_plain = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    let is_known = ["https://", "http://", "ssh://"].iter().any(|scheme| {
        text.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    });
    match is_plain && is_known {
        true => Ok(text.to_owned()),
        false => Err("expected https://HOST/PATH, http://HOST/PATH or ssh://USER@HOST/PATH".into()),
    }
}

/// Parses the name of a branch, with those rules of `git check-ref-format` that matter in YAML and
/// in a path.
pub fn branch(text: &str) -> Result<String, Invalid> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    let is_valid = !text.is_empty()
        && text.chars().all(fits)
        && !text.starts_with(['-', '/', '.'])
        && !text.ends_with(['/', '.'])
        && !text.contains("..")
        && !text.contains("//");
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err(
            "expected the name of a branch, of letters, digits, '-', '_', '.', '+' and '/'".into(),
        ),
    }
}

/// Parses the name of a Secret.
pub fn secret_name(text: &str) -> Result<String, Invalid> {
    match names::subdomain(text).as_slice() {
        [] => Ok(text.to_owned()),
        problems => Err(problems.join("; ").into()),
    }
}

impl Api {
    /// Returns the newest generation, or that of the scripts.
    pub fn new(is_old: bool) -> Self {
        Self { is_old }
    }

    fn version(self, group: &str) -> String {
        format!(
            "{group}.toolkit.fluxcd.io/{}",
            if self.is_old { "v1beta1" } else { "v1" }
        )
    }

    /// Returns a GitRepository that follows a branch.
    pub fn git(self, name: &str, namespace: &str, url: &str, branch: &str) -> String {
        text(
            &json!({"apiVersion": self.version("source"), "kind": "GitRepository",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"interval": "1m0s", "url": url, "ref": {"branch": branch}}}),
        )
    }

    /// Returns a Kustomization of the fleet repository.
    pub fn fleet(
        self,
        name: &str,
        namespace: &str,
        interval: &str,
        path: &str,
        remote: Option<&str>,
    ) -> String {
        let mut object = json!({"apiVersion": self.version("kustomize"), "kind": "Kustomization",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"interval": interval, "path": path, "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": namespace}}});
        if self.is_old {
            object["spec"]["validation"] = "client".into();
        }
        if let Some(remote) = remote {
            object["spec"]["kubeConfig"] = kubeconfig_of(remote);
        }
        text(&object)
    }

    /// Returns the Kustomization that decrypts the kubeconfigs of a remote cluster. The namespaces
    /// of tenants may be created after it, so a failure is soon repeated. It prunes nothing: the
    /// Kustomizations of the remote cluster need the kubeconfigs for their own prune.
    pub fn kubeconfigs(self, remote: &str, namespace: &str, path: &str, key: &str) -> String {
        text(
            &json!({"apiVersion": self.version("kustomize"), "kind": "Kustomization",
            "metadata": {"name": format!("{remote}-kubeconfigs"), "namespace": namespace},
            "spec": {"interval": "10m0s", "retryInterval": "1m0s", "path": path, "prune": false,
                "decryption": {"provider": "sops", "secretRef": {"name": key}},
                "sourceRef": {"kind": "GitRepository", "name": namespace}}}),
        )
    }

    /// Returns the Kustomization of an application.
    pub fn app(self, app: &str, tenant: &str, namespace: &str, source: &str) -> String {
        text(
            &json!({"apiVersion": self.version("kustomize"), "kind": "Kustomization",
            "metadata": {"name": app, "namespace": namespace},
            "spec": {"targetNamespace": namespace, "interval": "1m0s", "path": format!("./{app}/manifest"),
                "prune": false, "serviceAccountName": tenant,
                "sourceRef": {"kind": "GitRepository", "name": source}}}),
        )
    }

    /// Returns the patch of an application for a cluster, in the API version of the application's
    /// own file, because a patch of another version would match nothing.
    pub fn app_patch(
        self,
        app: &str,
        namespace: &str,
        cluster: &str,
        remote: Option<&str>,
        version: Option<String>,
    ) -> String {
        let version = version.unwrap_or_else(|| self.version("kustomize"));
        let directory = remote.unwrap_or(cluster);
        let mut object = json!({"apiVersion": version, "kind": "Kustomization",
            "metadata": {"name": app, "namespace": namespace}, "spec": {"path": format!("./{app}/{directory}")}});
        if let Some(remote) = remote {
            object["spec"]["kubeConfig"] = kubeconfig_of(remote);
        }
        text(&object)
    }

    /// Returns the kustomization with the patch of [`Api::app_patch`].
    pub fn app_overlay(self, base: &str, remote: Option<&str>) -> String {
        let patches = match self.is_old {
            true => "patchesStrategicMerge:\n- sync-patch.yaml\n",
            false => "patches:\n- path: sync-patch.yaml\n",
        };
        let prefix = remote.map(|remote| format!("namePrefix: {remote}-\n"));
        kustomization(&[base]) + patches + &prefix.unwrap_or_default()
    }
}

fn kubeconfig_of(remote: &str) -> Value {
    json!({"secretRef": {"name": format!("{remote}-kubeconfig")}})
}

/// Returns an object as a YAML document.
pub fn text(object: &Value) -> String {
    yaml::to_string(object)
}

/// Returns a Namespace.
pub fn namespace(name: &str) -> String {
    text(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

/// Returns the output of `flux create tenant NAME --with-namespace NAMESPACE --export`.
pub fn tenant(name: &str, namespace: &str) -> String {
    let namespaces = [namespace];
    let objects = Tenant::administrator(name, &namespaces).objects();
    let document = |(_, object)| "---\n".to_owned() + &text(&object);
    objects.into_iter().map(document).collect()
}
