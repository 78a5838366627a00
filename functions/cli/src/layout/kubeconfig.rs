//! The kubeconfig of a remote cluster, in a Secret on the hub in each namespace whose objects use
//! it.

use super::checkout::Checkout;
use super::edit::{self, Field, File, Target};
use super::encrypted::{self, Recipient, Remote};
use super::hub;
use super::manifests::{self, Api};
use super::resources::{self, EntryPosition};
use crate::bootstrap::Installation;
use crate::error::Error;
use crate::hub::{Connection, access, apply};
use crate::term;
use driftless_flux::FLUX_SYSTEM;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Secret;
use driftless_kernel::target::kubeconfig_name;
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The file with the Secret, if it is in Git.
const FILE: &str = "kubeconfig.yaml";

/// The flags for the kubeconfig of a remote cluster and its destination.
#[derive(clap::Args)]
pub struct Kubeconfig {
    /// The kubeconfig that leads to the remote cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Apply the Secret to the hub, as the repository's scripts do, and do not write it into Git
    #[arg(long, conflicts_with_all = ["plain", "sops"])]
    apply: bool,
    /// Store the kubeconfig in Secrets Manager, in place of the Secret, for the installation on AWS
    /// that DRIFTLESS_BUCKET and DRIFTLESS_QUEUE_URL name
    #[arg(long, conflicts_with_all = ["apply", "plain", "sops"])]
    secret_manager: bool,
    /// The hub's context of KUBECONFIG or ~/.kube/config, for --apply
    #[arg(long, value_name = "NAME", requires = "apply")]
    context: Option<String>,
    /// Write the Secret into the checkout without encryption: anyone who can read the repository
    /// can administer the cluster
    #[arg(long, conflicts_with = "sops")]
    plain: bool,
    /// Write the Secret into the checkout, encrypted with SOPS for this age recipient, and a
    /// Kustomization that decrypts it. Can be repeated
    #[arg(long, value_name = "RECIPIENT", value_parser = encrypted::recipient)]
    sops: Vec<Recipient>,
    /// The Secret with the age key, in the namespace of the Kustomization
    #[arg(long, value_name = "NAME", default_value = "sops-age", value_parser = manifests::secret_name, requires = "sops", conflicts_with_all = ["plain", "apply"])]
    sops_secret: String,
}

/// The place of a Secret.
#[derive(Clone, Debug)]
pub struct SecretPlace {
    /// The namespace of the Secret on the hub.
    pub namespace: String,
    /// The directory whose kustomization includes the Secret, if it is in Git.
    pub directory: String,
}

/// Secrets that must still be applied to the hub.
pub struct PendingSecrets {
    context: Option<String>,
    /// The name of the hub in the installation on AWS whose secret manager gets the kubeconfigs.
    installed_hub: Option<String>,
    secrets: Vec<Value>,
    /// The objects of the directory of the remote cluster.
    objects: Vec<Object>,
}

impl Kubeconfig {
    /// Writes the Secrets into the checkout, or returns them to be applied, with the objects of the
    /// remote cluster's directory.
    ///
    /// # Errors
    /// Fails for a kubeconfig that cannot be read or used by driftless, and without a destination.
    pub fn write(
        &self,
        checkout: &mut Checkout,
        api: Api,
        remote: Remote<'_>,
        places: &[SecretPlace],
    ) -> Result<PendingSecrets, Error> {
        if !self.apply && !self.secret_manager && !self.plain && self.sops.is_empty() {
            return Err(Error::usage("--apply, --sops, --secret-manager or --plain is required: they choose the destination of the kubeconfig")
                .next("--apply applies the Secret to the hub; --sops RECIPIENT writes it into Git, encrypted; --secret-manager stores it in AWS Secrets Manager; --plain writes it into Git without encryption"));
        }
        let shown = self.kubeconfig.display();
        let text = std::fs::read(&self.kubeconfig)
            .map_err(|error| Error::unreadable("--kubeconfig", &self.kubeconfig, error))?;
        access(&text).map_err(|error| error.at(&shown.to_string()))?;
        let text =
            String::from_utf8(text).map_err(|_| Error::new(format!("{shown} is not UTF-8")))?;
        let mut secrets = Vec::new();
        for place in places {
            let secret = secret(remote.name, &place.namespace, &text);
            match self.plain {
                true => put(checkout, place, &secret)?,
                false => secrets.push(secret),
            }
        }
        let mut objects = Vec::new();
        if !self.sops.is_empty() {
            for place in places {
                let path = format!("{}/{FILE}", place.directory);
                if checkout.remove(&path) {
                    resources::remove(checkout, &place.directory, FILE)?;
                }
            }
            let space = &places.first().map(|place| place.namespace.clone());
            let space = space.as_deref().unwrap_or(FLUX_SYSTEM);
            let keys = encrypted::Keys {
                recipients: &self.sops,
                secret: &self.sops_secret,
                namespace: space,
            };
            encrypted::write(checkout, api, remote, &keys, &secrets)?;
            secrets.clear();
        } else if self.apply {
            objects = checkout.build(remote.directory)?;
        }
        Ok(PendingSecrets {
            context: self.context.clone(),
            installed_hub: self.secret_manager.then(|| remote.hub.to_owned()),
            secrets,
            objects,
        })
    }
}

