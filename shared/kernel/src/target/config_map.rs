//! Access to a cluster by a ConfigMap (`spec.kubeConfig.configMapRef`), as by Flux 2.9: it has no
//! credentials, and each login has a new token.

use super::cluster_config::ClusterConfig;
use super::{aks, eks, gke};
use crate::credentials;
use crate::failure::{Failure, TargetError};
use crate::hub::Hub;
use crate::ports::{Access, Ports};
use driftless_flux::reason;

/// Returns the access to the cluster of a ConfigMap.
///
/// # Errors
/// The ConfigMap or the service account that it names is gone, an entry is not valid, or no token
/// is issued.
pub(super) async fn access(
    ports: &Ports,
    hub: &Hub,
    namespace: &str,
    name: &str,
) -> Result<Access, TargetError> {
    let Some(object) = credentials::read(hub, "ConfigMap", namespace, name).await? else {
        let message =
            format!("failed to get configmap {namespace}/{name}: configmaps \"{name}\" not found");
        return Err(TargetError::Gone(Failure::retry(reason::FAILED, message)));
    };
    let config = ClusterConfig {
        ports,
        hub,
        namespace,
        id: format!("ConfigMap/{namespace}/{name}"),
        object,
    };
    match config.entry("provider") {
        "generic" => config.generic().await,
        "aws" => eks::access(&config).await,
        "azure" => aks::access(&config).await,
        "gcp" => gke::access(&config).await,
        provider => Err(config.fail(format!(
            "provider '{}' not implemented",
            provider.escape_debug()
        ))),
    }
}
