//! Secrets that a fleet expects on its hub and that are not in Git: kubeconfigs, keys and
//! credentials, which a platform team creates by hand. Each missing one gets a stand-in, and each
//! kubeconfig an embedded remote cluster.

use super::World;
use super::needs::{self, NeededObject, Purpose};
use crate::error::Error;
use driftless_adapters::cluster::KubeCluster;
use driftless_apiserver::User;
use driftless_core::capsule;
use driftless_flux::FLUX_SYSTEM;
use driftless_flux::{FluxKind, HelmRelease, Kustomization, ObjectRef};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::credentials;
use driftless_kernel::hub::Hub;
use driftless_kernel::kubeconfig;
use driftless_kernel::ports::{self, Cluster as _, Delete, Resource};
use driftless_kernel::target::TargetsCluster;
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// The field manager of stand-ins.
pub const MANAGER: &str = "driftless-stand-in";
/// The label that made-up definitions have, with the value [`MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// A stand-in for a missing object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// The name of the hub.
    pub hub: String,
    /// The object that needs it.
    pub object: ObjectRef,
    /// The missing object: `Secret/NAMESPACE/NAME` or `ConfigMap/NAMESPACE/NAME`.
    pub reference: String,
    /// The kind of stand-in.
    pub kind: StandInKind,
}

/// The kind of a stand-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandInKind {
    /// An embedded API server of this name, and a kubeconfig for it.
    Cluster(String),
    /// The keys of `--sops-key`, or none.
    Keys,
    /// A login that no host verifies.
    Login,
}

