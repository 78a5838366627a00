//! The flags about the clusters of a fleet that is applied in this process: what they have, what is
//! downloaded for them, and how their API servers are set.

use crate::build::remote;
use crate::error::Error;
use crate::fleet_options::FleetOptions;
use clap::ValueEnum;
use driftless_fleet::Fleet;
use driftless_fleet::check::gates::{self, Gate, Gates};
use driftless_fleet::check::{self, ChartHosts, GivenObjects, apiserver};
use driftless_flux::Invalid;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Options about the clusters of a fleet.
#[derive(clap::Args)]
pub struct ClusterOptions {
    /// Files, or directories of manifests, with ConfigMaps, Secrets and definitions that the
    /// clusters have and Git does not; may be given several times. Each hub gets them, by default
    /// in the namespace flux-system
    #[arg(long = "with", value_name = "FILE|DIR")]
    supply: Vec<PathBuf>,
    /// Fetch the remote bases and files that kustomizations reference
    #[arg(long)]
    allow_remote_bases: bool,
    /// Download the charts and OCI artifacts that no --source replaces. The value `all` also
    /// permits hosts with loopback and link-local addresses
    #[arg(long, value_enum, value_name = "ADDRESSES", num_args = 0..=1, require_equals = true, default_missing_value = "remote")]
    allow_charts: Option<Addresses>,
    /// API of a GitHub Enterprise host, for remote bases: HOST=URL
    #[arg(long, value_name = "HOST=URL", requires = "allow_remote_bases", value_parser = remote::host)]
    github_api: Option<(String, String)>,
    /// Feature gates of Flux's controllers, with the values that the controllers have
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = gates::parse)]
    feature_gates: Vec<Gate>,
    /// Feature gates of the clusters' API servers, in addition to those in Talos, k3s or kubeadm
    /// configurations of the repository
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = apiserver::parse)]
    api_feature_gates: Vec<apiserver::Setting>,
    /// API versions that the clusters serve (runtime-config of the API server), in addition to
    /// those in such configurations
    #[arg(long, value_name = "VERSION=BOOL", value_delimiter = ',', value_parser = apiserver::parse)]
    runtime_config: Vec<apiserver::Setting>,
    /// Kubernetes version that clusters report and charts see
    #[arg(long, value_name = "VERSION", value_parser = kube_version)]
    kube_version: Option<[u64; 3]>,
}

/// The addresses that `--allow-charts` permits.
#[derive(Clone, Copy, ValueEnum)]
enum Addresses {
    /// Public and private addresses
    Remote,
    /// Also loopback and link-local addresses
    All,
}

impl From<Addresses> for ChartHosts {
    fn from(addresses: Addresses) -> Self {
        match addresses {
            Addresses::Remote => Self::Remote,
            Addresses::All => Self::All,
        }
    }
}

impl ClusterOptions {
    /// Opens the fleet in a directory, with these settings.
    ///
    /// # Errors
    /// The directory does not exist, a key cannot be read, or no hub was found.
    pub async fn open(&self, fleet: &FleetOptions, dir: &Path) -> Result<Fleet, Error> {
        self.set(fleet.open(dir, Duration::ZERO).await?)
    }

    /// Sets these settings of a fleet.
    ///
    /// # Errors
    /// The address of `--github-api` is not valid.
    pub fn set(&self, mut fleet: Fleet) -> Result<Fleet, Error> {
        fleet.kube_version = self.kube_version;
        Gates::new(&self.feature_gates).apply(&mut fleet.rules);
        // Remote bases of `--source` are built in any case.
        fleet.rules.allow_remote_bases = true;
        if self.allow_remote_bases {
            let github = remote::git(self.github_api.as_ref())?;
            fleet.git = fleet.git.with_bases(Arc::new(github));
        }
        Ok(fleet)
    }

    /// Returns the options of a check.
    ///
    /// # Errors
    /// A file of `--with` cannot be read.
    pub fn check(&self, allow_unserved: bool) -> Result<check::Options, Error> {
        Ok(check::Options {
            given_objects: GivenObjects::read(&self.supply)?,
            allow_files: self.allow_remote_bases,
            charts: self.allow_charts.map(ChartHosts::from),
            api_feature_gates: self.api_feature_gates.clone(),
            runtime_config: self.runtime_config.clone(),
            external_artifacts: Gates::new(&self.feature_gates).external_artifacts(),
            allow_unserved,
        })
    }
}

/// Parses `1.33`, `v1.33.2`, or such a version with a suffix.
fn kube_version(text: &str) -> Result<[u64; 3], Invalid> {
    let wrong = || {
        let expected = "expected a version such as 1.33 or v1.33.2";
        Invalid::from(format!("'{text}' is not a Kubernetes version: {expected}"))
    };
    let plain = text.strip_prefix('v').unwrap_or(text);
    let plain = plain.split(['-', '+']).next().unwrap_or_default();
    let parts: Result<Vec<u64>, _> = plain.split('.').map(str::parse).collect();
    match parts.map_err(|_| wrong())?[..] {
        [major, minor] => Ok([major, minor, 0]),
        [major, minor, patch] => Ok([major, minor, patch]),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kubernetes() {
        for (text, version) in [
            ("1.33", Some([1, 33, 0])),
            ("v1.31.2", Some([1, 31, 2])),
            ("v1.30.4-eks-1", Some([1, 30, 4])),
            ("1", None),
            ("latest", None),
        ] {
            assert_eq!(kube_version(text).ok(), version, "{text}");
        }
    }
}
