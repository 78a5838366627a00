//! Hubs: the management clusters whose Flux objects are reconciled, registered in the bucket.

mod backup;

pub use backup::{RestoreResult, restore, settings_in, with_settings};

use crate::failure::Failure;
use crate::kubeconfig;
use crate::ports::{
    Blobs, Cluster, ErrorKind, GitAuth, ListRequest, PortError, Ports, Precondition, PutOutcome,
    Resource, Result, all_pages,
};
use crate::repository::{Grant, hosted};
use crate::state;
use driftless_flux::{FLUX_SYSTEM, FluxKind, ObjectRef, reason};
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The prefix of the keys of the registrations of hubs.
pub const PREFIX: &str = "hubs/";

/// The registered settings of a hub. Its kubeconfig is in the secret manager under `hubs/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The name under which the hub is registered.
    pub name: String,
    /// True if references to other namespaces are refused (Flux's `--no-cross-namespace-refs`).
    pub no_cross_namespace_refs: bool,
    /// The service account of objects that name none (Flux's `--default-service-account`); by
    /// default the hub's own identity.
    pub default_service_account: Option<String>,
    /// The service account whose token is used for a remote cluster if the ConfigMap of
    /// `spec.kubeConfig.configMapRef` names none (Flux's `--default-kubeconfig-service-account`).
    pub default_kubeconfig_service_account: Option<String>,
    /// The service account whose cloud login is used for sources that name none
    /// (`--default-service-account` of Flux's source-controller).
    pub default_source_service_account: Option<String>,
    /// The service account whose login at a key service is used for Kustomizations that name none
    /// (Flux's `--default-decryption-service-account`).
    pub default_decryption_service_account: Option<String>,
    /// True if the controllers' Deployments of a `gotk-components.yaml` are applied.
    pub keep_controllers: bool,
    /// True if `insecure-skip-tls-verify` is accepted in kubeconfigs.
    pub allow_insecure_kubeconfigs: bool,
    /// True if remote clusters at loopback and link-local addresses are accepted: for an
    /// installation on the operator's own machine.
    pub allow_local_clusters: bool,
    /// True if the remote bases and files of a kustomization are fetched: anonymously, or with the
    /// installation's own credentials for [`Settings::installation_repositories`].
    pub allow_remote_bases: bool,
    /// The address of the root source, as the operator registered it. The GitRepository
    /// `flux-system/flux-system` is read with the installation's own credentials while it has this
    /// address.
    pub root_repository: Option<String>,
    /// The addresses of the sources of further roots, by the name of the root: the GitRepository
    /// `NAME/NAME` is read as that of [`Settings::root_repository`].
    pub further_roots: BTreeMap<String, String>,
    /// The Git repositories that objects of a namespace may read with the installation's own
    /// credentials, as `NAMESPACE=OWNER/NAME` (see [`Grant`]).
    pub installation_repositories: Vec<String>,
    /// True if a variable of `postBuild` without a value and without a default is an empty string
    /// instead of an error (Flux's feature gate `StrictPostBuildSubstitutions=false`).
    pub lenient_substitutions: bool,
    /// True if a dependency with a `readyExpr` must also be ready (Flux's feature gate
    /// `AdditiveCELDependencyCheck`).
    pub additive_dependency_check: bool,
    /// True if releases are applied client-side as in Helm 3, unless they set it (Flux's feature
    /// gate `UseHelm3Defaults`).
    pub helm3_defaults: bool,
    /// The buckets that a Bucket object may read with the installation's own AWS role, as
    /// `NAMESPACE/BUCKET`.
    pub role_buckets: Vec<String>,
    /// The EKS clusters that objects may use with the installation's own AWS role, as
    /// `NAMESPACE/ARN`.
    pub role_clusters: Vec<String>,
    /// The ECR registries that objects may read with the installation's own AWS role, as
    /// `NAMESPACE/HOST/REPOSITORY`, including the repositories below.
    pub role_registries: Vec<String>,
    /// The keys of AWS KMS that Kustomizations may decrypt with by the installation's own AWS role,
    /// as `NAMESPACE/ARN`.
    pub role_keys: Vec<String>,
    /// The `trusted_root.json` for signatures without keys of objects that name none; by default
    /// that of the public Sigstore when this version was built.
    pub sigstore_root: Option<String>,
    /// The Capsule proxy, if the hub's tenants are Capsule's.
    pub capsule_proxy: Option<CapsuleProxy>,
}

