//! The flags about a fleet repository in a directory, and what replaces external services.

use crate::error::Error;
use driftless_fleet::{Fleet, Options, Source};
use driftless_manifest::FileTree;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options about the fleet repository and what replaces external services.
#[derive(clap::Args)]
pub struct FleetOptions {
    /// Directory of a hub in the repository; may be given several times. By default hubs are the
    /// directories with a gotk-sync.yaml, those that a FluxInstance synchronises, those of
    /// clusters/, or the one from which all other Kustomizations are reached
    #[arg(long = "path", value_name = "DIRECTORY")]
    paths: Vec<String>,
    /// URL of the repository, if its files do not name it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Directory in place of another repository (one branch or tag of it: URL@NAME=DIR), of a chart
    /// repository (the URL of its HelmRepository; the directory holds charts as directories or
    /// packaged), or of an OCI repository; may be given several times
    #[arg(long = "source", value_name = "URL=DIR", value_parser = Source::parse)]
    sources: Vec<Source>,
    /// Keys for SOPS files: age identities or armored OpenPGP secret keys. Without them encrypted
    /// values are replaced by placeholders
    #[arg(long, alias = "age-key", value_name = "FILE")]
    sops_key: Option<PathBuf>,
    /// Service account of objects that do not name one
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// Refuse references to other namespaces
    #[arg(long)]
    no_cross_namespace_refs: bool,
}

impl FleetOptions {
    /// Refuses options of a fleet when none was given.
    ///
    /// # Errors
    /// One of the options was given.
    pub fn refuse(&self, without: &str) -> Result<(), Error> {
        let none = self.paths.is_empty()
            && self.sources.is_empty()
            && self.url.is_none()
            && self.sops_key.is_none();
        let rules = self.no_cross_namespace_refs || self.default_service_account.is_some();
        match none && !rules {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "--path, --url, --source, --sops-key, --default-service-account and --no-cross-namespace-refs need {without}"
            ))),
        }
    }

    /// Opens a directory as [`Options::open`] does.
    ///
    /// # Errors
    /// The directory does not exist, a key cannot be read, or no hub was found.
    pub async fn open(&self, dir: &Path, quiet: Duration) -> Result<Fleet, Error> {
        Ok(self.options().open(dir, quiet).await?)
    }

    /// Opens files in memory as [`Options::open_files`] does.
    ///
    /// # Errors
    /// A key cannot be read, or no hub was found.
    pub fn open_files(&self, dir: &Path, files: FileTree) -> Result<Fleet, Error> {
        Ok(self.options().open_files(dir, files)?)
    }

    fn options(&self) -> Options {
        Options {
            paths: self.paths.clone(),
            url: self.url.clone(),
            sources: self.sources.clone(),
            sops_key: self.sops_key.clone(),
            default_service_account: self.default_service_account.clone(),
            no_cross_namespace_refs: self.no_cross_namespace_refs,
        }
    }
}
