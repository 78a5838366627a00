//! The cluster that an object works on, and the user that it acts as.

mod aks;
mod cluster_config;
mod config_map;
mod eks;
mod gke;
pub mod health;
pub mod objects;
pub mod polling;

pub use cluster_config::canonical;

use crate::address;
use crate::applier::{Applier, Strategy, WriteSpans};
use crate::cloud;
use crate::context::Context;
use crate::credentials;
use crate::failure::{Failure, TargetError};
use crate::hub::Hub;
use crate::kubeconfig;
use crate::ports::{Access, Cluster, ErrorKind, Impersonation, PortError, Ports, Secret};
use driftless_flux::{
    FLUX_SYSTEM, HelmRelease, KUSTOMIZE_CONTROLLER, KubeConfigRef, Kustomization, SecretKeyRef,
    reason,
};
use std::sync::Arc;

/// A cluster, with the user that the object acts as.
#[derive(Clone)]
pub struct Target {
    /// The client of the cluster.
    pub cluster: Arc<dyn Cluster>,
    /// True if the cluster is not the hub.
    pub remote: bool,
    /// The [identity](Access::identity) of the access to the cluster.
    pub identity: String,
    /// The spans of the writes to the cluster.
    spans: Arc<WriteSpans>,
}

impl Target {
    /// Returns the writer of objects to the cluster.
    pub fn applier(&self, strategy: Strategy) -> Applier<'_> {
        Applier::new(self.cluster.as_ref(), strategy).with_spans(&self.spans)
    }
}

/// An object with a target cluster.
pub trait TargetsCluster: Sync {
    /// Returns the namespace of its Secrets and service accounts.
    fn namespace(&self) -> &str;
    /// Returns the reference to the remote cluster; `None` for the hub itself.
    fn kube_config(&self) -> Option<&KubeConfigRef>;
    /// Returns the service account that the object names.
    fn service_account(&self) -> Option<&str>;
}

impl TargetsCluster for Kustomization {
    fn namespace(&self) -> &str {
        &self.id.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        self.spec.kube_config.as_ref()
    }

    fn service_account(&self) -> Option<&str> {
        self.spec.service_account_name.as_deref()
    }
}

impl TargetsCluster for HelmRelease {
    fn namespace(&self) -> &str {
        &self.id.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        self.spec.kube_config.as_ref()
    }

    fn service_account(&self) -> Option<&str> {
        self.spec.service_account_name.as_deref()
    }
}

/// Connects to the hub or to the remote cluster of `spec.kubeConfig`, as the service account of the
/// object, else as the hub's default one.
///
/// # Errors
/// A Secret is missing, the kubeconfig is refused, or the name of the service account is not valid.
pub async fn connect(
    context: &Context<'_>,
    object: &impl TargetsCluster,
) -> Result<Target, TargetError> {
    connect_to(context.ports, &context.hub, object).await
}

/// Connects as [`connect`] does, outside a step.
///
/// # Errors
/// Those of [`connect`].
pub async fn connect_to(
    ports: &Ports,
    hub: &Hub,
    object: &impl TargetsCluster,
) -> Result<Target, TargetError> {
    let user = user(hub, object)?;
    open(ports, hub, object, user.as_ref()).await
}

/// Connects to the same cluster as another user, or as the identity of the hub or the kubeconfig
/// itself.
///
/// # Errors
/// Those of [`connect`].
pub async fn open(
    ports: &Ports,
    hub: &Hub,
    object: &impl TargetsCluster,
    user: Option<&Impersonation>,
) -> Result<Target, TargetError> {
    let Some(reference) = object.kube_config() else {
        let cluster = match user {
            None => hub.cluster.clone(),
            Some(user) => ports
                .clusters
                .connect(&hub.access, Some(user))
                .await
                .map_err(Failure::from)?,
        };
        return Ok(Target {
            cluster,
            remote: false,
            identity: hub.access.identity(),
            spans: Arc::new(WriteSpans::new(hub.settings.name.clone())),
        });
    };
    let namespace = object.namespace();
    let names = [
        reference.secret_ref.as_ref().map(|secret| &secret.name),
        reference.config_map_ref.as_ref().map(|map| &map.name),
    ];
    let name = names.into_iter().flatten().next();
    let name = format!("{namespace}/{}", name.map_or("", String::as_str));
    let access = match (&reference.secret_ref, &reference.config_map_ref) {
        (Some(secret), None) => from_secret(ports, hub, namespace, secret).await?,
        (None, Some(map)) => config_map::access(ports, hub, namespace, &map.name).await?,
        _ => {
            let message = "exactly one of .spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be set";
            return Err(Failure::terminal(reason::FAILED, message).into());
        }
    };
    let cluster = ports
        .clusters
        .connect(&access, user)
        .await
        .map_err(Failure::from)?;
    Ok(Target {
        cluster,
        remote: true,
        identity: access.identity(),
        spans: Arc::new(WriteSpans::new(name)),
    })
}

/// Returns the name in the secret manager of a kubeconfig whose Secret the hub lacks.
pub fn kubeconfig_name(hub: &str, namespace: &str, secret: &str) -> String {
    format!("remotes/{hub}/{namespace}/{secret}")
}

