//! Hubs: the management clusters whose Flux objects are served, registered in the bucket.

use crate::failure::Failure;
use crate::flux::{FLUX_SYSTEM, FluxKind, ObjectRef, reason};
use crate::kubeconfig;
use crate::ports::{
    Cluster, ErrorKind, GitAuth, PortError, Ports, Precondition, Put, Resource, Result,
};
use crate::repository::{Grant, Location, Repository, place};
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
    /// Fetch remote bases and files that a kustomization names: as everybody can, or with the installation's own access where
    /// [`Settings::installation_repositories`] says so.
    pub allow_remote_bases: bool,
    /// The address of the root source, as the operator gave it. The GitRepository `flux-system/flux-system` is read with the
    /// installation's own credentials as long as it has this address.
    pub root_repository: Option<String>,
    /// Git repositories that objects of a namespace may read with the installation's own credentials, as
    /// `NAMESPACE=OWNER/NAME` (see [`Grant`]); none unasked.
    pub installation_repositories: Vec<String>,
    /// A variable of `postBuild` without a value and without a default is empty text, and no failure (Flux's feature gate
    /// `StrictPostBuildSubstitutions=false`).
    pub lenient_substitutions: bool,
    /// A dependency with a `readyExpr` must be ready as well (Flux's feature gate `AdditiveCELDependencyCheck`).
    pub additive_dependency_check: bool,
    /// A release that does not say how it is applied is applied as Helm 3 does, by the client (Flux's feature gate
    /// `UseHelm3Defaults`).
    pub helm3_defaults: bool,
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
    /// The Capsule proxy, where the hub's tenants are Capsule's ([`crate::capsule`]).
    pub capsule_proxy: Option<CapsuleProxy>,
}

/// Where the Capsule proxy of a hub is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapsuleProxy {
    /// `https://HOST:PORT`, as driftless reaches it.
    pub url: String,
    /// PEM of its certificate authority; the system's when absent.
    pub certificate_authority: Option<String>,
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

impl Settings {
    /// How a GitRepository without a usable login of its own is read: with the installation's own credentials where the operator
    /// named it, and else as everybody can.
    pub fn source_auth(&self, source: &ObjectRef, url: &str) -> GitAuth {
        match self.is_root(source, url) {
            true => GitAuth::Installation,
            false => self.repository_auth(&source.namespace, url),
        }
    }

    /// How objects of a namespace read a repository without a login of their own.
    pub fn repository_auth(&self, namespace: &str, url: &str) -> GitAuth {
        let Some(repository) = hosted(url) else {
            return GitAuth::Anonymous;
        };
        let grants = self.installation_repositories.iter();
        // A grant that cannot be read grants nothing; the command line takes none.
        let mut grants = grants.filter_map(|text| Grant::parse(text).ok());
        match grants.any(|grant| grant.covers(namespace, &repository)) {
            true => GitAuth::Installation,
            false => GitAuth::Anonymous,
        }
    }

    /// Whether this is the root source: by its name, and by the repository that the operator registered. Whoever may write the
    /// object leads it to no other repository with the installation's access.
    fn is_root(&self, source: &ObjectRef, url: &str) -> bool {
        let root = ObjectRef::new(FluxKind::GitRepository, FLUX_SYSTEM, FLUX_SYSTEM);
        let registered = self.root_repository.as_deref().and_then(hosted);
        *source == root
            && registered
                .zip(hosted(url))
                .is_some_and(|(registered, named)| registered.is_same(&named))
    }
}

fn hosted(url: &str) -> Option<Repository> {
    match place(url) {
        Ok(Location::Hosted(repository)) => Some(repository),
        _ => None,
    }
}

fn key_of(name: &str) -> String {
    format!("{PREFIX}{}.json", state::key_part(name))
}

/// The name in a key of the registry.
fn name_of(key: &str) -> Option<String> {
    state::decode_key_part(key.strip_prefix(PREFIX)?.strip_suffix(".json")?)
}

/// What a registration found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The same settings.
    Unchanged,
    /// Other settings, or none.
    Written,
    /// A damaged document, which was set aside.
    Restored,
}

/// Registers a hub, or changes its settings. A damaged registration is written anew: who registers a hub says all of its
/// settings.
///
/// # Errors
/// The bucket's.
pub async fn register(ports: &Ports, settings: &Settings) -> Result<Registered> {
    let (blobs, key) = (ports.blobs.as_ref(), key_of(&settings.name));
    let found = match state::read::<Settings>(blobs, &key).await {
        Ok(Some((known, _))) if known == *settings => return Ok(Registered::Unchanged),
        Ok(_) => Registered::Written,
        Err(error) if error.kind == ErrorKind::Unreadable => {
            state::recall::<Settings>(blobs, &key).await?;
            Registered::Restored
        }
        Err(error) => return Err(error),
    };
    match state::write(blobs, &key, settings, Precondition::None).await? {
        Put::Done(_) => Ok(found),
        Put::PreconditionFailed => Err(PortError::new(
            ErrorKind::Conflict,
            format!("{key}: not written"),
        )),
    }
}

/// Every registered hub's name, of damaged registrations too: [`connect`] refuses those hubs, each by itself.
///
/// # Errors
/// The bucket's.
pub async fn names(ports: &Ports) -> Result<Vec<String>> {
    let found = ports.blobs.list(PREFIX).await?;
    let names = found.iter().filter_map(|entry| name_of(&entry.key));
    Ok(names.collect())
}

