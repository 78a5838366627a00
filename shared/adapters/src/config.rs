//! Reads the configuration from the environment and wires the adapters of a process.

use crate::aws::{self, AwsLogins, HubSettingsCache, S3Blobs, SecretsManager, SqsQueue};
use crate::buckets::HttpBuckets;
use crate::charts::HttpCharts;
use crate::clouds::{AzureLogins, CloudHosts, GoogleLogins};
use crate::cluster::KubeClusters;
use crate::compute::Threads;
use crate::git::{GitHub, GitRouter, GitServers, Hosts, LocalGit};
use crate::key_services::HttpKeyServices;
use crate::local::{DirectoryBlobs, LocalQueue, LocalSecrets, OutboxQueue, SystemClock};
use crate::notifications::Notifications;
use crate::offline::Offline;
use driftless_kernel::functions;
use driftless_kernel::ports::{
    Blobs, Clouds, Compute, Ports, PullRequests, Queue, Result, Secret, SecretStore,
};
use driftless_memory::MemoryBlobs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration of the functions on AWS.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the bucket, from `DRIFTLESS_BUCKET`.
    pub bucket: String,
    /// The URL of the queue, from `DRIFTLESS_QUEUE_URL`.
    pub queue_url: String,
    /// The URL of the queue for isolated steps, from `DRIFTLESS_ISOLATED_QUEUE_URL`. Without one,
    /// they go to the ordinary queue.
    pub isolated_queue_url: Option<String>,
    /// The URL of the queue for the sweeps of hubs, from `DRIFTLESS_SWEEP_QUEUE_URL`. Without one,
    /// the function that the timer starts sweeps all hubs itself.
    pub sweep_queue_url: Option<String>,
    /// The URL of the queue for the plans of pull requests, from `DRIFTLESS_PLAN_QUEUE_URL`.
    /// Without one, no plans are made.
    pub plan_queue_url: Option<String>,
    /// The prefix of the names of secrets, from `DRIFTLESS_SECRETS_PREFIX`; the default is
    /// `driftless/`.
    pub secrets_prefix: String,
    /// The hosts with GitHub's API: `DRIFTLESS_GITHUB_API` replaces the public API of github.com,
    /// `DRIFTLESS_GITHUB_HOSTS` adds hosts (`git.acme.example=https://git.acme.example/api/v3`,
    /// separated by commas).
    pub hosts: Hosts,
    /// True if the bucket is put into the path, because `AWS_ENDPOINT_URL` or `AWS_ENDPOINT_URL_S3`
    /// sets an endpoint.
    pub path_style: bool,
}

/// An error of the configuration in the environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Required variables are not set.
    #[error("not set in the environment: {}", .0.join(", "))]
    Missing(Vec<&'static str>),
    /// An entry of `DRIFTLESS_GITHUB_HOSTS` is not valid.
    #[error("DRIFTLESS_GITHUB_HOSTS is not a list of HOST=URL: '{0}'")]
    Hosts(String),
}

impl Config {
    /// Reads the configuration from the environment of the process.
    ///
    /// # Errors
    /// Fails with all missing variables in one error.
    pub fn from_env() -> std::result::Result<Self, ConfigError> {
        Self::from(|name| std::env::var(name).ok())
    }

    /// Reads the configuration from the variables that `get` returns; an empty one counts as
    /// absent.
    ///
    /// # Errors
    /// Fails with all missing variables in one error.
    pub fn from(get: impl Fn(&str) -> Option<String>) -> std::result::Result<Self, ConfigError> {
        let get = |name| get(name).filter(|value| !value.is_empty());
        let mut missing = Vec::new();
        let mut needed = |name: &'static str| {
            get(name).unwrap_or_else(|| {
                missing.push(name);
                String::new()
            })
        };
        let (bucket, queue_url) = (needed("DRIFTLESS_BUCKET"), needed("DRIFTLESS_QUEUE_URL"));
        if !missing.is_empty() {
            return Err(ConfigError::Missing(missing));
        }
        let hosts = hosts(
            get("DRIFTLESS_GITHUB_API").as_deref(),
            get("DRIFTLESS_GITHUB_HOSTS").as_deref(),
        )?;
        Ok(Self {
            bucket,
            queue_url,
            isolated_queue_url: get("DRIFTLESS_ISOLATED_QUEUE_URL"),
            sweep_queue_url: get("DRIFTLESS_SWEEP_QUEUE_URL"),
            plan_queue_url: get("DRIFTLESS_PLAN_QUEUE_URL"),
            secrets_prefix: get("DRIFTLESS_SECRETS_PREFIX")
                .unwrap_or_else(|| "driftless/".to_owned()),
            hosts,
            path_style: get("AWS_ENDPOINT_URL")
                .or_else(|| get("AWS_ENDPOINT_URL_S3"))
                .is_some(),
        })
    }
}