/// The address of the Capsule proxy of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapsuleProxy {
    /// The URL at which driftless reaches the proxy, `https://HOST:PORT`.
    pub url: String,
    /// The certificate authority of the proxy, in PEM; by default the system's are trusted.
    pub certificate_authority: Option<String>,
}

/// A connected hub.
#[derive(Clone)]
pub struct Hub {
    /// The registered settings of the hub.
    pub settings: Settings,
    /// The API server, as the hub's own identity.
    pub cluster: Arc<dyn Cluster>,
    /// The address and login of the API server, to connect to it as other users.
    pub access: crate::ports::Access,
}

impl Settings {
    /// Returns the credentials for a GitRepository without its own login: those of the installation
    /// if the operator named the repository, else none.
    pub fn source_auth(&self, source: &ObjectRef, url: &str) -> GitAuth {
        match self.is_root(source, url) {
            true => GitAuth::Installation,
            false => self.repository_auth(&source.namespace, url),
        }
    }

    /// Returns the credentials for a repository that objects of a namespace read without their own
    /// login.
    pub fn repository_auth(&self, namespace: &str, url: &str) -> GitAuth {
        let Some(repository) = hosted(url) else {
            return GitAuth::Anonymous;
        };
        let grants = self.installation_repositories.iter();
        // An invalid grant grants nothing; the command line refuses it.
        let mut grants = grants.filter_map(|text| Grant::parse(text).ok());
        match grants.any(|grant| grant.covers(namespace, &repository)) {
            true => GitAuth::Installation,
            false => GitAuth::Anonymous,
        }
    }

    /// Registers the address of the source of a root.
    pub fn set_root(&mut self, root: &str, url: &str) {
        match root {
            FLUX_SYSTEM => self.root_repository = Some(url.to_owned()),
            _ => {
                self.further_roots.insert(root.to_owned(), url.to_owned());
            }
        }
    }

    /// Returns the registered addresses of the sources of all roots, by the names of the roots.
    pub fn roots(&self) -> BTreeMap<&str, &str> {
        let first = self
            .root_repository
            .as_deref()
            .map(|url| (FLUX_SYSTEM, url));
        let further = self.further_roots.iter();
        let further = further.map(|(name, url)| (name.as_str(), url.as_str()));
        first.into_iter().chain(further).collect()
    }

    /// Returns whether this is the source of a root, with the repository that the operator
    /// registered: a user who can write the object cannot use the installation's credentials for
    /// another repository.
    fn is_root(&self, source: &ObjectRef, url: &str) -> bool {
        let roots = self.roots();
        let registered = roots.get(source.name.as_str()).copied().and_then(hosted);
        source.kind == FluxKind::GitRepository
            && source.namespace == source.name
            && registered
                .zip(hosted(url))
                .is_some_and(|(registered, named)| registered.is_same(&named))
    }
}

fn key_of(name: &str) -> String {
    format!("{PREFIX}{}.json", state::key_part(name))
}

/// Returns the hub's name in a key of the bucket; `None` for a key that is of no registration.
pub fn name_of(key: &str) -> Option<String> {
    state::decode_key_part(key.strip_prefix(PREFIX)?.strip_suffix(".json")?)
}

/// Returns the message that refuses the hub `other` in an installation that serves `own` alone.
pub fn of_another_stack(own: &str, other: &str) -> String {
    format!(
        "this installation serves hub '{own}' alone (parameter Hub of its stack): register hub '{other}' with another stack"
    )
}

/// The result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationResult {
    /// The hub was already registered with these settings.
    Unchanged,
    /// The settings are new or changed.
    Written,
    /// The registration was damaged; it was set aside and replaced.
    Restored,
}