/// What is registered about a hub. Fields that are absent have their defaults, which lock nothing down: so a document that
/// does not even say its name is refused.
///
/// # Errors
/// It is not registered, it is damaged, or the bucket does not answer.
pub async fn settings(ports: &Ports, name: &str) -> Result<Settings, Failure> {
    let key = key_of(name);
    let damaged = |what: &str| {
        let what = format!(
            "the registration of hub '{name}' is damaged, and its settings are not guessed: register the hub again with \
             all of its flags (driftless bootstrap; driftless serve does at its start): {what}"
        );
        Failure::retry(reason::FAILED, what)
    };
    match state::read::<Settings>(ports.blobs.as_ref(), &key).await {
        Ok(Some((settings, _))) if settings.name == name => Ok(settings),
        Ok(Some(_)) => Err(damaged(&format!("{key}: it has another name"))),
        Ok(None) => Err(Failure::terminal(
            reason::FAILED,
            format!("hub '{name}' is not registered: run driftless bootstrap"),
        )),
        Err(error) if error.kind == ErrorKind::Unreadable => Err(damaged(&error.message)),
        Err(error) => Err(error.into()),
    }
}

/// Connects to a registered hub.
///
/// # Errors
/// Not registered, no kubeconfig, a kubeconfig that is refused, or a cluster that cannot be reached.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep;
    use crate::testing::{self, MemoryBlobs};
    use bytes::Bytes;
    use futures::FutureExt as _;

    /// Nothing in memory ever waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().unwrap()
    }

    fn locked_down(name: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            no_cross_namespace_refs: true,
            default_service_account: Some("tenant".to_owned()),
            ..Settings::default()
        }
    }

    #[test]
    fn a_damaged_registration_stops_its_hub_alone_and_loosens_nothing() {
        let blobs = Arc::<MemoryBlobs>::default();
        let ports = testing::ports(blobs, Arc::default(), Arc::default());
        for name in ["eu/staging", "production"] {
            now(register(&ports, &locked_down(name))).unwrap();
        }
        let key = key_of("eu/staging");
        let why = |name: &str| now(connect(&ports, name)).err().unwrap().message;
        for (damage, found) in [
            ("", Registered::Restored),
            ("{\"name\": \"eu/sta", Registered::Restored),
            ("\u{0}\u{1}", Registered::Restored),
            // Documents of their own, without the settings of the hub.
            ("{}", Registered::Written),
            ("{\"name\": \"production\"}", Registered::Written),
        ] {
            now(ports
                .blobs
                .put(&key, Bytes::from(damage), Precondition::None))
            .unwrap();
            assert_eq!(now(names(&ports)).unwrap(), ["eu/staging", "production"]);
            assert!(why("eu/staging").contains("is damaged"), "{damage}");
            // It has no kubeconfig in this test, which is asked for after the registration.
            assert!(
                why("production").contains("the secret manager has no"),
                "{damage}"
            );
            let reports = now(sweep::sweep(&ports)).unwrap();
            let told = reports.iter().map(|report| {
                let failure = report.failure.as_ref().unwrap();
                (report.hub.as_str(), failure.message.contains("is damaged"))
            });
            let expected = [("eu/staging", true), ("production", false)];
            assert_eq!(told.collect::<Vec<_>>(), expected, "{damage}");
            // Nobody but who registers the hub writes it anew.
            assert_eq!(now(ports.blobs.get(&key)).unwrap().unwrap().0, damage);
            let again = now(register(&ports, &locked_down("eu/staging"))).unwrap();
            assert_eq!(again, found, "{damage}");
            assert!(
                why("eu/staging").contains("the secret manager has no"),
                "{damage}"
            );
        }
    }

    const FLEET: &str = "https://github.com/acme/fleet";

    fn git(namespace: &str, name: &str) -> ObjectRef {
        ObjectRef::new(FluxKind::GitRepository, namespace, name)
    }

    #[test]
    fn the_root_source_is_named_by_the_operator() {
        let settings = Settings {
            root_repository: Some(FLEET.to_owned()),
            ..Settings::default()
        };
        let root = git(FLUX_SYSTEM, FLUX_SYSTEM);
        for (source, url, auth) in [
            (&root, FLEET, GitAuth::Installation),
            (
                &root,
                "ssh://git@github.com/Acme/fleet.git",
                GitAuth::Installation,
            ),
            (&root, "https://github.com/acme/other", GitAuth::Anonymous),
            (
                &root,
                "https://git.acme.example/acme/fleet",
                GitAuth::Anonymous,
            ),
            (
                &root,
                "https://github.com:8443/acme/fleet",
                GitAuth::Anonymous,
            ),
            (&root, "file:///srv/fleet", GitAuth::Anonymous),
            (&git(FLUX_SYSTEM, "other"), FLEET, GitAuth::Anonymous),
            (&git("team-a", FLUX_SYSTEM), FLEET, GitAuth::Anonymous),
        ] {
            assert_eq!(settings.source_auth(source, url), auth, "{source} {url}");
        }
        // A hub that was registered by an older version names no root.
        let older: Settings = serde_json::from_str(r#"{"name": "hub"}"#).unwrap();
        assert_eq!(older.source_auth(&root, FLEET), GitAuth::Anonymous);
    }

    #[test]
    fn grants_are_for_their_namespace() {
        let grants = ["nonsense", "team-a=acme/*", "*=acme/public-*"];
        let settings = Settings {
            installation_repositories: grants.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        for (namespace, name, auth) in [
            ("team-a", "fleet", GitAuth::Installation),
            ("team-b", "fleet", GitAuth::Anonymous),
            ("team-b", "public-charts", GitAuth::Installation),
        ] {
            let url = format!("https://github.com/acme/{name}");
            assert_eq!(settings.source_auth(&git(namespace, "x"), &url), auth);
            assert_eq!(settings.repository_auth(namespace, &url), auth);
        }
    }
}
