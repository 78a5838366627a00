//! The steps that `driftless bootstrap` shares between Git hosts: manifests, deploy keys, the login
//! of the cluster, and its installation.

use super::{Installation, Rules, report_registration};
use crate::create::{KNOWN_HOSTS, KeyPair, PUBLIC_KEY, known_hosts};
use crate::error::Error;
use crate::hub::{Connection, apply};
use crate::root::{follow, report_changes};
use crate::term;
use driftless_adapters::git::{NewFile, Outcome, RepositoryAdministration};
use driftless_adapters::local::SystemClock;
use driftless_core::bootstrap::{self, Root};
use driftless_flux::{FLUX_SYSTEM, Invalid};
use driftless_kernel::credentials;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Secret;
use driftless_kustomize::FILE_NAMES;
use serde_json::{Value, json};
use std::env;

/// The file with the root.
pub const SYNC: &str = "gotk-sync.yaml";
/// The kustomization next to it.
pub const LIST: &str = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- gotk-sync.yaml\n";

/// Parses the name of an owner, a repository or a host.
pub fn plain(text: &str) -> Result<String, Invalid> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match !text.is_empty() && text.bytes().all(fits) && !text.starts_with('.') {
        true => Ok(text.to_owned()),
        false => Err("expected letters, digits, '-', '_' and '.'".into()),
    }
}

/// Parses a path of directories, or a branch.
pub fn path(text: &str) -> Result<String, Invalid> {
    let trimmed = text.trim_start_matches("./").trim_matches('/');
    let is_part = |part: &str| {
        plain(part).is_ok()
            || part.starts_with('.') && part != "." && part != ".." && plain(&part[1..]).is_ok()
    };
    match trimmed.is_empty() || trimmed.split('/').all(is_part) {
        true => Ok(trimmed.to_owned()),
        false => {
            Err("expected names of letters, digits, '-', '_' and '.', with '/' between them".into())
        }
    }
}

/// Parses the URL of an API.
pub fn api(text: &str) -> Result<String, Invalid> {
    match text.starts_with("https://") || text.starts_with("http://") {
        true => Ok(text.to_owned()),
        false => Err("expected an https or http URL".into()),
    }
}

/// Returns the value of an environment variable that is set.
pub fn variable(name: &str) -> Option<Secret> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(Secret::new(text.into_bytes()))
}

/// Returns the directory of the root's manifests.
pub fn directory(path: &str) -> String {
    match path {
        "" => FLUX_SYSTEM.to_owned(),
        path => format!("{path}/{FLUX_SYSTEM}"),
    }
}

/// Commits the manifests of the root that are missing.
pub async fn commit(setup: &dyn RepositoryAdministration, root: &Root) -> Result<(), Error> {
    let directory = directory(&root.path);
    let files = [
        NewFile {
            path: format!("{directory}/{SYNC}"),
            text: root.manifest(),
            unless: Vec::new(),
        },
        // A kustomization that Flux wrote also lists its controllers: it is left unchanged.
        NewFile {
            path: format!("{directory}/kustomization.yaml"),
            text: LIST.to_owned(),
            unless: FILE_NAMES
                .map(|name| format!("{directory}/{name}"))
                .to_vec(),
        },
    ];
    let message = format!("Add the sync manifests of {directory}");
    let branch = &root.branch;
    match setup.commit(branch, &files, &message).await? {
        Some(sha) => term::success(&format!("committed {directory} to {branch} as {sha}")),
        None => term::success(&format!("{directory} of {branch} is up to date")),
    }
    Ok(())
}

/// Prints what happened to `subject`.
pub fn report(outcome: Outcome, subject: &str) {
    term::success(&match outcome {
        Outcome::Created => format!("{subject} created"),
        Outcome::Updated => format!("{subject} updated"),
        Outcome::Unchanged => format!("{subject} exists"),
    });
}

/// Returns the key pair that the cluster already has for its root.
///
/// # Errors
/// Fails with the errors of the cluster.
pub async fn known_pair(hub: &Hub) -> Result<Option<KeyPair>, Error> {
    let known = credentials::secret(hub, FLUX_SYSTEM, FLUX_SYSTEM).await?;
    let entry = |name: &str| {
        let found = credentials::entry(known.as_ref()?, name)?;
        found.expose_str().map(str::to_owned)
    };
    Ok(match (entry("identity"), entry(PUBLIC_KEY)) {
        (Some(private), Some(public)) => Some(KeyPair { private, public }),
        _ => None,
    })
}