/// Registers a hub, or changes its settings. A damaged registration is replaced, because a
/// registration has all settings. One with a newer format is not: these settings lack what it
/// forbids.
///
/// # Errors
/// The bucket's; `Unsupported` if the registration has a newer format.
pub async fn register(ports: &Ports, settings: &Settings) -> Result<RegistrationResult> {
    let (blobs, key) = (ports.blobs.as_ref(), key_of(&settings.name));
    let found = match state::read::<Settings>(blobs, &key).await {
        Ok(Some((known, _))) if known == *settings => return Ok(RegistrationResult::Unchanged),
        Ok(_) => RegistrationResult::Written,
        Err(error) if error.kind == ErrorKind::Unreadable => {
            state::recall::<Settings>(blobs, &key).await?;
            RegistrationResult::Restored
        }
        Err(error) => return Err(newer(error, &key)),
    };
    match state::write(blobs, &key, settings, Precondition::None).await? {
        PutOutcome::Done(_) => Ok(found),
        PutOutcome::PreconditionFailed => Err(PortError::new(
            ErrorKind::Conflict,
            format!("{key}: not written"),
        )),
    }
}

/// Adds the next step to the error of a registration with a newer format.
fn newer(error: PortError, key: &str) -> PortError {
    if !state::is_newer(&error) {
        return error;
    }
    PortError {
        message: format!(
            "{}: use that version, or delete {key} to replace the registration by the flags that this version knows",
            error.message
        ),
        ..error
    }
}

/// Adds the roots of the hub's registration to settings that have a root, so that the registration
/// of one root leaves the others. Settings without a root stay unchanged: they revoke all of them.
///
/// # Errors
/// The bucket's, unless the registration is damaged, which counts as none.
pub async fn with_registered_roots(ports: &Ports, settings: &Settings) -> Result<Settings> {
    let mut settings = settings.clone();
    if settings.roots().is_empty() {
        return Ok(settings);
    }
    let known = match state::read::<Settings>(ports.blobs.as_ref(), &key_of(&settings.name)).await {
        Ok(Some((known, _))) if known.name == settings.name => known,
        Ok(_) => return Ok(settings),
        Err(error) if error.kind == ErrorKind::Unreadable => return Ok(settings),
        Err(error) => return Err(newer(error, &key_of(&settings.name))),
    };
    for (root, url) in known.roots() {
        if !settings.roots().contains_key(root) {
            settings.set_root(root, url);
        }
    }
    Ok(settings)
}

/// Returns the names of all registered hubs, also of damaged registrations, which [`connect`]
/// refuses one by one.
///
/// # Errors
/// The bucket's.
pub async fn names(ports: &Ports) -> Result<Vec<String>> {
    names_in(ports.blobs.as_ref()).await
}

/// Returns the names of all hubs that are registered in a store, as [`names`] does.
///
/// # Errors
/// The store's.
pub async fn names_in(blobs: &dyn Blobs) -> Result<Vec<String>> {
    let found = blobs.list(PREFIX).await?;
    let names = found.iter().filter_map(|entry| name_of(&entry.key));
    Ok(names.collect())
}

/// Returns the settings of a registered hub. Absent fields have their defaults, which restrict
/// nothing: so a document without the hub's name is refused, and so is one with a newer format,
/// which may forbid what this version does not know.
///
/// # Errors
/// The hub is not registered, the registration cannot be read, or the bucket does not answer.
pub async fn settings(ports: &Ports, name: &str) -> Result<Settings, Failure> {
    let key = key_of(name);
    let damaged = |problem: &str| {
        let message = format!(
            "the registration of hub '{name}' is damaged: register the hub again with all of its flags (driftless bootstrap; \
             driftless serve does it at its start): {problem}"
        );
        Failure::retry(reason::FAILED, message)
    };
    match state::read::<Settings>(ports.blobs.as_ref(), &key).await {
        Ok(Some((settings, _))) if settings.name == name => Ok(settings),
        Ok(Some(_)) => Err(damaged(&format!("{key}: has the name of another hub"))),
        Ok(None) => Err(Failure::terminal(
            reason::FAILED,
            format!("hub '{name}' is not registered: run driftless bootstrap"),
        )),
        Err(error) if error.kind == ErrorKind::Unreadable => Err(damaged(&error.message)),
        // Not terminal: the object continues when the newer version runs.
        Err(error) if state::is_newer(&error) => {
            let error = newer(error, &key);
            Err(Failure::retry(reason::FAILED, &error).caused_by(error))
        }
        Err(error) => Err(error.into()),
    }
}

