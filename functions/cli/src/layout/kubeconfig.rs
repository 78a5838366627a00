//! The kubeconfig of a remote cluster: a Secret on the hub, in the namespaces whose objects use it.

use super::checkout::Checkout;
use super::manifests;
use super::resources::{self, At};
use crate::error::Error;
use crate::hub::{Connection, access};
use crate::term;
use driftless_core::ports::{Apply, Cluster};
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The file with the Secret, where it is in Git.
const FILE: &str = "kubeconfig.yaml";
/// The field manager of what is applied.
const MANAGER: &str = "driftless";

/// The kubeconfig of a remote cluster, and where it goes.
#[derive(clap::Args)]
pub struct Kubeconfig {
    /// The kubeconfig that leads to the remote cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Apply the Secret to the hub, as the repository's scripts do: it is not in Git
    #[arg(long, conflicts_with = "plain")]
    apply: bool,
    /// The hub's context of KUBECONFIG or ~/.kube/config, for --apply
    #[arg(long, value_name = "NAME", requires = "apply")]
    context: Option<String>,
    /// Write the Secret into the checkout without encryption: whoever reads the repository administers the cluster
    #[arg(long)]
    plain: bool,
}

/// Where a Secret has to be.
#[derive(Clone, Debug)]
pub struct SecretPlace {
    /// Its namespace on the hub.
    pub namespace: String,
    /// The folder whose kustomization brings it, where it is in Git.
    pub folder: String,
}

/// What remains to be applied.
pub struct Unapplied {
    context: Option<String>,
    secrets: Vec<Value>,
}

impl Kubeconfig {
    /// Writes the Secrets into the checkout, or keeps them to be applied.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read or used by driftless; nobody said where it goes.
    pub fn write(
        &self,
        checkout: &mut Checkout,
        remote: &str,
        places: &[SecretPlace],
    ) -> Result<Unapplied, Error> {
        if !self.apply && !self.plain {
            return Err(Error::usage("where does the kubeconfig go? It is not written into Git unasked")
                .next("--apply puts the Secret on the hub; encrypt it with sops yourself, or give --plain, to keep it in Git"));
        }
        let shown = self.kubeconfig.display();
        let text = std::fs::read(&self.kubeconfig)
            .map_err(|error| Error::new(format!("{shown}: {error}")))?;
        access(&text).map_err(|error| error.at(&shown.to_string()))?;
        let text =
            String::from_utf8(text).map_err(|_| Error::new(format!("{shown} is not UTF-8")))?;
        let mut secrets = Vec::new();
        for place in places {
            let secret = secret(remote, &place.namespace, &text);
            match self.plain {
                true => put(checkout, place, &manifests::text(&secret))?,
                false => secrets.push(secret),
            }
        }
        Ok(Unapplied {
            context: self.context.clone(),
            secrets,
        })
    }
}

/// Copies the Secret of a remote cluster that is in Git to the namespace of a new tenant.
///
/// # Errors
/// Files that cannot be edited.
pub fn copy(
    checkout: &mut Checkout,
    from: &str,
    remote: &str,
    to: &SecretPlace,
) -> Result<(), Error> {
    let path = format!("{from}/{FILE}");
    let Some(text) = checkout.text(&path)? else {
        term::action(&format!(
            "{} needs the Secret {remote}-kubeconfig of {remote}: run add-remote again with --apply",
            to.namespace
        ));
        return Ok(());
    };
    let documents = driftless_manifest::yaml::documents(
        text.as_bytes(),
        &path,
        driftless_manifest::yaml::Dialect::V2,
        &driftless_manifest::yaml::Limits::default(),
    );
    let documents = documents.map_err(Error::new)?;
    let value = documents
        .first()
        .and_then(|secret| secret["stringData"]["value"].as_str());
    match value {
        Some(value) => put(
            checkout,
            to,
            &manifests::text(&secret(remote, &to.namespace, value)),
        ),
        None => {
            term::action(&format!(
                "{path} is encrypted: add it for {} yourself",
                to.namespace
            ));
            Ok(())
        }
    }
}

fn put(checkout: &mut Checkout, place: &SecretPlace, text: &str) -> Result<(), Error> {
    checkout.put(format!("{}/{FILE}", place.folder), text);
    resources::add(checkout, &place.folder, &[], FILE, At::End)
}

fn secret(remote: &str, namespace: &str, kubeconfig: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": format!("{remote}-kubeconfig"), "namespace": namespace},
        "stringData": {"value": kubeconfig}})
}

impl Unapplied {
    /// Applies the Secrets to the hub, with their namespaces where they are missing.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn apply(&self, dry_run: bool) -> Result<(), Error> {
        if self.secrets.is_empty() {
            return Ok(());
        }
        let connection = Connection {
            kubeconfig: None,
            context: self.context.clone(),
        };
        let hub = connection.connect().await?;
        for secret in &self.secrets {
            let namespace = &secret["metadata"]["namespace"];
            let space =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let name = format!(
                "Secret/{}/{}",
                text(namespace),
                text(&secret["metadata"]["name"])
            );
            if dry_run {
                term::success(&format!("{name} would be applied to {}", hub.access.server));
                continue;
            }
            apply(hub.cluster.as_ref(), space).await?;
            apply(hub.cluster.as_ref(), secret.clone()).await?;
            term::success(&format!("{name} applied to {}", hub.access.server));
        }
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn apply(cluster: &dyn Cluster, object: Value) -> Result<(), Error> {
    let object = Object::new(object).map_err(Error::new)?;
    let resource = cluster.resource(&object.gvk()).await?;
    let resource =
        resource.ok_or_else(|| Error::new(format!("the hub does not serve {}", object.kind())))?;
    let how = Apply {
        manager: MANAGER,
        force: true,
        dry_run: false,
    };
    cluster.apply(&resource, &object, how).await?;
    Ok(())
}