/// The server from which a cluster reads a repository over SSH, and the rights of its key.
pub struct SshAccess<'a> {
    /// The host, with its port if that is not 22.
    pub host: &'a str,
    /// The lines of `known_hosts` that the user gave.
    pub known_hosts: Option<&'a str>,
    /// True if the key may write.
    pub read_write: bool,
}

/// Returns the data of the Secret for SSH, with the key that the cluster already has, or a new one.
/// Adds the key to the repository as a deploy key.
///
/// # Errors
/// Fails with the errors of the host and the cluster, and if the host's SSH key cannot be read.
pub async fn deploy_key(
    setup: &dyn RepositoryAdministration,
    hub: &Hub,
    path: &str,
    ssh: SshAccess<'_>,
) -> Result<Value, Error> {
    let pair = match known_pair(hub).await? {
        Some(pair) => pair,
        None => KeyPair::new()
            .map_err(|error| Error::caused_by(error).context("key pair generation failed"))?,
    };
    let hosts = match ssh.known_hosts {
        Some(hosts) => hosts.to_owned(),
        None => setup.known_hosts(ssh.host).await?,
    };
    let hosts = match hosts.is_empty() {
        false => hosts,
        true => known_hosts::scan(ssh.host).map_err(|error| {
            Error::caused_by(error).context(format!("SSH key scan for host {} failed", ssh.host))
        })?,
    };
    let title = match path {
        "" => "driftless".to_owned(),
        path => format!("driftless-{path}"),
    };
    let added = setup
        .deploy_key(&title, &pair.public, !ssh.read_write)
        .await?;
    report(added, "deploy key");
    Ok(json!({"identity": pair.private, PUBLIC_KEY: pair.public, KNOWN_HOSTS: hosts}))
}

/// Returns the data of the Secret for HTTPS with a token.
pub fn token_login(token: &Secret) -> Value {
    json!({"username": "git", "password": token.expose_str().unwrap_or_default()})
}

/// Applies the Secret with which the cluster reads the repository.
///
/// # Errors
/// Fails with the errors of the cluster.
pub async fn login(hub: &Hub, data: Value) -> Result<(), Error> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": FLUX_SYSTEM, "namespace": FLUX_SYSTEM}, "stringData": data});
    apply(hub.cluster.as_ref(), secret, false).await?;
    term::success(&format!("applied Secret/{FLUX_SYSTEM}/{FLUX_SYSTEM}"));
    Ok(())
}

/// The cluster that is set up: the hub of an installation on AWS with `--name`, or one for
/// `driftless serve`.
pub struct Cluster<'a> {
    /// The flags that lead to the cluster.
    pub connection: &'a Connection,
    /// The installation on AWS, with `--name`.
    pub installation: Option<Installation>,
    /// The name of the hub in the installation.
    pub name: Option<&'a str>,
    /// The rules of the hub.
    pub rules: &'a Rules,
}

impl<'a> Cluster<'a> {
    /// Returns the cluster of these flags; `name` is that of the hub in the installation.
    ///
    /// # Errors
    /// Fails if there is a name, and the environment does not name an installation.
    pub fn new(
        connection: &'a Connection,
        name: Option<&'a str>,
        rules: &'a Rules,
    ) -> Result<Self, Error> {
        Ok(Self {
            connection,
            installation: name.map(|_| Installation::from_env()).transpose()?,
            name,
            rules,
        })
    }

    /// Installs what the cluster lacks, and registers it with the installation if there is one. The
    /// installation's own login may read the repository `own`.
    ///
    /// # Errors
    /// Fails with the errors of AWS and the cluster.
    pub async fn install(&self, connected: Hub, own: Option<&str>) -> Result<Hub, Error> {
        match (&self.installation, self.name) {
            (Some(installation), Some(name)) => {
                let settings = self.rules.settings(name, own);
                installation.register(self.connection, &settings).await
            }
            _ => {
                let report = bootstrap::install(connected.cluster.as_ref(), &SystemClock).await?;
                report_changes(&report);
                Ok(connected)
            }
        }
    }

    /// Makes the cluster follow the root.
    ///
    /// # Errors
    /// Fails with the errors of the cluster, and if it follows another root.
    pub async fn follow(&self, hub: &Hub, root: &Root, shown: &str) -> Result<(), Error> {
        let next = "delete the objects that differ, or add another root with driftless serve or driftless bootstrap --name: --repository URL --root NAME";
        follow(hub.cluster.as_ref(), root, next).await?;
        match self.name {
            Some(_) => report_registration(hub),
            None => term::success(&format!(
                "{} follows {shown}; `driftless serve` reconciles it",
                hub.access.server
            )),
        }
        Ok(())
    }
}