/// Connects to a registered hub.
///
/// # Errors
/// The hub is not registered, its kubeconfig is missing or refused, or the cluster cannot be
/// reached.
pub async fn connect(ports: &Ports, name: &str) -> Result<Hub, Failure> {
    let settings = settings(ports, name).await?;
    let secret = format!("hubs/{name}");
    let Some(text) = ports.secrets.secret(&secret).await? else {
        return Err(Failure::retry(
            reason::FAILED,
            format!("the secret manager has no '{secret}' with the hub's kubeconfig"),
        ));
    };
    let options = kubeconfig::Options {
        allow_insecure: settings.allow_insecure_kubeconfigs,
        // The operator chose the hub's address.
        allow_local: true,
    };
    let access = kubeconfig::parse(text.expose(), &options).map_err(|error| {
        Failure::terminal(reason::FAILED, &error)
            .caused_by(error)
            .context(format!("secret '{secret}'"))
    })?;
    let cluster = ports.clusters.connect(&access, None).await?;
    Ok(Hub {
        settings,
        cluster,
        access,
    })
}

impl Hub {
    /// Returns the resource of a Flux kind in the newest version that the hub serves and driftless
    /// knows, else in the first served.
    ///
    /// # Errors
    /// The custom resource definitions are not installed.
    pub async fn resource(&self, kind: FluxKind) -> Result<Resource> {
        let served = self.cluster.versions(kind.group(), kind.as_str()).await?;
        // Prefer our order to the server's: newest first.
        let best = kind
            .versions()
            .iter()
            .find_map(|version| served.iter().find(|one| one.gvk.version == *version));
        best.or(served.first()).cloned().ok_or_else(|| {
            let message = format!(
                "hub '{}' does not serve {kind}: install the custom resource definitions",
                self.settings.name
            );
            PortError::new(ErrorKind::NotFound, message)
        })
    }

    /// Returns the resource of a kind like [`resource`](Self::resource), or nothing if the hub does
    /// not serve the kind.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn served(&self, kind: FluxKind) -> Result<Option<Resource>> {
        match self.resource(kind).await {
            Ok(resource) => Ok(Some(resource)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a Flux object; returns nothing if it does not exist.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn get(&self, id: &ObjectRef) -> Result<Option<Object>> {
        let resource = self.resource(id.kind).await?;
        self.cluster.get(&resource, &id.namespace, &id.name).await
    }

    /// Lists every Flux object of a kind; the list is empty if the hub does not serve the kind.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn list(&self, kind: FluxKind) -> Result<Vec<Object>> {
        match self.served(kind).await? {
            Some(resource) => self.cluster.list(&ListRequest::all(&resource)).await,
            None => Ok(Vec::new()),
        }
    }

    /// Lists the Flux objects of a kind that `is_wanted` accepts. The others are dropped page by
    /// page: with thousands of objects on a hub, the messages of a batch could not hold them all.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn list_where(
        &self,
        kind: FluxKind,
        is_wanted: impl Fn(&Object) -> bool + Send,
    ) -> Result<Vec<Object>> {
        let Some(resource) = self.served(kind).await? else {
            return Ok(Vec::new());
        };
        let resource = &resource;
        let read = |next: String| async move { self.cluster.page(resource, "", &next).await };
        let add = move |found: &mut Vec<Object>, page: Vec<Object>| {
            found.extend(page.into_iter().filter(|object| is_wanted(object)));
        };
        let (found, _) = all_pages(read, add).await?;
        Ok(found)
    }
}
