//! `driftless create tenant`: namespaces, service accounts and role bindings.

use super::apply::Hub;
use super::flags::{self, Given as _, List, items};
use super::object;
use super::{Common, names};
use crate::error::{EXIT_CODES, Error};
use crate::term;
use clap::ArgAction;
use serde_json::{Value, json};

const EXAMPLES: &str = "Examples:
  driftless create tenant dev-team --with-namespace frontend --label environment=dev
  driftless create tenant dev-team --with-namespace frontend,backend --cluster-role edit --export > dev-team.yaml";

/// The label of everything that a tenant has.
const TENANT: &str = "toolkit.fluxcd.io/tenant";

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
    #[arg(long, value_name = "NAME", default_value = "cluster-admin")]
    cluster_role: String,
    /// The tenant's service account [default: the tenant's name]
    #[arg(long, value_name = "NAME")]
    with_service_account: Option<String>,
    /// Do not create the namespaces: they are there
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
                .try_for_each(|(_, object)| object::export(object));
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

    /// The objects, with what they are called.
    ///
    /// # Errors
    /// Flags that are not valid.
    fn objects(&self) -> Result<Vec<(&'static str, Value)>, Error> {
        let tenant = self.named.name.as_str();
        if self.cluster_role.is_empty() {
            return Err(Error::usage("cluster-role is required"));
        }
        let namespaces = items(&self.with_namespace);
        if namespaces.is_empty() {
            return Err(Error::usage("with-namespace is required"));
        }
        let account = self.with_service_account.given().unwrap_or(tenant);
        let mut labels = names::labels(&self.named.labels)?;
        labels.insert(TENANT.to_owned(), tenant.into());
        let valid = |what: &str, name: &str| {
            let wrong = |why| Error::usage(format!("invalid {what} '{name}': {why}"));
            names::qualified(name).map_err(wrong)
        };
        let mut objects = Vec::new();
        for namespace in namespaces {
            valid("namespace", namespace)?;
            valid("service-account name", account)?;
            let metadata =
                |name: &str, namespace: &str| object::metadata(name, namespace, labels.clone());
            if !self.skip_namespace {
                let metadata = metadata(namespace, "");
                objects.push((
                    "namespace",
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
                ));
            }
            let of_account = metadata(account, namespace);
            objects.push((
                "service account",
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": of_account}),
            ));
            let of_binding = metadata(&format!("{tenant}-reconciler"), namespace);
            let group = "rbac.authorization.k8s.io";
            objects.push((
                "role binding",
                json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": of_binding,
                    "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": self.cluster_role},
                    "subjects": [
                        {"apiGroup": group, "kind": "User", "name": format!("gotk:{namespace}:reconciler")},
                        {"kind": "ServiceAccount", "name": account, "namespace": namespace},
                    ]}),
            ));
        }
        Ok(objects)
    }
}
