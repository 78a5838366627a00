//! Capsule on an embedded hub: the kubeconfig of an annotated account points to the hub, with
//! exactly the rights that Capsule gives the owner of a Tenant. Its definitions are optional.

use super::{Finding, MANAGED_BY, MANAGER, Row, World};
use crate::error::Error;
use driftless_core::capsule::{self, AccountFailure};
use driftless_kernel::hub::{CapsuleProxy, Hub};
use driftless_kernel::ports::{Cluster as _, ListRequest};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

/// The API of Capsule's objects.
const CAPSULE: &str = "capsule.clastix.io/v1beta2";
const GROUP: &str = "capsule.clastix.io";
const DEFINITIONS: &str = "apiextensions.k8s.io/v1";
/// The label of the namespaces of a Tenant.
const TENANT: &str = "capsule.clastix.io/tenant";
const RBAC: &str = "rbac.authorization.k8s.io";
/// The roles of an owner in each namespace of a Tenant without roles (Capsule's webhook for
/// Tenants).
const ROLES: [&str; 2] = ["admin", "capsule-namespace-deleter"];
/// The roles by which every owner creates namespaces and deletes its own.
const PROVISIONER: &str = "capsule-namespace-provisioner";
const DELETER: &str = "capsule-namespace-deleter";

/// Returns the URL of the Capsule proxy of a hub.
fn address(hub: &str) -> String {
    format!(
        "https://capsule-proxy.{}.internal",
        hub.replace(['_', '.'], "-")
    )
}

/// Returns the Capsule proxy that a hub is registered with.
pub(super) fn proxy(hub: &str) -> CapsuleProxy {
    CapsuleProxy {
        url: address(hub),
        certificate_authority: None,
    }
}

/// A failure of Capsule's addon, which no Flux object reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerFinding {
    /// The name of the hub.
    pub hub: String,
    /// The account whose kubeconfig or rights are missing; `None` if all accounts are concerned.
    pub account: Option<String>,
    /// The error with its place.
    pub finding: Finding,
}

impl OwnerFinding {
    /// Returns the account, or the name of the addon.
    pub fn about(&self) -> &str {
        self.account.as_deref().unwrap_or("capsule-addon-fluxcd")
    }
}

impl fmt::Display for OwnerFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { place, message } = &self.finding;
        if let Some(place) = place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}: {}: {message}", self.hub, self.about())
    }
}

