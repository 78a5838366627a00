//! The login of a person by the credential plugin of their own kubeconfig (`user.exec`), as kubectl has it.
//!
//! A plugin is a program, and the kubeconfig says which. So this is only for commands that a person runs with their own
//! kubeconfig. What serves hubs, and whatever reads a kubeconfig of somebody else, has the allow-list of
//! [`driftless_core::kubeconfig`], which refuses `exec`.

use super::connect::{assemble, config, refusal};
use super::{KubeCluster, Server};
use driftless_core::ports::{Access, ErrorKind, PortError, Result};
use kube::client::{AuthError, ConfigExt};
use kube::config::{AuthInfo, ExecAuthCluster, ExecConfig};
use serde_json::Value;
use std::process::Output;
use std::sync::Arc;

/// How much of a plugin's own words a message repeats.
const WORDS: usize = 2000;

/// A credential plugin.
pub struct Plugin {
    exec: ExecConfig,
    /// What the kubeconfig's cluster has for the plugin.
    settings: Option<Value>,
}

impl Plugin {
    /// From `user.exec`, and from the cluster's extension `client.authentication.k8s.io/exec` where there is one. `None` when
    /// `exec` is not what it has to be, or names no command.
    pub fn new(exec: Value, settings: Option<Value>) -> Option<Self> {
        let exec: ExecConfig = serde_json::from_value(exec).ok()?;
        let command = exec.command.as_deref();
        command.filter(|command| !command.is_empty())?;
        Some(Self { exec, settings })
    }

    /// Runs the plugin and opens the cluster with what it says; it is run again when that ends.
    ///
    /// # Errors
    /// A plugin that cannot be started, fails or says something else than a credential; see [`super::KubeClusters`] for the rest.
    pub fn connect(&self, access: &Access) -> Result<KubeCluster> {
        let plain = config(access)?;
        let mut with_plugin = plain.clone();
        with_plugin.auth_info = AuthInfo {
            exec: Some(self.for_cluster(access)),
            ..AuthInfo::default()
        };
        let failed = |error| self.failed(access, error);
        let auth = with_plugin.auth_layer().map_err(failed)?;
        // A token goes into each request. What is no token is a certificate, which TLS has to ask the plugin for.
        let tls = if auth.is_some() { &plain } else { &with_plugin };
        let client = assemble(tls, auth, access.allow_local).map_err(failed)?;
        KubeCluster::new(Arc::new(Server::new(client, &access.server)), None)
    }

    fn for_cluster(&self, access: &Access) -> ExecConfig {
        let mut exec = self.exec.clone();
        exec.cluster = exec.provide_cluster_info.then(|| ExecAuthCluster {
            server: Some(access.server.clone()),
            insecure_skip_tls_verify: Some(access.insecure_skip_tls_verify),
            certificate_authority_data: access.certificate_authority.clone(),
            proxy_url: None,
            tls_server_name: access.tls_server_name.clone(),
            config: self.settings.clone(),
        });
        exec
    }

    /// kube's own messages repeat what the plugin wrote, which is a credential.
    fn failed(&self, access: &Access, error: kube::Error) -> PortError {
        let command = self.exec.command.as_deref().unwrap_or_default();
        let what = match error {
            kube::Error::Auth(AuthError::AuthExecStart(error)) => {
                let hint = self.exec.install_hint.as_deref().unwrap_or_default();
                let hint = hint.split_whitespace().collect::<Vec<_>>().join(" ");
                let gap = if hint.is_empty() { "" } else { ": " };
                format!("cannot be started: {error}{gap}{hint}")
            }
            kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => ended(&out),
            kube::Error::Auth(AuthError::ExecPluginFailed | AuthError::AuthExecParse(_)) => {
                "did not write an ExecCredential with a status to its standard output".to_owned()
            }
            kube::Error::Auth(AuthError::MalformedTokenExpirationDate(_)) => {
                "wrote an expirationTimestamp that is not a time".to_owned()
            }
            kube::Error::Auth(_) => "wrote a credential that cannot be used".to_owned(),
            _ => {
                let what = "the certificate or key of the credential plugin cannot be used for TLS";
                return refusal(access, what);
            }
        };
        let message = format!(
            "cluster {}: the credential plugin '{command}' (user.exec) {what}",
            access.server
        );
        PortError::new(ErrorKind::Denied, message)
    }
}

/// How it ended, and its last words where it did not write them to the terminal itself.
fn ended(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(WORDS).collect();
    match words.is_empty() {
        true => format!("ended with {}", output.status),
        false => format!("ended with {}: {words}", output.status),
    }
}
