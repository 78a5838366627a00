//! Clusters of `spec.kubeConfig.configMapRef`, which are opened with tokens. Since the real ones
//! are not reachable offline, an embedded cluster is served at their address, which accepts every
//! token.

use super::World;
use super::stand_in::{MANAGER, StandIn, StandInKind, apply, stand_in};
use crate::error::Error;
use async_trait::async_trait;
use driftless_adapters::offline::Offline;
use driftless_apiserver::User;
use driftless_flux::ObjectRef;
use driftless_kernel::credentials;
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, ClusterEndpoint, CodeCommit, EcrRegistry,
    EksCluster, EntraIdentity, ErrorKind, GkeCluster, Google, GoogleIdentity, PortError,
    RegistryLogin, Result as PortResult, Secret, Token,
};
use driftless_kernel::target::{self, TargetsCluster};
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The lifetime of a token.
const TOKEN_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Cloud providers that know the clusters described by ConfigMaps.
#[derive(Default)]
pub(super) struct DescribedClusters(Mutex<BTreeMap<String, ClusterEndpoint>>);

impl DescribedClusters {
    fn add(&self, cluster: String, place: ClusterEndpoint) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.insert(cluster, place);
    }

    fn place(&self, cluster: &str) -> PortResult<ClusterEndpoint> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(cluster).cloned().ok_or_else(|| {
            let message = format!("no ConfigMap describes the cluster {cluster}");
            PortError::new(ErrorKind::NotFound, message)
        })
    }
}

/// Returns the host name of a managed cluster of a cloud provider, or `None` if the cluster's name
/// is not valid.
fn managed(provider: &str, cluster: &str) -> Option<String> {
    match provider {
        "aws" => EksCluster::parse(cluster).map(|one| eks(&one)),
        "azure" => AksCluster::parse(cluster).map(|one| aks(&one)),
        "gcp" => GkeCluster::parse(cluster).map(|one| gke(&one)),
        _ => None,
    }
}

fn eks(cluster: &EksCluster) -> String {
    format!("{}.{}.eks", cluster.name, cluster.region)
}

fn aks(cluster: &AksCluster) -> String {
    format!(
        "{}.{}.{}.aks",
        cluster.name, cluster.group, cluster.subscription
    )
}

fn gke(cluster: &GkeCluster) -> String {
    let parts: Vec<&str> = cluster.name.split('/').rev().step_by(2).collect();
    format!("{}.gke", parts.join("."))
}

fn token(now: Duration) -> Token {
    Token {
        secret: Secret::new("stand-in"),
        expires: now + TOKEN_LIFETIME,
    }
}

#[async_trait]
impl Aws for DescribedClusters {
    async fn describe(
        &self,
        cluster: &EksCluster,
        _: &AwsIdentity,
        _: Duration,
    ) -> PortResult<ClusterEndpoint> {
        self.place(&eks(cluster))
    }

    async fn token(&self, _: &EksCluster, _: &AwsIdentity, now: Duration) -> PortResult<Token> {
        Ok(token(now))
    }

    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> PortResult<RegistryLogin> {
        Aws::registry(&Offline, registry, identity, now).await
    }

    /// Returns a login that nothing checks: a directory replaces the repository.
    async fn git(
        &self,
        _: &CodeCommit,
        _: &AwsIdentity,
        now: Duration,
    ) -> PortResult<RegistryLogin> {
        Ok(RegistryLogin {
            user: "stand-in".to_owned(),
            password: token(now).secret,
        })
    }
}

#[async_trait]
impl Azure for DescribedClusters {
    async fn describe(
        &self,
        cluster: &AksCluster,
        _: &EntraIdentity,
        _: Duration,
    ) -> PortResult<Vec<ClusterEndpoint>> {
        Ok(vec![self.place(&aks(cluster))?])
    }

    async fn token(&self, _: &EntraIdentity, now: Duration) -> PortResult<Token> {
        Ok(token(now))
    }

    async fn registry(
        &self,
        registry: &AcrRegistry,
        identity: &EntraIdentity,
        now: Duration,
    ) -> PortResult<RegistryLogin> {
        Azure::registry(&Offline, registry, identity, now).await
    }

