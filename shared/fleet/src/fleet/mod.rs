//! A fleet in directories: the directories in place of repositories, and those that are hubs.

mod blind;
mod build_files;
mod directories;
pub mod encrypted;
mod excerpt;
mod files;
mod hubs;
mod locate;
mod open;
mod origin;
mod roots;
mod sample;

use crate::error::Error;
use driftless_adapters::git::DirectoryGit;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::Secret;
use std::path::Path;
use std::time::Duration;

pub use blind::{Blinder, service_keys};
pub use build_files::Build;
pub use directories::{DirectoryCharts, charts_in_place_of};
pub use excerpt::excerpt;
pub use files::{Files, Location};
pub use open::{InvalidSource, Options, Source};
pub use origin::of as origin_of;
pub use sample::write as write_sample;

/// A fleet repository, and the settings of its hubs.
pub struct Fleet {
    /// The fleet repository's URL.
    pub url: String,
    /// The fleet repository's branch.
    pub branch: String,
    /// The URL of the OCI artifact with the same files, if the hubs follow one.
    pub artifact: Option<String>,
    /// True if a GitRepository in its files is the fleet repository itself.
    pub is_stated: bool,
    /// The directories in place of repositories.
    pub git: DirectoryGit,
    /// The hubs of the fleet.
    pub hubs: Vec<HubPlan>,
    /// The settings of every hub, except the name.
    pub rules: Settings,
    /// The age or OpenPGP keys for every namespace that needs keys.
    pub sops_keys: Option<Secret>,
    /// The Kubernetes version that clusters report; that of the embedded server if absent.
    pub kube_version: Option<[u64; 3]>,
    /// Messages for the user about how the directory was read, one line each.
    pub messages: Vec<String>,
}

/// A hub of a fleet.
pub struct HubPlan {
    /// The hub's name.
    pub name: String,
    /// Its directory in the fleet repository.
    pub path: String,
    /// Further root directories on the same hub, which others manage.
    pub more: Vec<String>,
}

impl Fleet {
    /// Opens the sample fleet in a directory.
    ///
    /// # Errors
    /// The directory does not exist, or is not a sample fleet.
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
            messages: Vec::new(),
        })
    }
}