impl World {
    /// Does the work of Capsule and its addon on every hub with Tenants: the owners' kubeconfigs,
    /// their rights in the Tenants' namespaces, and the Secrets that are replicated into these.
    /// Returns whether anything changed.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn capsule(&self, rows: &[Row]) -> Result<bool, Error> {
        let mut any = false;
        for cluster in &self.hubs {
            let hub = self.hub(&cluster.name).await?;
            let tenants = list(&hub, CAPSULE, "Tenant").await?;
            self.failures().remove(&cluster.name);
            if tenants.is_empty() {
                continue;
            }
            self.clusters.add(&address(&cluster.name), &cluster.server);
            any |= self.define_distribution(&hub).await?;
            any |= self.provision(&cluster.name, &tenants).await?;
            let report = capsule::reconcile(&self.ports, &hub).await;
            any |= !report.applied.is_empty();
            for secret in report
                .applied
                .iter()
                .filter(|one| one.starts_with("Secret/"))
            {
                let place = (cluster.name.clone(), secret.clone());
                self.lock().places.insert(place, cluster.name.clone());
            }
            self.failures().insert(report.hub, report.failures);
            any |= self.adopt(&hub, &tenants, rows).await?;
            for tenant in &tenants {
                any |= self.serve(&hub, tenant).await?;
            }
        }
        Ok(any)
    }

    /// Returns the failures of the newest work of Capsule's addon.
    pub fn capsule_findings(&self) -> Vec<OwnerFinding> {
        let failures = self.failures().clone();
        let of_hub = |(hub, failures): (String, Vec<AccountFailure>)| {
            failures.into_iter().map(move |failure| OwnerFinding {
                hub: hub.clone(),
                account: failure.account.as_ref().map(ToString::to_string),
                finding: self.finding_of(failure.account.as_ref(), &failure.failure.message),
            })
        };
        failures.into_iter().flat_map(of_hub).collect()
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<String, Vec<AccountFailure>>> {
        let failures = self.capsule_failures.lock();
        failures.unwrap_or_else(PoisonError::into_inner)
    }

    /// Defines GlobalTenantResources if no object of the fleet defines Capsule's kinds and the
    /// definition of Tenants is a stand-in.
    async fn define_distribution(&self, hub: &Hub) -> Result<bool, Error> {
        let kind = "GlobalTenantResource";
        let served = hub.cluster.resource(&Gvk::new(CAPSULE, kind)).await?;
        let of_tenants = format!("tenants.{GROUP}");
        let is_made_up = list(hub, DEFINITIONS, "CustomResourceDefinition")
            .await?
            .iter()
            .any(|one| one.name() == of_tenants && one.label(MANAGED_BY) == Some(MANAGER));
        if served.is_some() || !is_made_up {
            return Ok(false);
        }
        let plural = kind.to_lowercase() + "s";
        let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": DEFINITIONS, "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {MANAGED_BY: MANAGER}},
            "spec": {
                "group": GROUP, "scope": "Cluster", "names": names,
                "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        self.ensure(&hub.settings.name, definition).await
    }

    /// Creates the roles by which owners create and delete namespaces.
    async fn provision(&self, hub: &str, tenants: &[Object]) -> Result<bool, Error> {
        let mut any = false;
        for (name, verbs) in [
            (PROVISIONER, ["create", "patch"]),
            (DELETER, ["delete", "patch"]),
        ] {
            any |= self
                .ensure(hub, json!({
                    "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
                    "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": verbs}],
                }))
                .await?;
        }
        let subjects: BTreeMap<String, Value> = tenants
            .iter()
            .flat_map(owners)
            .map(|owner| (owner.to_string(), subject(&owner)))
            .collect();
        let subjects: Vec<Value> = subjects.into_values().collect();
        any |= self
            .ensure(hub, json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": PROVISIONER},
                "roleRef": role(PROVISIONER), "subjects": subjects,
            }))
            .await?;
        Ok(any)
    }

    /// Adds the label of the owner's Tenant to the namespaces that an owner's objects created, as
    /// Capsule's webhook does.
    async fn adopt(&self, hub: &Hub, tenants: &[Object], rows: &[Row]) -> Result<bool, Error> {
        let name = hub.settings.name.as_str();
        let labelled: BTreeSet<String> = list(hub, "v1", "Namespace")
            .await?
            .iter()
            .filter(|namespace| namespace.label(TENANT).is_some())
            .map(|namespace| namespace.name().to_owned())
            .collect();
        let mut any = false;
        for row in rows.iter().filter(|row| row.hub == name) {
            let Some(owner) = self.acts_as(hub, row).await? else {
                continue;
            };
            let own = |tenant: &&Object| {
                let mut owners = owners(tenant).into_iter();
                owners.any(|one| one["name"] == owner)
            };
            let Some(tenant) = tenants.iter().find(own) else {
                continue;
            };
            for (id, _) in &row.inventory {
                let is_new = id.kind == "Namespace" && !labelled.contains(&id.name);
                if is_new {
                    any |= self
                        .ensure(name, labelled_namespace(&id.name, tenant))
                        .await?;
                }
            }
        }
        Ok(any)
    }

    /// Returns the account whose kubeconfig an object uses.
    async fn acts_as(&self, hub: &Hub, row: &Row) -> Result<Option<String>, Error> {
        let Some(object) = hub.get(&row.id).await? else {
            return Ok(None);
        };
        let secret = object.pointer("/spec/kubeConfig/secretRef/name");
        let Some(secret) = secret.and_then(Value::as_str) else {
            return Ok(None);
        };
        let Some(account) = secret.strip_suffix("-kubeconfig") else {
            return Ok(None);
        };
        Ok(Some(format!(
            "system:serviceaccount:{}:{account}",
            row.id.namespace
        )))
    }

    /// Creates the role bindings and replicated objects in the namespaces of a Tenant.
    async fn serve(&self, hub: &Hub, tenant: &Object) -> Result<bool, Error> {
        let name = hub.settings.name.as_str();
        let mut any = false;
        let spread = list(hub, CAPSULE, "GlobalTenantResource").await?;
        for namespace in list(hub, "v1", "Namespace").await? {
            if namespace.label(TENANT) != Some(tenant.name()) {
                if !is_owned(&namespace, tenant) {
                    continue;
                }
                let labelled = labelled_namespace(namespace.name(), tenant);
                any |= self.ensure(name, labelled).await?;
            }
            for (role_name, subjects) in bindings(tenant) {
                any |= self
                    .ensure(name, json!({
                        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
                        "metadata": {"name": format!("capsule-{}-{role_name}", tenant.name()), "namespace": namespace.name()},
                        "roleRef": role(&role_name), "subjects": subjects,
                    }))
                    .await?;
            }
            for one in &spread {
                for mut item in raw_items(one, tenant) {
                    item["metadata"]["namespace"] = namespace.name().into();
                    any |= self.ensure(name, item).await?;
                }
            }
        }
        Ok(any)
    }

    /// Applies an object as an administrator. Returns whether that changed it.
    async fn ensure(&self, cluster: &str, object: Value) -> Result<bool, Error> {
        let object = Object::new(object).map_err(Error::new)?;
        let admin = self.admin(cluster)?;
        let version = async || -> Result<Option<Value>, Error> {
            let Some(resource) = admin.resource(&object.gvk()).await? else {
                return Ok(None);
            };
            let (namespace, name) = (object.namespace(), object.name());
            let there = admin.get(&resource, namespace, name).await?;
            Ok(there.and_then(|there| there.pointer("/metadata/resourceVersion").cloned()))
        };
        let before = version().await?;
        self.give(cluster, &object).await?;
        Ok(version().await? != before)
    }
}

