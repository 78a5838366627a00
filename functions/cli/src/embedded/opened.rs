//! Clusters that tokens open: what a ConfigMap of `spec.kubeConfig.configMapRef` leads to. None of them is reached from here, so one
//! in this process stands at the address, and takes every token.

use super::World;
use super::stand_in::{MANAGER, Made, StandIn, admit, apply, stand_in};
use crate::error::Error;
use async_trait::async_trait;
use driftless_adapters::offline::Offline;
use driftless_apiserver::User;
use driftless_core::flux::ObjectRef;
use driftless_core::hub::{self, Hub};
use driftless_core::ports::{
    Aws, AwsIdentity, ClusterPlace, EcrRegistry, EksCluster, ErrorKind, PortError, RegistryLogin,
    Result as PortResult, Secret, Token,
};
use driftless_core::source::credentials;
use driftless_core::target::{self, Acts};
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a token lives.
const LIFE: Duration = Duration::from_secs(15 * 60);

/// EKS, as far as ConfigMaps tell of its clusters.
#[derive(Default)]
pub(super) struct Described(Mutex<BTreeMap<String, ClusterPlace>>);

fn key(cluster: &EksCluster) -> String {
    format!("{}/{}", cluster.region, cluster.name)
}

#[async_trait]
impl Aws for Described {
    async fn describe(
        &self,
        cluster: &EksCluster,
        _: &AwsIdentity,
        _: Duration,
    ) -> PortResult<ClusterPlace> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(&key(cluster)).cloned().ok_or_else(|| {
            let what = format!("no ConfigMap tells of the cluster {}", key(cluster));
            PortError::new(ErrorKind::NotFound, what)
        })
    }

    async fn token(&self, _: &EksCluster, _: &AwsIdentity, now: Duration) -> PortResult<Token> {
        Ok(Token {
            secret: Secret::new("stand-in"),
            expires: now + LIFE,
        })
    }

    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> PortResult<RegistryLogin> {
        Aws::registry(&Offline, registry, identity, now).await
    }
}

impl World {
    /// Sees to it that a server stands where a ConfigMap leads to. What is wrong with the ConfigMap is told by the step.
    pub(super) async fn opened(
        &self,
        hub: &Hub,
        id: &ObjectRef,
        one: &impl Acts,
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
        let eks = EksCluster::parse(text("cluster")).filter(|_| text("provider") == "aws");
        if eks.is_none() && text("provider") != "generic" {
            return Ok(None);
        }
        let address = match (text("address"), &eks) {
            ("", Some(cluster)) => {
                format!("https://{}.{}.eks.internal", cluster.name, cluster.region)
            }
            (address, _) => address.to_owned(),
        };
        let Ok(server) = target::canonical(&address) else {
            return Ok(None);
        };
        if let Some(cluster) = &eks {
            let place = ClusterPlace {
                address: address.clone(),
                certificate_authority: text("ca.crt").as_bytes().to_vec(),
            };
            let mut places = self.eks.0.lock().unwrap_or_else(PoisonError::into_inner);
            places.insert(key(cluster), place);
        }
        if eks.is_some() && text("serviceAccountName").is_empty() {
            self.allow(hub, &format!("{}/{}", id.namespace, text("cluster")))
                .await?;
        }
        let told = format!("ConfigMap/{}/{name}", id.namespace);
        let place = (hub.settings.name.clone(), told.clone());
        if self.lock().places.contains_key(&place) {
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
        admit(hub, one, &cluster).await?;
        let made = Made::Cluster(cluster.name);
        Ok(Some(stand_in(&hub.settings.name, id, told, made)))
    }

    /// The rules of an installation stand in no repository: it may work on this cluster with its own role.
    async fn allow(&self, hub: &Hub, cluster: &str) -> Result<(), Error> {
        let mut settings = hub.settings.clone();
        let is_open = settings.default_kubeconfig_service_account.is_some();
        if is_open || settings.role_clusters.iter().any(|known| known == cluster) {
            return Ok(());
        }
        settings.role_clusters.push(cluster.to_owned());
        Ok(hub::register(&self.ports, &settings).await?)
    }
}

/// A ConfigMap that is not there, and the service account that it names.
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
