//! Renders kubeconfigs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_manifest::yaml;
use serde_json::json;

/// Renders a kubeconfig for one server and one bearer token, without references to files.
/// `authority` is the certificate authority as PEM; it is absent without TLS, for a server in this
/// process.
pub fn kubeconfig(server: &str, authority: Option<&str>, token: &str) -> String {
    let mut cluster = json!({"server": server});
    if let Some(authority) = authority {
        cluster["certificate-authority-data"] = STANDARD.encode(authority).into();
    }
    yaml::to_string(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "driftless", "cluster": cluster}],
        "users": [{"name": "driftless", "user": {"token": token}}],
        "contexts": [{"name": "driftless", "context": {"cluster": "driftless", "user": "driftless"}}],
        "current-context": "driftless",
    }))
}
