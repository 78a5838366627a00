//! `driftless create tenant`: namespaces, service accounts and role bindings.

use super::apply::Hub;
use super::flags::{self, List, NonEmpty as _, items};
use super::object;
use super::{Common, names};
use crate::error::{EXIT_CODES, Error};
use crate::{output, term};
use clap::ArgAction;
use serde_json::{Map, Value, json};

const EXAMPLES: &str = "Examples:
  driftless create tenant dev-team --with-namespace frontend --label environment=dev
  driftless create tenant dev-team --with-namespace frontend,backend --cluster-role edit \\
    --export > dev-team.yaml";

/// The label of all objects of a tenant.
const TENANT: &str = "toolkit.fluxcd.io/tenant";
const CLUSTER_ADMIN: &str = "cluster-admin";

/// Create or update a tenant
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: super::Named,
    /// The tenant's namespaces
    #[arg(long, value_name = "NAMES")]
    with_namespace: Vec<List>,
    /// The ClusterRole that the tenant has in its namespaces
    #[arg(long, value_name = "NAME", default_value = CLUSTER_ADMIN)]
    cluster_role: String,
    /// The tenant's service account [default: the tenant's name]
    #[arg(long, value_name = "NAME")]
    with_service_account: Option<String>,
    /// Do not create the namespaces, because they exist
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    skip_namespace: bool,
}

impl Args {
    /// Writes the objects, or applies them.
    pub async fn run(&self, common: &Common) -> Result<(), Error> {
        let objects = self.objects()?;
        if common.export {
            return objects
                .iter()
                .try_for_each(|(_, object)| output::manifest(object));
        }
        let hub = Hub::connect(common).await?;
        for (noun, object) in objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            term::action(&format!("applying {noun} {name}"));
            hub.apply(object).await?;
        }
        term::success("tenant setup completed");
        Ok(())
    }

    /// Returns the objects, with the names of their kinds in messages.
    ///
    /// # Errors
    /// Fails for flags that are not valid.
    fn objects(&self) -> Result<Vec<(&'static str, Value)>, Error> {
        let tenant = self.named.name.as_str();
        if self.cluster_role.is_empty() {
            return Err(Error::usage("cluster-role is required").next("add --cluster-role NAME"));
        }
        let namespaces = items(&self.with_namespace);
        if namespaces.is_empty() {
            return Err(
                Error::usage("with-namespace is required").next("add --with-namespace NAME")
            );
        }
        let account = self.with_service_account.non_empty().unwrap_or(tenant);
        let labels = names::labels(&self.named.labels)?;
        let check = |kind: &str, name: &str| {
            let invalid = |reason| Error::usage(format!("invalid {kind} '{name}': {reason}"));
            names::qualified(name).map_err(invalid)
        };
        for namespace in &namespaces {
            check("namespace", namespace)?;
            check("service-account name", account)?;
        }
        let tenant = Tenant {
            account,
            role: &self.cluster_role,
            labels,
            skip_namespace: self.skip_namespace,
            ..Tenant::administrator(tenant, &namespaces)
        };
        Ok(tenant.objects())
    }
}

/// A tenant, with the objects of each of its namespaces.
pub struct Tenant<'a> {
    name: &'a str,
    namespaces: &'a [&'a str],
    account: &'a str,
    role: &'a str,
    labels: Map<String, Value>,
    skip_namespace: bool,
}

impl<'a> Tenant<'a> {
    /// Returns a tenant whose service account, of the same name, is an administrator of its
    /// namespaces.
    pub fn administrator(name: &'a str, namespaces: &'a [&'a str]) -> Self {
        Self {
            name,
            namespaces,
            account: name,
            role: CLUSTER_ADMIN,
            labels: Map::new(),
            skip_namespace: false,
        }
    }

    /// Returns the objects, with the names of their kinds in messages.
    pub fn objects(&self) -> Vec<(&'static str, Value)> {
        let mut labels = self.labels.clone();
        labels.insert(TENANT.to_owned(), self.name.into());
        let metadata =
            |name: &str, namespace: &str| object::metadata(name, namespace, labels.clone());
        let group = "rbac.authorization.k8s.io";
        let mut objects = Vec::new();
        for namespace in self.namespaces {
            if !self.skip_namespace {
                let metadata = metadata(namespace, "");
                objects.push((
                    "namespace",
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
                ));
            }
            let of_account = metadata(self.account, namespace);
            objects.push((
                "service account",
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": of_account}),
            ));
            let of_binding = metadata(&format!("{}-reconciler", self.name), namespace);
            objects.push((
                "role binding",
                json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": of_binding,
                    "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": self.role},
                    "subjects": [
                        {"apiGroup": group, "kind": "User", "name": format!("gotk:{namespace}:reconciler")},
                        {"kind": "ServiceAccount", "name": self.account, "namespace": namespace},
                    ]}),
            ));
        }
        objects
    }
}