    /// Returns a login that nothing checks: a directory replaces the repository.
    async fn git(&self, _: &EntraIdentity, now: Duration) -> PortResult<Token> {
        Ok(token(now))
    }
}

#[async_trait]
impl Google for DescribedClusters {
    async fn describe(
        &self,
        cluster: &GkeCluster,
        _: &GoogleIdentity,
        _: Duration,
    ) -> PortResult<ClusterEndpoint> {
        self.place(&gke(cluster))
    }

    async fn token(&self, _: &GoogleIdentity, now: Duration) -> PortResult<Token> {
        Ok(token(now))
    }
}

impl World {
    /// Starts a cluster at the address that a ConfigMap refers to. Errors in the ConfigMap are
    /// reported by the step.
    pub(super) async fn config_map_cluster(
        &self,
        hub: &Hub,
        id: &ObjectRef,
        one: &impl TargetsCluster,
        name: &str,
    ) -> Result<Option<StandIn>, Error> {
        let map = match credentials::read(hub, "ConfigMap", &id.namespace, name).await? {
            Some(map) => map,
            None => made_up(hub, &id.namespace, name).await?,
        };
        let text = |key: &str| {
            let entry = map.pointer("/data").and_then(|data| data.get(key));
            entry.and_then(Value::as_str).unwrap_or_default()
        };
        let provider = text("provider");
        if !["generic", "aws", "azure", "gcp"].contains(&provider) {
            return Ok(None);
        }
        let managed = managed(provider, text("cluster"));
        let address = match (text("address"), &managed) {
            ("", Some(cluster)) => format!("https://{cluster}.internal"),
            (address, _) => address.to_owned(),
        };
        let Ok(server) = target::canonical(&address) else {
            return Ok(None);
        };
        if let Some(cluster) = managed {
            let place = ClusterEndpoint {
                address: address.clone(),
                certificate_authority: text("ca.crt").as_bytes().to_vec(),
            };
            self.clouds.add(cluster, place);
        }
        if provider == "aws" && text("serviceAccountName").is_empty() {
            self.allow(hub, &format!("{}/{}", id.namespace, text("cluster")))
                .await?;
        }
        let missing = format!("ConfigMap/{}/{name}", id.namespace);
        let place = (hub.settings.name.clone(), missing.clone());
        let known = self.lock().places.get(&place).cloned();
        if let Some(cluster) = known {
            self.admit(hub, one, &cluster).await?;
            return Ok(None);
        }
        let known = self.lock().addresses.get(&server).cloned();
        let cluster = self
            .remote(&known.unwrap_or_else(|| self.named(hub, name)))
            .await?;
        self.clusters
            .add_trusting(&server, &cluster.server, User::admin(MANAGER));
        self.lock().addresses.insert(server, cluster.name.clone());
        self.lock().places.insert(place, cluster.name.clone());
        self.admit(hub, one, &cluster.name).await?;
        let made = StandInKind::Cluster(cluster.name);
        Ok(Some(stand_in(&hub.settings.name, id, missing, made)))
    }

    /// Allows the installation to use its own role for a cluster: real settings are not in a
    /// repository.
    async fn allow(&self, hub: &Hub, cluster: &str) -> Result<(), Error> {
        let mut settings = hub.settings.clone();
        let is_open = settings.default_kubeconfig_service_account.is_some();
        if is_open || settings.role_clusters.iter().any(|known| known == cluster) {
            return Ok(());
        }
        settings.role_clusters.push(cluster.to_owned());
        hub::register(&self.ports, &settings).await?;
        Ok(())
    }
}

/// Creates a ConfigMap that does not exist, and the service account that it names.
async fn made_up(hub: &Hub, namespace: &str, name: &str) -> Result<Object, Error> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": MANAGER, "namespace": namespace}});
    let account = Object::new(account).map_err(Error::new)?;
    apply(hub.cluster.as_ref(), &account).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {
        "provider": "generic", "address": format!("{name}.{namespace}.internal"), "serviceAccountName": MANAGER}});
    let map = Object::new(map).map_err(Error::new)?;
    apply(hub.cluster.as_ref(), &map).await?;
    Ok(map)
}