/// Copies the Secret of a remote cluster, if it is in Git, to the namespace of a new tenant.
///
/// # Errors
/// Fails for files that cannot be edited.
pub fn copy(
    checkout: &mut Checkout,
    from: &str,
    remote: &str,
    to: &SecretPlace,
) -> Result<(), Error> {
    if checkout.has(&format!("{}/{FILE}", to.directory)) {
        return Ok(());
    }
    let path = format!("{from}/{FILE}");
    if encrypted::exists(checkout, from) {
        term::action(&format!(
            "{} needs the kubeconfig of {remote}: run add-remote again with --sops",
            to.namespace
        ));
        return Ok(());
    }
    let Some(text) = checkout.text(&path)? else {
        term::action(&format!(
            "{} needs the Secret {remote}-kubeconfig of {remote}: run add-remote again with --apply",
            to.namespace
        ));
        return Ok(());
    };
    let documents = File::read(&path, &text)?.values()?;
    let document = documents.first().filter(|secret| secret["sops"].is_null());
    let value = document.and_then(|secret| secret["stringData"]["value"].as_str());
    match value {
        Some(value) => put(checkout, to, &secret(remote, &to.namespace, value)),
        None => {
            term::action(&format!(
                "{path} is encrypted: add it for {} yourself",
                to.namespace
            ));
            Ok(())
        }
    }
}

/// Writes the Secret, or replaces the kubeconfig in an existing one.
fn put(checkout: &mut Checkout, place: &SecretPlace, secret: &Value) -> Result<(), Error> {
    let path = format!("{}/{FILE}", place.directory);
    let new = match checkout.text(&path)? {
        Some(old) => with_kubeconfig(&path, &old, secret)?,
        None => manifests::text(secret),
    };
    checkout.put(path, new);
    resources::add(checkout, &place.directory, &[], FILE, EntryPosition::End)
}

/// Returns the file of a Secret with another kubeconfig.
///
/// # Errors
/// Fails if the Secret is encrypted, or is not the one of this remote cluster.
fn with_kubeconfig(path: &str, old: &str, secret: &Value) -> Result<String, Error> {
    let documents = File::read(path, old)?.values()?;
    if documents.iter().any(|document| !document["sops"].is_null()) {
        return Err(Error::new(format!(
            "{path}: the Secret is encrypted with SOPS, so its kubeconfig cannot be replaced"
        ))
        .next(format!(
            "edit it with sops {path}, or give --sops, which replaces it"
        )));
    }
    let target = Target {
        kind: "Secret",
        name: text(&secret["metadata"]["name"]),
    };
    let fields: [Field<'_>; 1] = [(
        &["stringData", "value"],
        text(&secret["stringData"]["value"]),
    )];
    edit::set(path, old, target, &fields)
}

fn secret(remote: &str, namespace: &str, kubeconfig: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": format!("{remote}-kubeconfig"), "namespace": namespace},
        "stringData": {"value": kubeconfig}})
}

impl PendingSecrets {
    /// Applies the Secrets, their namespaces and the objects of the directory to the hub. A dry run
    /// only prints their names.
    ///
    /// # Errors
    /// Fails with the errors of the cluster.
    pub async fn apply(&self, dry_run: bool) -> Result<(), Error> {
        if self.secrets.is_empty() {
            return Ok(());
        }
        if let Some(hub) = &self.installed_hub {
            return self.store(hub, dry_run).await;
        }
        if dry_run {
            for secret in &self.secrets {
                term::success(&format!("{} would be applied to the hub", name(secret)));
            }
            for object in &self.objects {
                let name = hub::name(object);
                term::success(&format!("{name} would be applied to the hub"));
            }
            return Ok(());
        }
        let hub = self.connect().await?;
        let cluster = hub.cluster.as_ref();
        for secret in &self.secrets {
            let namespace = &secret["metadata"]["namespace"];
            let space =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            apply(cluster, space, false).await?;
            apply(cluster, secret.clone(), false).await?;
            term::success(&format!(
                "{} applied to {}",
                name(secret),
                hub.access.server
            ));
        }
        hub::apply_all(cluster, &self.objects).await
    }

    /// Stores the kubeconfigs in the secret manager.
    async fn store(&self, hub: &str, dry_run: bool) -> Result<(), Error> {
        let manager = match dry_run {
            true => None,
            false => Some(Installation::from_env()?.secrets().await),
        };
        for secret in &self.secrets {
            let metadata = &secret["metadata"];
            let name = kubeconfig_name(hub, text(&metadata["namespace"]), text(&metadata["name"]));
            let kubeconfig = Secret::new(text(&secret["stringData"]["value"]).to_owned());
            match &manager {
                None => term::success(&format!("{name} would be stored in Secrets Manager")),
                Some(manager) => {
                    manager.store(&name, &kubeconfig).await?;
                    term::success(&format!("{name} stored in Secrets Manager"));
                }
            }
        }
        Ok(())
    }

    async fn connect(&self) -> Result<Hub, Error> {
        let connection = Connection {
            kubeconfig: None,
            context: self.context.clone(),
        };
        connection.connect().await.map_err(|error| {
            Error::new(format!("connect to the hub: {}", error.message)).next(
                "set KUBECONFIG to a kubeconfig of the hub, and choose its context with --context: --kubeconfig is that of the remote cluster",
            )
        })
    }
}

fn name(secret: &Value) -> String {
    let metadata = &secret["metadata"];
    format!(
        "Secret/{}/{}",
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