impl World {
    /// Creates every missing Secret that objects of the hub reference.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn stand_in(&self, hub: &str) -> Result<Vec<StandIn>, Error> {
        let handle = self.hub(hub).await?;
        let mut made = Vec::new();
        for kind in FluxKind::ALL {
            for object in handle.list(kind).await? {
                made.extend(self.stand_in_for(&handle, &object).await?);
            }
        }
        Ok(made)
    }

    /// Creates the missing logins, keys and clusters of one object. Values and variables are not
    /// created here.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn stand_in_for(&self, hub: &Hub, object: &Object) -> Result<Vec<StandIn>, Error> {
        let Some(id) = ObjectRef::of(object) else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for need in needs::of(object) {
            let made = match need.purpose {
                Purpose::Login => login(hub, &need.object, id.kind).await?,
                Purpose::Certificates => {
                    create(hub, &need.object, json!({"ca.crt": "stand-in"})).await?
                }
                Purpose::Keys => create(hub, &need.object, self.keys()).await?,
                Purpose::Cluster => {
                    all.extend(self.cluster_for(hub, &id, object).await?);
                    false
                }
                Purpose::Variables | Purpose::Values { .. } => false,
            };
            if made {
                let kind = match need.purpose {
                    Purpose::Keys => StandInKind::Keys,
                    _ => StandInKind::Login,
                };
                all.push(stand_in(
                    &hub.settings.name,
                    &id,
                    need.object.to_string(),
                    kind,
                ));
            }
        }
        Ok(all)
    }

    fn keys(&self) -> Value {
        match self.sops_keys.as_ref().and_then(|keys| keys.expose_str()) {
            Some(keys) if keys.contains("-----BEGIN PGP") => json!({"sops.asc": keys}),
            Some(keys) => json!({"age.agekey": keys}),
            None => json!({}),
        }
    }

    async fn cluster_for(
        &self,
        hub: &Hub,
        id: &ObjectRef,
        object: &Object,
    ) -> Result<Option<StandIn>, Error> {
        let object = object.clone();
        match id.kind {
            FluxKind::HelmRelease => match HelmRelease::from_object(object) {
                Ok(one) => self.cluster_of(hub, id, &one).await,
                Err(_) => Ok(None),
            },
            _ => match Kustomization::from_object(object) {
                Ok(one) => self.cluster_of(hub, id, &one).await,
                Err(_) => Ok(None),
            },
        }
    }

    async fn cluster_of(
        &self,
        hub: &Hub,
        id: &ObjectRef,
        one: &impl TargetsCluster,
    ) -> Result<Option<StandIn>, Error> {
        let Some(config) = one.kube_config() else {
            return Ok(None);
        };
        let reference = match (&config.secret_ref, &config.config_map_ref) {
            (Some(reference), None) => reference,
            (None, Some(map)) => return self.config_map_cluster(hub, id, one, &map.name).await,
            _ => return Ok(None),
        };
        let secret = NeededObject {
            kind: "Secret",
            namespace: id.namespace.clone(),
            name: reference.name.clone(),
        };
        let (missing, name) = (secret.to_string(), self.named(hub, &reference.name));
        let place = (hub.settings.name.clone(), missing.clone());
        let is_known = self.place(&hub.settings.name, &missing).is_some();
        if is_of_capsule(hub, &secret).await? {
            // Capsule's addon creates it for the owner of a Tenant, and nothing else does.
            return Ok(None);
        }
        let there = find(hub, &secret).await?;
        if is_known && there.is_some() {
            self.admit(hub, one, &name).await?;
            return Ok(None);
        }
        let key = reference
            .key
            .as_deref()
            .filter(|key| !key.is_empty())
            .unwrap_or("value");
        if let Some(there) = there {
            // The server of a kubeconfig in Git is not reachable offline.
            let text = credentials::entry(&there, key);
            let Some(Ok((server, _))) = text.map(|text| kubeconfig::place(text.expose())) else {
                return Ok(None);
            };
            if self.clusters.get(&server).is_some() {
                return Ok(None);
            }
            let cluster = self.remote(&name).await?;
            self.clusters
                .add_open(&server, &cluster.server, User::admin(MANAGER));
            self.lock().places.insert(place, name.clone());
            self.admit(hub, one, &name).await?;
            let made = StandInKind::Cluster(name);
            return Ok(Some(stand_in(&hub.settings.name, id, missing, made)));
        }
        let cluster = self.remote(&name).await?;
        let data = BTreeMap::from([(key, cluster.kubeconfig.expose_str().unwrap_or_default())]);
        create(hub, &secret, json!(data)).await?;
        self.lock().places.insert(place, name.clone());
        self.admit(hub, one, &name).await?;
        let made = StandInKind::Cluster(name);
        Ok(Some(stand_in(&hub.settings.name, id, missing, made)))
    }

    /// Gives the account that an object acts as all rights on a remote cluster: the rights of a
    /// tenant are configured on that cluster, not in the fleet repository.
    pub(super) async fn admit(
        &self,
        hub: &Hub,
        one: &impl TargetsCluster,
        cluster: &str,
    ) -> Result<(), Error> {
        let own = one.service_account().filter(|name| !name.is_empty());
        let Some(account) = own.or(hub.settings.default_service_account.as_deref()) else {
            return Ok(());
        };
        let who = (cluster.to_owned(), format!("{}:{account}", one.namespace()));
        if !self.lock().admitted.insert(who) {
            return Ok(());
        }
        self.remote(cluster).await?;
        self.give(cluster, &binding(one.namespace(), account)?)
            .await
    }

    /// Checks whether an object exists on a hub.
    ///
    /// # Errors
    /// The server refuses the request.
    pub async fn has(&self, hub: &str, place: &NeededObject) -> Result<bool, Error> {
        Ok(find(&self.hub(hub).await?, place).await?.is_some())
    }

    /// Creates or changes the stand-in for a Secret or ConfigMap of a hub.
    ///
    /// # Errors
    /// The server refuses the request.
    pub async fn put(&self, hub: &str, place: &NeededObject, data: Value) -> Result<(), Error> {
        self.give(hub, &made_up(place, data)?).await
    }

    /// Applies an object to a cluster, as an administrator.
    ///
    /// # Errors
    /// The server refuses the request, or the cluster does not exist.
    pub async fn give(&self, cluster: &str, object: &Object) -> Result<(), Error> {
        apply(&self.admin(cluster)?, object).await
    }

    /// Deletes an object and creates another one in its place.
    ///
    /// # Errors
    /// The server refuses the request, or the cluster does not exist.
    pub async fn replace(&self, cluster: &str, object: &Object) -> Result<(), Error> {
        let admin = self.admin(cluster)?;
        if let Some(resource) = admin.resource(&object.gvk()).await? {
            let (namespace, name) = (object.namespace(), object.name());
            let options = Delete::default();
            ports::Cluster::delete(&admin, &resource, namespace, name, &options).await?;
        }
        self.give(cluster, object).await?;
        self.clusters.forget();
        self.admins
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        Ok(())
    }

    /// Creates a namespace that does not exist. Returns whether it did.
    ///
    /// # Errors
    /// The server refuses the request, or the cluster does not exist.
    pub async fn ensure_namespace(&self, cluster: &str, name: &str) -> Result<bool, Error> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let namespace = Object::new(namespace).map_err(Error::new)?;
        let admin = self.admin(cluster)?;
        let resource = admin.resource(&namespace.gvk()).await?;
        if let Some(resource) = resource
            && ports::Cluster::get(&admin, &resource, "", name)
                .await?
                .is_some()
        {
            return Ok(false);
        }
        apply(&admin, &namespace).await?;
        Ok(true)
    }

    /// Returns a client for a cluster with the rights of an administrator, who is not a user of the
    /// fleet.
    ///
    /// # Errors
    /// The cluster does not exist.
    pub fn admin(&self, cluster: &str) -> Result<KubeCluster, Error> {
        let mut known = self.admins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(admin) = known.get(cluster) {
            return Ok(admin.clone());
        }
        let hubs = self.hubs.iter().cloned();
        let found = hubs.chain(self.remotes()).find(|one| one.name == cluster);
        let found = found.ok_or_else(|| {
            Error::new(format!(
                "cluster '{cluster}' does not exist in this process"
            ))
        })?;
        let admin = driftless_apiserver::User::admin(MANAGER);
        let admin = found.server.cluster(admin, cluster)?;
        known.insert(cluster.to_owned(), admin.clone());
        Ok(admin)
    }

    /// Returns the cluster name for a Secret or ConfigMap. The same name in two namespaces is one
    /// cluster; hubs do not share clusters.
    pub(super) fn named(&self, hub: &Hub, name: &str) -> String {
        let name = name.strip_suffix("-kubeconfig").unwrap_or(name);
        match self.hubs.len() {
            1 => name.to_owned(),
            _ => format!("{}.{name}", hub.settings.name),
        }
    }
}