/// Reads the kubeconfig of a Secret; if the hub lacks it, the one that the secret manager has in
/// its place.
async fn from_secret(
    ports: &Ports,
    hub: &Hub,
    namespace: &str,
    secret: &SecretKeyRef,
) -> Result<Access, TargetError> {
    let id = format!("Secret/{namespace}/{}", secret.name);
    let Some(found) = credentials::secret(hub, namespace, &secret.name).await? else {
        let name = kubeconfig_name(&hub.settings.name, namespace, &secret.name);
        let stored = ports.secrets.secret(&name).await;
        if let Some(text) = stored.map_err(Failure::from)? {
            return Ok(access(hub, &text, &name)?);
        }
        let message = format!("{id} with the kubeconfig of spec.kubeConfig.secretRef is not found");
        return Err(TargetError::Gone(Failure::retry(reason::FAILED, message)));
    };
    let keys: Vec<&str> = match secret.key.as_deref().filter(|key| !key.is_empty()) {
        Some(key) => vec![key],
        None => vec!["value", "value.yaml"],
    };
    let Some((key, text)) = keys
        .iter()
        .find_map(|key| Some((*key, credentials::entry(&found, key)?)))
    else {
        let message = format!(
            "{id} has no key '{}' with a kubeconfig",
            keys.join("' or '")
        );
        return Err(Failure::retry(reason::FAILED, message).into());
    };
    Ok(access(hub, &text, &format!("{id}, key '{key}'"))?)
}

/// Parses a kubeconfig; errors name its `place`.
fn access(hub: &Hub, text: &Secret, place: &str) -> Result<Access, Failure> {
    let options = kubeconfig::Options {
        allow_insecure: hub.settings.allow_insecure_kubeconfigs,
        allow_local: hub.settings.allow_local_clusters,
    };
    let access = kubeconfig::parse(text.expose(), &options).map_err(|error| {
        Failure::terminal(reason::FAILED, &error)
            .caused_by(error)
            .context(place)
    })?;
    refuse_local(hub, place, &access.server)?;
    Ok(access)
}

/// Refuses a server's address that leads back into this installation, unless the hub's settings
/// allow it; `place` is the prefix of the error.
fn refuse_local(hub: &Hub, place: &str, server: &str) -> Result<(), Failure> {
    if hub.settings.allow_local_clusters || !is_local(server) {
        return Ok(());
    }
    let message = format!(
        "{place}: the server's address is loopback or link-local, and leads back into this installation"
    );
    Err(Failure::terminal(reason::ACCESS_DENIED, message))
}

/// Returns whether the host of `https://HOST:PORT/PATH` is an address that leads back into this
/// installation.
fn is_local(server: &str) -> bool {
    let authority = server
        .trim_start_matches("https://")
        .split('/')
        .next()
        .unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    address::is_local_host(host)
}

/// Returns a hint for a refused request of an object on the hub that names no account: it acts as
/// the hub's default one, which may be meant only for tenants. `None` if that is not the cause.
pub fn remedy(hub: &Hub, object: &impl TargetsCluster, error: &PortError) -> Option<String> {
    let is_named = object
        .service_account()
        .is_some_and(|name| !name.is_empty());
    let default = hub.settings.default_service_account.as_deref()?;
    if is_named || object.kube_config().is_some() || error.kind != ErrorKind::Denied {
        return None;
    }
    let namespace = object.namespace();
    let account = format!(
        "; it acts as ServiceAccount {namespace}/{default}, the hub's --default-service-account, because it names no account"
    );
    Some(match namespace {
        FLUX_SYSTEM => format!(
            "{account}: add 'serviceAccountName: {KUSTOMIZE_CONTROLLER}' to its spec, so that it acts as cluster administrator"
        ),
        _ => {
            format!("{account}: set spec.serviceAccountName, or grant that account the permissions")
        }
    })
}

/// Returns an error if the hub does not have the account that an object acts as: then the object's
/// work cannot be done.
///
/// # Errors
/// The errors of the hub, or the name of the service account is not valid.
pub async fn missing_account(
    hub: &Hub,
    object: &impl TargetsCluster,
) -> Result<Option<TargetError>, Failure> {
    let Some(name) = account(hub, object)? else {
        return Ok(None);
    };
    let namespace = object.namespace();
    let found = credentials::read(hub, "ServiceAccount", namespace, name).await?;
    Ok(found.is_none().then(|| {
        let message = format!("ServiceAccount '{namespace}/{name}' not found");
        TargetError::Gone(Failure::retry(reason::FAILED, message))
    }))
}

/// Returns the service account to act as: the object's own, else the hub's default. A name that is
/// not valid is refused: a request without a user would be made with the hub's own permissions.
fn user(hub: &Hub, object: &impl TargetsCluster) -> Result<Option<Impersonation>, Failure> {
    let name = account(hub, object)?;
    Ok(name.map(|name| Impersonation::service_account(object.namespace(), name)))
}

/// Returns the name of the service account to act as.
fn account<'a>(hub: &'a Hub, object: &'a impl TargetsCluster) -> Result<Option<&'a str>, Failure> {
    let own = object.service_account().filter(|name| !name.is_empty());
    let Some(name) = own.or(hub.settings.default_service_account.as_deref()) else {
        return Ok(None);
    };
    if !cloud::is_account_name(name) {
        let message = format!(
            "spec.serviceAccountName '{}' is not a valid name of a service account",
            name.escape_debug()
        );
        return Err(Failure::terminal(reason::ACCESS_DENIED, message));
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn addresses_that_lead_back() {
        for server in [
            "https://127.0.0.1:6443",
            "https://localhost:9001/x",
            "https://169.254.169.254",
            "https://[::1]",
            "https://[::1]:6443",
            "https://[::ffff:127.0.0.1]",
            "https://0.0.0.0:6443",
        ] {
            assert!(is_local(server), "{server}");
        }
        for server in [
            "https://10.0.0.1:6443",
            "https://api.example.com",
            "https://[2001:db8::1]:6443",
        ] {
            assert!(!is_local(server), "{server}");
        }
    }
}