/// Parses the hosts with GitHub's API, from the URL of github.com's API and a list of `HOST=URL`.
///
/// # Errors
/// Fails if an entry has another form.
pub fn hosts(
    github_api: Option<&str>,
    list: Option<&str>,
) -> std::result::Result<Hosts, ConfigError> {
    let mut hosts = Hosts::default();
    if let Some(api) = github_api {
        hosts = hosts.with("github.com", api);
    }
    for entry in list
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (host, api) = entry
            .split_once('=')
            .ok_or_else(|| ConfigError::Hosts(entry.to_owned()))?;
        hosts = hosts.with(host, api);
    }
    Ok(hosts)
}

/// Returns the ports of a function on AWS, with the environment's region and credentials.
///
/// # Errors
/// Fails if the URL of a GitHub API is not valid.
pub async fn aws_ports(config: &Config) -> Result<Ports> {
    aws_ports_with(config, &aws::settings().await)
}

/// Returns the ports of a function on AWS, with loaded settings.
///
/// # Errors
/// Fails if the URL of a GitHub API is not valid.
pub fn aws_ports_with(config: &Config, settings: &aws::Settings) -> Result<Ports> {
    let secrets: Arc<dyn SecretStore> = Arc::new(SecretsManager::new(
        settings,
        config.secrets_prefix.as_str(),
    ));
    let compute: Arc<dyn Compute> = Arc::new(Threads::default());
    let github = GitHub::new(config.hosts.clone(), secrets.clone())?.with_compute(compute.clone());
    let mut queue = SqsQueue::new(settings, config.queue_url.as_str());
    if let Some(url) = &config.isolated_queue_url {
        queue = queue.with_isolated(url.as_str());
    }
    if let Some(url) = &config.sweep_queue_url {
        queue = queue.with_sweeps(url.as_str());
    }
    if let Some(url) = &config.plan_queue_url {
        queue = queue.with_plans(url.as_str());
    }
    let bucket = config.bucket.as_str();
    let own = OwnPorts {
        git: GitRouter::new().with(github).with(GitServers::new()),
        blobs: Arc::new(S3Blobs::new(settings, bucket, config.path_style)),
        queue: Arc::new(queue),
        secrets,
        aws: AwsLogins::with_role(settings),
        compute,
    };
    Ok(own.with_network())
}

/// The ports in which a function on AWS and a process on one machine differ.
struct OwnPorts {
    git: GitRouter,
    blobs: Arc<dyn Blobs>,
    queue: Arc<dyn Queue>,
    secrets: Arc<dyn SecretStore>,
    aws: AwsLogins,
    compute: Arc<dyn Compute>,
}

impl OwnPorts {
    /// Returns all ports: these, and those that reach the network.
    fn with_network(self) -> Ports {
        let (clouds, buckets) = clouds(self.aws);
        Ports {
            git: Arc::new(self.git),
            charts: Arc::new(HttpCharts::new()),
            buckets: Arc::new(buckets),
            blobs: self.blobs,
            queue: self.queue,
            secrets: self.secrets,
            clusters: Arc::new(KubeClusters::new()),
            clouds,
            notifiers: Arc::new(Notifications::default()),
            clock: Arc::new(SystemClock),
            compute: self.compute,
            files: Arc::default(),
            read: Arc::default(),
            watches: Arc::default(),
            throttle: Arc::default(),
        }
    }
}

/// Returns the ports to clouds and buckets, which share their logins.
fn clouds(aws: AwsLogins) -> (Clouds, HttpBuckets) {
    let hosts = CloudHosts::from_env();
    let azure = AzureLogins::new(hosts.clone());
    let google = GoogleLogins::new(hosts);
    let key_services = HttpKeyServices::new(aws.clone(), azure.clone(), google.clone());
    let buckets = HttpBuckets::new(aws.clone(), azure.clone(), google.clone());
    let clouds = Clouds {
        aws: Arc::new(aws),
        azure: Arc::new(azure),
        google: Arc::new(google),
        key_services: Arc::new(key_services),
    };
    (clouds, buckets)
}

