//! Hubs: the management clusters whose Flux objects are served, registered in the bucket.

use crate::failure::Failure;
use crate::flux::{FluxKind, ObjectRef, reason};
use crate::kubeconfig;
use crate::ports::{Cluster, ErrorKind, PortError, Ports, Precondition, Put, Resource, Result};
use crate::state;
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const PREFIX: &str = "hubs/";

/// What is registered about a hub. Its kubeconfig is in the secret manager under `hubs/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The hub's name.
    pub name: String,
    /// Refuse references to other namespaces (Flux's `--no-cross-namespace-refs`).
    pub no_cross_namespace_refs: bool,
    /// The service account of objects that name none (Flux's `--default-service-account`); none: the hub's own identity.
    pub default_service_account: Option<String>,
    /// The service account whose token opens a remote cluster where the ConfigMap of `spec.kubeConfig.configMapRef` names none
    /// (Flux's `--default-kubeconfig-service-account`).
    pub default_kubeconfig_service_account: Option<String>,
    /// The service account whose cloud login a source takes where it names none (`--default-service-account` of Flux's
    /// source-controller).
    pub default_source_service_account: Option<String>,
    /// Apply the controllers' Deployments that a `gotk-components.yaml` brings.
    pub keep_controllers: bool,
    /// Accept `insecure-skip-tls-verify` in kubeconfigs.
    pub allow_insecure_kubeconfigs: bool,
    /// Accept remote clusters at loopback and link-local addresses: for an installation on the operator's own machine.
    pub allow_local_clusters: bool,
    /// Fetch remote bases and files that a kustomization names, as the installation.
    pub allow_remote_bases: bool,
    /// Buckets that a Bucket object may read with the installation's own AWS role, as `NAMESPACE/BUCKET`; none unasked.
    pub role_buckets: Vec<String>,
    /// Clusters of EKS that objects may work on with the installation's own AWS role, as `NAMESPACE/ARN`; none unasked.
    pub role_clusters: Vec<String>,
    /// Registries of ECR that objects may read with the installation's own AWS role, as `NAMESPACE/HOST/REPOSITORY`, with all that
    /// is below; none unasked.
    pub role_registries: Vec<String>,
    /// The `trusted_root.json` by which signatures without keys are checked where an object names none; none: that of the public
    /// Sigstore, as it was when this version was built.
    pub sigstore_root: Option<String>,
}

/// A hub that can be talked to.
#[derive(Clone)]
pub struct Hub {
    /// What is registered.
    pub settings: Settings,
    /// The API server, as the hub's own identity.
    pub cluster: Arc<dyn Cluster>,
    /// Where it is: the same server is reached again as other users.
    pub access: crate::ports::Access,
}

/// Registers a hub, or changes its settings.
///
/// # Errors
/// The bucket's.
pub async fn register(ports: &Ports, settings: &Settings) -> Result<()> {
    let key = format!("{PREFIX}{}.json", state::key_part(&settings.name));
    if let Some((known, _)) = state::read::<Settings>(ports.blobs.as_ref(), &key).await?
        && known == *settings
    {
        return Ok(());
    }
    match state::write(ports.blobs.as_ref(), &key, settings, Precondition::None).await? {
        Put::Done(_) => Ok(()),
        Put::Refused => Err(PortError::new(
            ErrorKind::Conflict,
            format!("{key}: not written"),
        )),
    }
}

/// Every registered hub's name.
///
/// # Errors
/// The bucket's.
pub async fn names(ports: &Ports) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (key, _) in ports.blobs.list(PREFIX).await? {
        if let Some((settings, _)) = state::read::<Settings>(ports.blobs.as_ref(), &key).await? {
            names.push(settings.name);
        }
    }
    Ok(names)
}

/// Connects to a registered hub.
///
/// # Errors
/// Not registered, no kubeconfig, a kubeconfig that is refused, or a cluster that cannot be reached.
pub async fn connect(ports: &Ports, name: &str) -> Result<Hub, Failure> {
    let key = format!("{PREFIX}{}.json", state::key_part(name));
    let Some((settings, _)) = state::read::<Settings>(ports.blobs.as_ref(), &key).await? else {
        return Err(Failure::terminal(
            reason::FAILED,
            format!("hub '{name}' is not registered: run driftless bootstrap"),
        ));
    };
    let secret = format!("hubs/{name}");
    let Some(text) = ports.keys.secret(&secret).await? else {
        return Err(Failure::retry(
            reason::FAILED,
            format!("the secret manager has no '{secret}' with the hub's kubeconfig"),
        ));
    };
    let options = kubeconfig::Options {
        allow_insecure: settings.allow_insecure_kubeconfigs,
        // Where the hub is, is the operator's own word.
        allow_local: true,
    };
    let access = kubeconfig::parse(text.expose(), &options).map_err(|error| {
        Failure::terminal(reason::FAILED, error).context(format!("secret '{secret}'"))
    })?;
    let cluster = ports.clusters.connect(&access, None).await?;
    Ok(Hub {
        settings,
        cluster,
        access,
    })
}

impl Hub {
    /// The resource of a Flux kind in the version this hub serves first.
    ///
    /// # Errors
    /// The definitions are not installed.
    pub async fn resource(&self, kind: FluxKind) -> Result<Resource> {
        let served = self.cluster.versions(kind.group(), kind.as_str()).await?;
        // Prefer our order over the server's: newest first.
        let best = kind
            .versions()
            .iter()
            .find_map(|version| served.iter().find(|one| one.gvk.version == *version));
        best.or(served.first()).cloned().ok_or_else(|| {
            let what = format!(
                "hub '{}' does not serve {kind}: install the custom resource definitions",
                self.settings.name
            );
            PortError::new(ErrorKind::NotFound, what)
        })
    }

    /// A Flux object.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn get(&self, id: &ObjectRef) -> Result<Option<Object>> {
        let resource = self.resource(id.kind).await?;
        self.cluster.get(&resource, &id.namespace, &id.name).await
    }

    /// Every Flux object of a kind; none when the hub does not serve it.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn list(&self, kind: FluxKind) -> Result<Vec<Object>> {
        match self.resource(kind).await {
            Ok(resource) => self.cluster.list(&resource, "", "").await,
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
