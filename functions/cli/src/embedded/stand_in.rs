//! What a fleet expects on its hub and no repository has: Secrets with kubeconfigs, keys and credentials, which a platform
//! team puts there by hand. Each that is missing is made up, and so is the remote cluster behind a kubeconfig.

use super::{Cluster, World};
use crate::error::Error;
use driftless_core::bootstrap::FLUX_SYSTEM;
use driftless_core::flux::{FluxKind, HelmRelease, Kustomization, ObjectRef};
use driftless_core::hub::Hub;
use driftless_core::ports::{self, Apply, Resource};
use driftless_core::source::credentials;
use driftless_core::target::Acts;
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const MANAGER: &str = "driftless-stand-in";

/// What was missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// The hub.
    pub hub: String,
    /// The object that asks for it.
    pub object: ObjectRef,
    /// What the object names: `Secret/NAMESPACE/NAME`, or a ConfigMap.
    pub told: String,
    /// What stands in.
    pub what: Made,
}

/// What was made up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// An embedded API server, and the way to it.
    Cluster(String),
    /// The keys that were given, or none.
    Keys,
    /// A login that nobody checks.
    Login,
}

/// The Secrets that a source names: a login, certificates.
async fn logins(hub: &Hub, object: &Object) -> Result<Vec<StandIn>, Error> {
    let mut made = Vec::new();
    let Some(id) = ObjectRef::of(object) else {
        return Ok(made);
    };
    let login = match id.kind {
        FluxKind::Bucket => json!({"accesskey": "stand-in", "secretkey": "stand-in"}),
        _ => json!({"username": "git", "password": "stand-in"}),
    };
    for (field, data) in [
        ("/spec/secretRef/name", login),
        ("/spec/certSecretRef/name", json!({"ca.crt": "stand-in"})),
    ] {
        let name = object.pointer(field).and_then(Value::as_str);
        if let Some(name) = name
            && create(hub, &id.namespace, name, data).await?
        {
            let told = format!("Secret/{}/{name}", id.namespace);
            made.push(stand_in(&hub.settings.name, &id, told, Made::Login));
        }
    }
    Ok(made)
}

impl World {
    /// Makes up every Secret that objects of the hub refer to and that is not there.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn stand_in(&self, hub: &str) -> Result<Vec<StandIn>, Error> {
        let handle = self.hub(hub).await?;
        let mut made = Vec::new();
        for kind in [
            FluxKind::GitRepository,
            FluxKind::OCIRepository,
            FluxKind::Bucket,
            FluxKind::HelmRepository,
        ] {
            for object in handle.list(kind).await? {
                made.extend(logins(&handle, &object).await?);
            }
        }
        for object in handle.list(FluxKind::Kustomization).await? {
            if let Ok(one) = Kustomization::from_object(object) {
                made.extend(self.keys(&handle, &one).await?);
                made.extend(self.cluster(&handle, &one.id, &one).await?);
            }
        }
        for object in handle.list(FluxKind::HelmRelease).await? {
            if let Ok(one) = HelmRelease::from_object(object) {
                made.extend(self.cluster(&handle, &one.id, &one).await?);
            }
        }
        Ok(made)
    }

    async fn keys(&self, hub: &Hub, one: &Kustomization) -> Result<Option<StandIn>, Error> {
        let reference = one
            .spec
            .decryption
            .as_ref()
            .and_then(|decryption| decryption.secret_ref.as_ref());
        let Some(reference) = reference else {
            return Ok(None);
        };
        let data = match self.age_keys.as_ref().and_then(|keys| keys.expose_str()) {
            Some(keys) => json!({"age.agekey": keys}),
            None => json!({}),
        };
        let made = create(hub, &one.id.namespace, &reference.name, data).await?;
        let told = format!("Secret/{}/{}", one.id.namespace, reference.name);
        Ok(made.then(|| stand_in(&hub.settings.name, &one.id, told, Made::Keys)))
    }

    async fn cluster(
        &self,
        hub: &Hub,
        id: &ObjectRef,
        one: &impl Acts,
    ) -> Result<Option<StandIn>, Error> {
        let Some(config) = one.kube_config() else {
            return Ok(None);
        };
        let reference = match (&config.secret_ref, &config.config_map_ref) {
            (Some(reference), None) => reference,
            (None, Some(map)) => return self.opened(hub, id, one, &map.name).await,
            _ => return Ok(None),
        };
        let namespace = &id.namespace;
        if credentials::secret(hub, namespace, &reference.name)
            .await?
            .is_some()
        {
            return Ok(None);
        }
        let name = self.named(hub, &reference.name);
        let cluster = self.remote(&name).await?;
        let key = reference
            .key
            .as_deref()
            .filter(|key| !key.is_empty())
            .unwrap_or("value");
        let data = BTreeMap::from([(key, cluster.kubeconfig.expose_str().unwrap_or_default())]);
        create(hub, namespace, &reference.name, json!(data)).await?;
        let told = format!("Secret/{namespace}/{}", reference.name);
        let place = (hub.settings.name.clone(), told.clone());
        self.lock().places.insert(place, name.clone());
        admit(hub, one, &cluster).await?;
        let made = Made::Cluster(name);
        Ok(Some(stand_in(&hub.settings.name, id, told, made)))
    }

    /// The cluster of a Secret or ConfigMap. One name is one cluster, whichever namespace asks for it; a hub's clusters are its
    /// own.
    pub(super) fn named(&self, hub: &Hub, name: &str) -> String {
        let name = name.strip_suffix("-kubeconfig").unwrap_or(name);
        match self.hubs.len() {
            1 => name.to_owned(),
            _ => format!("{}.{name}", hub.settings.name),
        }
    }
}

/// A Kustomization of a folder of the fleet repository that its hub's own root does not lead to.
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

/// Lets whom an object acts as do everything on a cluster.
pub(super) async fn admit(hub: &Hub, one: &impl Acts, cluster: &Cluster) -> Result<(), Error> {
    let own = one.service_account().filter(|name| !name.is_empty());
    let Some(account) = own.or(hub.settings.default_service_account.as_deref()) else {
        return Ok(());
    };
    let admin = driftless_apiserver::User::admin(MANAGER);
    let admin = cluster.server.cluster(admin, &cluster.name)?;
    apply(&admin, &binding(one.namespace(), account)?).await
}

pub(super) fn stand_in(hub: &str, object: &ObjectRef, told: String, what: Made) -> StandIn {
    StandIn {
        hub: hub.to_owned(),
        object: object.clone(),
        told,
        what,
    }
}

/// What a tenant may do on a remote cluster is said there, not in the fleet's repository: everything, here.
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

/// Creates a Secret that is not there; whether it did.
async fn create(hub: &Hub, namespace: &str, name: &str, data: Value) -> Result<bool, Error> {
    if credentials::secret(hub, namespace, name).await?.is_some() {
        return Ok(false);
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "stringData": data});
    let secret = Object::new(secret).map_err(Error::new)?;
    apply(hub.cluster.as_ref(), &secret).await?;
    Ok(true)
}

pub(super) async fn apply(cluster: &dyn ports::Cluster, object: &Object) -> Result<(), Error> {
    let gvk: Gvk = object.gvk();
    let resource: Option<Resource> = cluster.resource(&gvk).await?;
    let resource =
        resource.ok_or_else(|| Error::new(format!("the cluster does not serve {}", gvk.kind)))?;
    let how = Apply {
        manager: MANAGER,
        force: true,
        dry_run: false,
    };
    cluster.apply(&resource, object, how).await?;
    Ok(())
}
