//! The installation on AWS that the environment configures, and the store of an installation or of
//! `serve`.

use crate::error::Error;
use driftless_adapters::config::{self, Config};
use driftless_adapters::local::DirectoryBlobs;
use driftless_kernel::ports::{Blobs, Ports};
use driftless_server::DataDirectory;
use std::path::Path;
use std::sync::Arc;

/// The variable that names the bucket of an installation.
const BUCKET: &str = "DRIFTLESS_BUCKET";

/// Connects to the installation.
///
/// # Errors
/// The environment or the credentials of AWS are not complete.
pub async fn ports() -> Result<Ports, Error> {
    let config = Config::from(|name| std::env::var(name).ok());
    let config = config.map_err(|error| {
        Error::usage(format!("the installation: {error}"))
            .next("take it from the outputs of the stack (infra/template.yaml)")
    })?;
    let ports = config::aws_ports(&config).await;
    ports.map_err(|error| Error::from(error).next("check AWS_REGION and the credentials of AWS"))
}

/// Opens a store to read: the directory `data` of `serve`, else the bucket of the installation that
/// the environment configures, else the directory that `serve` uses by default for a hub's name and
/// the address of its server, which `hub` returns. Returns `None` if that directory does not exist.
///
/// # Errors
/// `data` is not such a directory, the environment of the installation is not complete, or that of
/// `hub`.
pub async fn store<'n>(
    data: Option<&Path>,
    hub: impl FnOnce() -> Result<(&'n str, String), Error>,
) -> Result<Option<Arc<dyn Blobs>>, Error> {
    let is_store = |directory: &Path| directory.join("blobs").is_dir();
    if let Some(data) = data {
        if !is_store(data) {
            let shown = data.display();
            return Err(
                Error::usage(format!("--data: {shown} is not a data directory"))
                    .next("give the directory of driftless serve --data"),
            );
        }
        return Ok(Some(Arc::new(DirectoryBlobs::open(data)?)));
    }
    if std::env::var_os(BUCKET).is_some_and(|value| !value.is_empty()) {
        return Ok(Some(ports().await?.blobs));
    }
    let (name, server) = hub()?;
    let directory = DataDirectory::default_path(name, &server);
    match directory.filter(|directory| is_store(directory)) {
        Some(directory) => Ok(Some(Arc::new(DirectoryBlobs::open(&directory)?))),
        None => Ok(None),
    }
}
