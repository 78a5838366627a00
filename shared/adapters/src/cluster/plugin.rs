//! The login of a person by the credential plugin of that person's kubeconfig (`user.exec`), as in
//! kubectl.
//!
//! A plugin is a program that the kubeconfig names. So plugins are only for commands that a person
//! runs with their own kubeconfig. Code that serves hubs or reads another person's kubeconfig uses
//! the allow-list of [`driftless_kernel::kubeconfig`], which refuses `exec`.

use super::connect::{Protocol, assemble, config, refusal};
use super::{KubeCluster, Server};
use driftless_kernel::ports::{Access, ErrorKind, Impersonation, PortError, Result};
use kube::client::{AuthError, ConfigExt};
use kube::config::{AuthInfo, ExecAuthCluster, ExecConfig};
use serde_json::Value;
use std::process::Output;
use std::sync::Arc;

/// The number of characters of a plugin's stderr that a message quotes.
const STDERR_LIMIT: usize = 2000;

/// A credential plugin with the configuration for its cluster.
pub struct Plugin {
    exec: ExecConfig,
    /// The configuration for the plugin in the kubeconfig's cluster.
    settings: Option<Value>,
}

impl Plugin {
    /// Creates a plugin from `user.exec` and from the cluster's extension
    /// `client.authentication.k8s.io/exec`, if there is one. Returns `None` if `exec` is not valid
    /// or has no command.
    pub fn new(exec: Value, settings: Option<Value>) -> Option<Self> {
        let exec: ExecConfig = serde_json::from_value(exec).ok()?;
        let command = exec.command.as_deref();
        command.filter(|command| !command.is_empty())?;
        Some(Self { exec, settings })
    }

    /// Runs the plugin and connects with its credential. The plugin is run again when the
    /// credential expires.
    ///
    /// # Errors
    /// Fails if the plugin cannot be started, fails or does not write a credential, and if the
    /// access cannot be used.
    pub fn connect(&self, access: &Access) -> Result<KubeCluster> {
        self.connect_as(access, None)
    }

    /// Connects as [`Plugin::connect`] does, and impersonates a user if there is one.
    ///
    /// # Errors
    /// Those of [`Plugin::connect`].
    pub fn connect_as(&self, access: &Access, user: Option<&Impersonation>) -> Result<KubeCluster> {
        let plain = config(access)?;
        let mut with_plugin = plain.clone();
        with_plugin.auth_info = AuthInfo {
            exec: Some(self.for_cluster(access)),
            ..AuthInfo::default()
        };
        let failed = |error| self.failed(access, error);
        let auth = with_plugin.auth_layer().map_err(failed)?;
        // A token goes into each request. A certificate belongs to TLS, so kube runs the plugin
        // when it configures TLS.
        let tls = if auth.is_some() { &plain } else { &with_plugin };
        let client = assemble(tls, auth, access.allow_local, Protocol::Http2).map_err(failed)?;
        KubeCluster::new(Arc::new(Server::new(client, &access.server)), user)
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

    /// Converts kube's error. Its messages are not used, because they quote the output of the
    /// plugin, which is a credential.
    fn failed(&self, access: &Access, error: kube::Error) -> PortError {
        let command = self.exec.command.as_deref().unwrap_or_default();
        let reason = match error {
            kube::Error::Auth(AuthError::AuthExecStart(error)) => {
                let hint = self.exec.install_hint.as_deref().unwrap_or_default();
                let hint = hint.split_whitespace().collect::<Vec<_>>().join(" ");
                let gap = if hint.is_empty() { "" } else { ": " };
                format!("cannot be started: {error}{gap}{hint}")
            }
            kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => describe_exit(&out),
            kube::Error::Auth(AuthError::ExecPluginFailed | AuthError::AuthExecParse(_)) => {
                "did not write an ExecCredential with a status to its standard output".to_owned()
            }
            kube::Error::Auth(AuthError::MalformedTokenExpirationDate(_)) => {
                "wrote an expirationTimestamp that is not a time".to_owned()
            }
            kube::Error::Auth(_) => "wrote a credential that cannot be used".to_owned(),
            _ => {
                let reason =
                    "the certificate or key of the credential plugin cannot be used for TLS";
                return refusal(access, reason);
            }
        };
        let message = format!(
            "cluster {}: the credential plugin '{command}' (user.exec) {reason}",
            access.server
        );
        PortError::new(ErrorKind::Denied, message)
    }
}

/// Describes the exit status of the plugin, with its stderr if it did not go to the terminal.
fn describe_exit(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr: String = stderr.trim().chars().take(STDERR_LIMIT).collect();
    match stderr.is_empty() {
        true => format!("ended with {}", output.status),
        false => format!("ended with {}: {stderr}", output.status),
    }
}