/// Creates a Kustomization for a directory of the fleet repository that no other Kustomization of
/// the hub applies.
pub(super) async fn root(hub: &Hub, path: &str) -> Result<(), Error> {
    let name = path.replace(['/', '_', '.'], "-").to_lowercase();
    let kustomization = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": FLUX_SYSTEM},
        "spec": {"interval": "10m", "path": format!("./{path}"), "prune": true,
            "sourceRef": {"kind": "GitRepository", "name": FLUX_SYSTEM}},
    });
    let kustomization = Object::new(kustomization).map_err(Error::new)?;
    apply(hub.cluster.as_ref(), &kustomization).await
}

/// Creates the source of a hub that follows an OCI artifact, as the FluxInstance of Flux Operator
/// does.
pub(super) async fn artifact(hub: &Hub, url: &str) -> Result<(), Error> {
    let repository = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
        "metadata": {"name": FLUX_SYSTEM, "namespace": FLUX_SYSTEM},
        "spec": {"interval": "1m", "url": url},
    });
    let repository = Object::new(repository).map_err(Error::new)?;
    apply(hub.cluster.as_ref(), &repository).await
}

pub(super) fn stand_in(
    hub: &str,
    object: &ObjectRef,
    reference: String,
    kind: StandInKind,
) -> StandIn {
    StandIn {
        hub: hub.to_owned(),
        object: object.clone(),
        reference,
        kind,
    }
}

fn binding(namespace: &str, account: &str) -> Result<Object, Error> {
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("stand-in:{namespace}:{account}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    Object::new(binding).map_err(Error::new)
}

/// Checks whether a Secret is the kubeconfig of an account that Capsule's addon is enabled for.
async fn is_of_capsule(hub: &Hub, secret: &NeededObject) -> Result<bool, Error> {
    let Some(account) = secret.name.strip_suffix("-kubeconfig") else {
        return Ok(false);
    };
    let account = NeededObject {
        kind: "ServiceAccount",
        namespace: secret.namespace.clone(),
        name: account.to_owned(),
    };
    let account = find(hub, &account).await?;
    Ok(account.is_some_and(|account| capsule::concerns(&account)))
}

async fn login(hub: &Hub, place: &NeededObject, kind: FluxKind) -> Result<bool, Error> {
    let data = match kind {
        FluxKind::Bucket => json!({"accesskey": "stand-in", "secretkey": "stand-in"}),
        _ => json!({"username": "git", "password": "stand-in"}),
    };
    create(hub, place, data).await
}

/// Reads an object of the hub.
async fn find(hub: &Hub, place: &NeededObject) -> Result<Option<Object>, Error> {
    Ok(credentials::read(hub, place.kind, &place.namespace, &place.name).await?)
}

/// Creates a missing object, a Secret with this data. Returns whether it did.
async fn create(hub: &Hub, place: &NeededObject, data: Value) -> Result<bool, Error> {
    if find(hub, place).await?.is_some() {
        return Ok(false);
    }
    apply(hub.cluster.as_ref(), &made_up(place, data)?).await?;
    Ok(true)
}

fn made_up(place: &NeededObject, data: Value) -> Result<Object, Error> {
    let NeededObject {
        kind,
        namespace,
        name,
    } = place;
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    match *kind {
        "Secret" => object["stringData"] = data,
        "ConfigMap" => object["data"] = data,
        _ => {}
    }
    Object::new(object).map_err(Error::new)
}

pub(super) async fn apply(cluster: &dyn ports::Cluster, object: &Object) -> Result<(), Error> {
    let gvk: Gvk = object.gvk();
    let resource: Option<Resource> = cluster.resource(&gvk).await?;
    let resource =
        resource.ok_or_else(|| Error::new(format!("the cluster does not serve {}", gvk.kind)))?;
    let applier = Applier::new(cluster, Strategy::forcing(MANAGER));
    applier.apply(&resource, object).await?;
    Ok(())
}
