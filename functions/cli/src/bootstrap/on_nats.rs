//! The registration of a hub with an installation on NATS JetStream.

use crate::error::Error;
use crate::hub::{Connection, access, load};
use crate::nats::NatsFlags;
use driftless_adapters::config::shared_ports;
use driftless_adapters::git::Hosts;
use driftless_adapters::local::LocalSecrets;
use driftless_kernel::hub::{Hub, Settings};
use driftless_kernel::ports::{Ports, Secret, SecretStore as _};
use driftless_nats::{NatsBlobs, NatsQueue};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An installation on NATS: its servers, and the directory with the secrets of its workers.
pub struct Installation<'a> {
    flags: &'a NatsFlags,
    secrets: &'a Path,
}

impl<'a> Installation<'a> {
    /// Checks the flags.
    ///
    /// # Errors
    /// The directory for the kubeconfig is missing, or an address of the servers is not valid.
    pub fn new(flags: &'a NatsFlags, secrets: Option<&'a Path>) -> Result<Self, Error> {
        let secrets = secrets.ok_or_else(|| {
            Error::usage("--nats needs --secrets")
                .next("give the directory whose files the workers have as secrets: --secrets DIR")
        })?;
        flags.check()?;
        Ok(Self { flags, secrets })
    }

    /// Stores the kubeconfig, registers the hub and installs what it lacks.
    ///
    /// # Errors
    /// Fails with the errors of NATS, the directory and the cluster, and if the settings need what
    /// workers do not do.
    pub async fn register(
        &self,
        connection: &Connection,
        settings: &Settings,
    ) -> Result<Hub, Error> {
        if settings.capsule_proxy.is_some() {
            let reason = "workers on NATS create no kubeconfigs for owners of Capsule's Tenants";
            return Err(Error::unsupported("--capsule-proxy with --nats", reason));
        }
        let kubeconfig = load(
            connection.kubeconfig.as_deref(),
            connection.context.as_deref(),
        )?;
        // Check first, so that a kubeconfig that the workers cannot use is not stored.
        access(&kubeconfig)?;
        let secret = format!("hubs/{}", settings.name);
        // Fails if the name is not that of a file.
        self.local_secrets().secret(&secret).await?;
        let file = self.secrets.join(secret);
        let ports = self.ports().await?;
        let store = async |secret: Secret| {
            store(&file, secret.expose()).map_err(|error| {
                Error::caused_by(error).context(format!("--secrets: write {}", file.display()))
            })
        };
        super::register(&ports, settings, &kubeconfig, store).await
    }

    fn local_secrets(&self) -> LocalSecrets {
        LocalSecrets::new(BTreeMap::new(), Some(self.secrets.to_owned()))
    }

    /// Connects, and returns the ports for registrations.
    ///
    /// # Errors
    /// The servers do not answer, or refuse the login.
    pub async fn ports(&self) -> Result<Ports, Error> {
        let nats = self.flags.connect().await?;
        Ok(shared_ports(
            Arc::new(NatsBlobs::new(&nats)),
            // A registration queues nothing.
            Arc::new(NatsQueue::new(&nats, Duration::from_secs(60))),
            Arc::new(self.local_secrets()),
            Hosts::default(),
        )?)
    }

    /// Returns the names of the hubs that have a kubeconfig in the directory, sorted.
    ///
    /// # Errors
    /// The directory cannot be read, or has a file whose name is not UTF-8.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let directory = self.secrets.join("hubs");
        let failed = |error: io::Error| {
            Error::caused_by(error).context(format!("--secrets: read {}", directory.display()))
        };
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name().into_string();
            let not_text = |name| io::Error::other(format!("not a name of a hub: {name:?}"));
            names.push(name.map_err(not_text).map_err(failed)?);
        }
        names.sort();
        Ok(names)
    }
}

/// Writes a secret to a file that only its user can read.
fn store(file: &Path, content: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let new = file.with_added_extension("new");
    // One that is left has its own mode.
    remove(&new)?;
    let stored = write_new(&new, content).and_then(|()| fs::rename(&new, file));
    if stored.is_err() {
        // The first error has the reason.
        remove(&new).unwrap_or_default();
    }
    stored
}

/// Writes a file that does not exist.
fn write_new(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    written.write_all(content)?;
    written.sync_all()
}

/// Removes a file, if it exists.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_user_reads_a_secret() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("hubs").join("eu.west");
        let left = home.path().join("hubs").join("eu.west.new");
        store(&file, b"first").unwrap();
        fs::write(&left, "left by a killed process").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).unwrap();
        store(&file, b"second").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"second");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!left.exists());
    }

    #[test]
    fn a_secret_that_cannot_be_stored_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("hub");
        fs::create_dir(&file).unwrap();
        store(&file, b"a kubeconfig").unwrap_err();
        assert!(!home.path().join("hub.new").exists());
    }
}