/// Returns the ports of a function, according to its environment.
///
/// On AWS it reads [`Config`]. A single function on a developer's machine has `DRIFTLESS_STORE`
/// instead of a bucket and a queue: a directory with `store/` in place of the bucket, `secrets/`
/// with a file for each secret (`secrets/github/webhook`, `secrets/hubs/staging`), and `queue/`, to
/// which [`OutboxQueue`] writes the queued messages.
///
/// # Errors
/// Fails if a variable is missing or not valid, or if a directory cannot be used.
pub async fn function_ports(
    name: &'static str,
) -> std::result::Result<Ports, Box<dyn std::error::Error + Send + Sync>> {
    let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let ports = match get("DRIFTLESS_STORE") {
        None => {
            let ports = aws_ports(&Config::from_env()?).await?;
            Ports {
                blobs: Arc::new(HubSettingsCache::new(ports.blobs.clone())),
                ..ports
            }
        }
        Some(directory) => {
            let hosts = hosts(
                get("DRIFTLESS_GITHUB_API").as_deref(),
                get("DRIFTLESS_GITHUB_HOSTS").as_deref(),
            )?;
            directory_ports(&PathBuf::from(directory), hosts)?
        }
    };
    // In the background, so that it does not delay the first event.
    let blobs = ports.blobs.clone();
    tokio::spawn(async move {
        if let Err(error) = functions::register(blobs.as_ref(), name).await {
            tracing::warn!("cannot write the version of this function: {error}");
        }
    });
    Ok(ports)
}

/// Returns the ports of a function as [`function_ports`] does, and the pull requests of the hosts
/// with GitHub's API, read and written with the installation's own login.
///
/// # Errors
/// Those of [`function_ports`].
pub async fn function_ports_with_pull_requests(
    name: &'static str,
) -> std::result::Result<(Ports, Arc<dyn PullRequests>), Box<dyn std::error::Error + Send + Sync>> {
    let ports = function_ports(name).await?;
    let get = |name: &str| std::env::var(name).ok();
    let hosts = hosts(
        get("DRIFTLESS_GITHUB_API")
            .as_deref()
            .filter(|api| !api.is_empty()),
        get("DRIFTLESS_GITHUB_HOSTS").as_deref(),
    )?;
    let github = GitHub::new(hosts, ports.secrets.clone())?;
    Ok((ports, Arc::new(github)))
}

fn directory_ports(directory: &Path, hosts: Hosts) -> Result<Ports> {
    let options = LocalOptions {
        secrets: Some(directory.join("secrets")),
        hosts,
        ..LocalOptions::new(directory.join("store"))
    };
    let (ports, _) = local_ports(options)?;
    Ok(Ports {
        queue: Arc::new(OutboxQueue::open(&directory.join("queue"))?),
        ..ports
    })
}

/// The options of a process on one machine.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// The directory that replaces the bucket.
    pub store: PathBuf,
    /// The directory with a file for each secret, if there is one.
    pub secrets: Option<PathBuf>,
    /// The secrets by name; they take precedence over those of the directory.
    pub given_secrets: BTreeMap<String, Secret>,
    /// The directories of Git repositories that may be read, as
    /// [`driftless_kernel::repository::directory_url`] names them.
    pub git_repositories: Vec<PathBuf>,
    /// The hosts with GitHub's API.
    pub hosts: Hosts,
    /// The number of requests that may wait in the queue.
    pub queue_capacity: usize,
}

impl LocalOptions {
    /// Creates options with only a store: public repositories of github.com, no secrets.
    pub fn new(store: impl Into<PathBuf>) -> Self {
        Self {
            store: store.into(),
            secrets: None,
            given_secrets: BTreeMap::new(),
            git_repositories: Vec::new(),
            hosts: Hosts::default(),
            queue_capacity: 100_000,
        }
    }
}

/// Returns the ports of a command that only works on clusters: repositories, charts and buckets are
/// not reached, and nothing is stored. Identities of remote clusters are those of the environment.
pub fn cluster_ports() -> Ports {
    let (clouds, _) = clouds(AwsLogins::new());
    Ports {
        git: Arc::new(GitRouter::new()),
        charts: Arc::new(Offline),
        buckets: Arc::new(Offline),
        blobs: Arc::new(MemoryBlobs::default()),
        queue: Arc::new(LocalQueue::new(1)),
        secrets: Arc::new(LocalSecrets::new(BTreeMap::new(), None)),
        clusters: Arc::new(KubeClusters::new()),
        clouds,
        notifiers: Arc::new(Offline),
        clock: Arc::new(SystemClock),
        compute: Arc::new(Threads::default()),
        files: Arc::default(),
        read: Arc::default(),
        watches: Arc::default(),
        throttle: Arc::default(),
    }
}

