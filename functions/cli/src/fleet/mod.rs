//! A fleet in directories: which directory stands in for which repository, and which directories are hubs.

mod directories;
pub mod encrypted;
mod find;
mod locate;
mod open;
mod origin;
mod reach;
mod roots;
mod sample;

use crate::error::Error;
use driftless_adapters::git::DirectoryGit;
use driftless_core::hub::Settings;
use driftless_core::ports::Secret;
use std::path::Path;
use std::time::Duration;

pub use directories::DirectoryCharts;
pub use locate::{Files, Place};
pub use open::Options;
pub use origin::of as origin_of;
pub use reach::Build;
pub use sample::write as write_sample;

/// A fleet repository, and what else its hubs need.
pub struct Fleet {
    /// The fleet repository's address.
    pub url: String,
    /// Its branch.
    pub branch: String,
    /// The address of the OCI artifact that holds the same files, when the hubs follow one.
    pub artifact: Option<String>,
    /// Whether a GitRepository in its files is the fleet repository itself.
    pub is_stated: bool,
    /// Directories in place of repositories.
    pub git: DirectoryGit,
    /// The hubs.
    pub hubs: Vec<HubPlan>,
    /// What every hub is registered with, but for its name.
    pub rules: Settings,
    /// age keys for every namespace that asks for keys.
    pub sops_keys: Option<Secret>,
    /// The version of Kubernetes that its clusters say they have; that of the embedded server when absent.
    pub kube_version: Option<[u64; 3]>,
    /// What was found out about the directory that its user should know, one line each.
    pub told: Vec<String>,
}

/// A hub of a fleet.
pub struct HubPlan {
    /// The hub's name.
    pub name: String,
    /// Its directory in the fleet repository.
    pub path: String,
    /// Directories of others that lead to more on the same hub.
    pub more: Vec<String>,
}

impl Fleet {
    /// The sample fleet, as it stands in a directory now.
    ///
    /// # Errors
    /// The directory is not there, or has another content.
    pub fn sample(directory: &Path, quiet: Duration) -> Result<Self, Error> {
        let key = directory.join("age.agekey");
        let key = std::fs::read(&key)
            .map_err(|error| Error::new(format!("{}: {error}", key.display())))?;
        let url = |name: &str| format!("https://github.com/acme/{name}");
        let mut git = DirectoryGit::new(quiet);
        for (name, place) in [
            ("fleet", "platform"),
            ("team-a", "team-a"),
            ("team-b", "team-b"),
        ] {
            git = git.with(&url(name), None, &directory.join(place))?;
        }
        Ok(Self {
            url: url("fleet"),
            branch: "main".to_owned(),
            artifact: None,
            is_stated: false,
            git,
            hubs: vec![HubPlan {
                name: "hub".to_owned(),
                path: "clusters/demo".to_owned(),
                more: Vec::new(),
            }],
            rules: Settings::default(),
            sops_keys: Some(Secret::new(key)),
            kube_version: None,
            told: Vec::new(),
        })
    }
}