async fn list(hub: &Hub, api_version: &str, kind: &str) -> Result<Vec<Object>, Error> {
    let gvk = Gvk::new(api_version, kind);
    match hub.cluster.resource(&gvk).await? {
        Some(resource) => Ok(hub.cluster.list(&ListRequest::all(&resource)).await?),
        None => Ok(Vec::new()),
    }
}

fn entries<'o>(object: &'o Object, pointer: &str) -> impl Iterator<Item = &'o Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// Returns a Namespace of a Tenant, with Capsule's label.
fn labelled_namespace(name: &str, tenant: &Object) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {TENANT: tenant.name()}}})
}

/// Checks whether a Tenant is an owner of a namespace, which makes it one of the Tenant's.
fn is_owned(namespace: &Object, tenant: &Object) -> bool {
    entries(namespace, "/metadata/ownerReferences")
        .any(|owner| owner["kind"] == "Tenant" && owner["name"] == tenant.name())
}

fn owners(tenant: &Object) -> Vec<Value> {
    entries(tenant, "/spec/owners").cloned().collect()
}

/// Returns the roles in a Tenant's namespaces, each with its subjects.
fn bindings(tenant: &Object) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for owner in entries(tenant, "/spec/owners") {
        let named = owner["clusterRoles"].as_array();
        let roles: Vec<&str> = match named {
            Some(named) => named.iter().filter_map(Value::as_str).collect(),
            None => ROLES.to_vec(),
        };
        for role in roles {
            all.entry(role.to_owned()).or_default().push(subject(owner));
        }
    }
    for more in entries(tenant, "/spec/additionalRoleBindings") {
        if let (Some(role), Some(subjects)) = (
            more["clusterRoleName"].as_str(),
            more["subjects"].as_array(),
        ) {
            all.entry(role.to_owned())
                .or_default()
                .extend(subjects.clone());
        }
    }
    all
}

fn role(name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name})
}

/// Renders an owner of a Tenant as the subject of a binding. A service account is the user of its
/// name.
fn subject(owner: &Value) -> Value {
    let name = owner["name"].as_str().unwrap_or_default();
    match owner["kind"].as_str() {
        Some("Group") => json!({"apiGroup": RBAC, "kind": "Group", "name": name}),
        _ => json!({"apiGroup": RBAC, "kind": "User", "name": name}),
    }
}

/// Returns the objects that a GlobalTenantResource replicates into the namespaces of a Tenant.
fn raw_items(resource: &Object, tenant: &Object) -> Vec<Value> {
    let labels = resource.pointer("/spec/tenantSelector/matchLabels");
    let labels = labels.and_then(Value::as_object);
    let is_selected = labels.is_none_or(|labels| {
        labels.iter().all(|(key, value)| {
            let own = match key.as_str() {
                // Kubernetes sets this label on namespaces only, Capsule also on its Tenants.
                "kubernetes.io/metadata.name" => Some(tenant.name()),
                key => tenant.label(key),
            };
            own == value.as_str()
        })
    });
    let items = entries(resource, "/spec/resources")
        .flat_map(|one| one["rawItems"].as_array().into_iter().flatten())
        .cloned();
    match is_selected {
        true => items.collect(),
        false => Vec::new(),
    }
}