/// Returns the ports of a process on one machine, and the queue for its workers.
///
/// # Errors
/// Fails if a directory cannot be used, or if the URL of a GitHub API is not valid.
pub fn local_ports(options: LocalOptions) -> Result<(Ports, LocalQueue)> {
    let queue = LocalQueue::new(options.queue_capacity);
    let secrets: Arc<dyn SecretStore> =
        Arc::new(LocalSecrets::new(options.given_secrets, options.secrets));
    let compute: Arc<dyn Compute> = Arc::new(Threads::default());
    let github = GitHub::new(options.hosts, secrets.clone())?.with_compute(compute.clone());
    let mut git = GitRouter::new().with(github).with(GitServers::new());
    if !options.git_repositories.is_empty() {
        git = git.with(LocalGit::new(options.git_repositories)?);
    }
    let own = OwnPorts {
        git,
        blobs: Arc::new(DirectoryBlobs::open(&options.store)?),
        queue: Arc::new(queue.clone()),
        secrets,
        aws: AwsLogins::new(),
        compute,
    };
    Ok((own.with_network(), queue))
}

/// Returns the ports of a process that shares its bucket and its queue with others, which are not
/// on AWS.
///
/// # Errors
/// Fails if the URL of a GitHub API is not valid.
pub fn shared_ports(
    blobs: Arc<dyn Blobs>,
    queue: Arc<dyn Queue>,
    secrets: Arc<dyn SecretStore>,
    hosts: Hosts,
) -> Result<Ports> {
    let compute: Arc<dyn Compute> = Arc::new(Threads::default());
    let github = GitHub::new(hosts, secrets.clone())?.with_compute(compute.clone());
    let own = OwnPorts {
        git: GitRouter::new().with(github).with(GitServers::new()),
        blobs,
        queue,
        secrets,
        aws: AwsLogins::new(),
        compute,
    };
    Ok(own.with_network())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> std::result::Result<Config, ConfigError> {
        Config::from(|name| {
            vars.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn one_error_lists_all_that_is_missing() {
        let error = read(&[("DRIFTLESS_BUCKET", "")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not set in the environment: DRIFTLESS_BUCKET, DRIFTLESS_QUEUE_URL"
        );
    }

    #[test]
    fn defaults_and_hosts() {
        let needed = [("DRIFTLESS_BUCKET", "b"), ("DRIFTLESS_QUEUE_URL", "q")];
        let config = read(&needed).unwrap();
        assert!(config.secrets_prefix == "driftless/" && !config.path_style);
        let more = [
            ("AWS_ENDPOINT_URL", "http://x"),
            (
                "DRIFTLESS_GITHUB_HOSTS",
                "git.a=https://git.a/api/v3, git.b=http://b/",
            ),
        ];
        let config = read(&[needed.as_slice(), &more].concat()).unwrap();
        assert!(config.path_style);
        let shown = format!("{:?}", config.hosts);
        assert!(
            shown.contains("\"git.b\": \"http://b\"") && shown.contains("api.github.com"),
            "{shown}"
        );
        assert!(read(&[needed.as_slice(), &[("DRIFTLESS_GITHUB_HOSTS", "x")]].concat()).is_err());
    }

    #[tokio::test]
    async fn a_directory_is_a_whole_installation() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("secrets/github")).unwrap();
        std::fs::write(directory.path().join("secrets/github/webhook"), "s").unwrap();
        let ports = directory_ports(directory.path(), Hosts::default()).unwrap();
        let secret = ports.secrets.secret("github/webhook").await.unwrap();
        assert_eq!(secret.unwrap().expose(), b"s");
        assert!(ports.blobs.url("a").contains("/store/"));
        let kind = driftless_flux::FluxKind::Kustomization;
        let object = driftless_flux::ObjectRef::new(kind, "a", "b");
        let cause = driftless_kernel::ports::Cause::Timer;
        let request = driftless_kernel::ports::Request::new("h", object, cause);
        ports
            .queue
            .send(vec![(request, std::time::Duration::ZERO)])
            .await
            .unwrap();
        let queued = std::fs::read_dir(directory.path().join("queue")).unwrap();
        assert_eq!(queued.count(), 1);
    }
}
