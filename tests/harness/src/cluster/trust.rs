//! Clusters that accept the service account tokens of another cluster.

use std::path::PathBuf;

use serde_json::json;

use super::{Cluster, audit};

/// The default issuer of a cluster's service account tokens.
const ISSUER: &str = "https://kubernetes.default.svc";
/// The prefix of the user names of another cluster's service accounts.
const PREFIX: &str = "hub:";

impl Cluster {
    /// Starts a cluster that trusts the issuer of `hub`: a token that `hub` issues for its service
    /// account `a/b`, with this cluster's [`Cluster::url`] as audience, authenticates as the user
    /// `hub:system:serviceaccount:a:b` here.
    pub fn start_trusting(name: &str, hub: &Cluster) -> Self {
        let cluster = Self::new(name, audit::POLICY);
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {
                    "url": ISSUER,
                    "discoveryURL": format!("{}/.well-known/openid-configuration", hub.url()),
                    "certificateAuthority": hub.ca(),
                    "audiences": [cluster.url()],
                },
                "claimMappings": {"username": {"claim": "sub", "prefix": PREFIX}},
            }],
        });
        std::fs::write(cluster.authentication(), configuration.to_string())
            .expect("write the authentication configuration");
        hub.publish_issuer();
        cluster.resume();
        cluster
    }

    /// Makes the keys of this cluster's issuer readable without authentication.
    fn publish_issuer(&self) {
        let name = "public-issuer-discovery";
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}],
        });
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}");
        self.api()
            .apply(&path, "platform-team", &binding)
            .unwrap_or_else(|e| panic!("publish the issuer of {}: {e}", self.name()));
    }

    /// Makes a user an administrator.
    pub fn make_admin(&self, user: &str) {
        let name = user.replace(':', "-");
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}");
        self.api()
            .apply(&path, "platform-team", &binding)
            .unwrap_or_else(|e| panic!("make {user} an administrator: {e}"));
    }

    /// Returns the server's arguments for token issuers. A cluster that trusts another one issues
    /// tokens under its own URL: two trusted issuers must not have the same name.
    pub(super) fn issuers(&self) -> Vec<String> {
        let file = self.authentication();
        if !file.exists() {
            return vec![format!("--service-account-issuer={ISSUER}")];
        }
        vec![
            format!("--service-account-issuer={}", self.url()),
            format!("--authentication-config={}", file.display()),
        ]
    }

    fn authentication(&self) -> PathBuf {
        self.directory.path().join("authentication.json")
    }
}
