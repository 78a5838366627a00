//! Reads the configuration from the environment and wires the adapters of a process.

use crate::aws::{self, AwsLogins, HubSettingsCache, OneHub, S3Blobs, SecretsManager, SqsQueue};
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
use crate::trace::{self, TracedQueue};
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
    /// The one hub that the installation serves, from `DRIFTLESS_HUB`; all registered hubs without
    /// it.
    pub hub: Option<String>,
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
            hub: get("DRIFTLESS_HUB"),
            path_style: get("AWS_ENDPOINT_URL")
                .or_else(|| get("AWS_ENDPOINT_URL_S3"))
                .is_some(),
        })
    }

    /// Returns the name of the hub that the installation serves alone, from the environment or
    /// the record of its functions; `None` if it serves all hubs.
    ///
    /// # Errors
    /// The bucket's; `Unsupported` if newer functions have written the record.
    pub async fn only_hub(&self, ports: &Ports) -> Result<Option<String>> {
        match &self.hub {
            Some(name) => Ok(Some(name.clone())),
            None => functions::only_hub(ports.blobs.as_ref()).await,
        }
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
    let own = OwnPorts::on_aws(config, settings);
    let github = own.github(config.hosts.clone())?;
    let git = GitRouter::new().with(github).with(GitServers::new());
    Ok(own.with_network(git, AwsLogins::with_role(settings)))
}

/// The ports of an installation itself, in which a function on AWS and a process on one machine
/// differ.
struct OwnPorts {
    blobs: Arc<dyn Blobs>,
    queue: Arc<dyn Queue>,
    secrets: Arc<dyn SecretStore>,
    compute: Arc<dyn Compute>,
}

impl OwnPorts {
    /// Returns the bucket, the queues and the secrets of a stack.
    fn on_aws(config: &Config, settings: &aws::Settings) -> Self {
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
        let mut blobs: Arc<dyn Blobs> = Arc::new(S3Blobs::new(settings, bucket, config.path_style));
        if let Some(hub) = &config.hub {
            blobs = Arc::new(OneHub::new(blobs, hub.as_str()));
        }
        Self {
            blobs,
            queue: Arc::new(queue),
            secrets: Arc::new(SecretsManager::new(
                settings,
                config.secrets_prefix.as_str(),
            )),
            compute: Arc::new(Threads::default()),
        }
    }

    /// Returns the directories of a single function on a developer's machine.
    fn in_directory(directory: &Path) -> Result<Self> {
        let secrets = Some(directory.join("secrets"));
        Ok(Self {
            blobs: Arc::new(DirectoryBlobs::open(&directory.join("store"))?),
            queue: Arc::new(OutboxQueue::open(&directory.join("queue"))?),
            secrets: Arc::new(LocalSecrets::new(BTreeMap::new(), secrets)),
            compute: Arc::new(Threads::default()),
        })
    }

    /// Returns the client of the hosts with GitHub's API.
    fn github(&self, hosts: Hosts) -> Result<GitHub> {
        let github = GitHub::new(hosts, self.secrets.clone())?;
        Ok(github.with_compute(self.compute.clone()))
    }

    /// Returns all ports, with the repositories of all Git servers and without an identity on AWS.
    fn with_repositories(self, hosts: Hosts) -> Result<Ports> {
        let git = GitRouter::new()
            .with(self.github(hosts)?)
            .with(GitServers::new());
        Ok(self.with_network(git, AwsLogins::new()))
    }

    /// Returns all ports: these, and those that reach the network.
    fn with_network(self, git: GitRouter, aws: AwsLogins) -> Ports {
        let (clouds, buckets) = clouds(aws);
        Ports {
            git: Arc::new(git),
            buckets: Arc::new(buckets),
            clouds,
            notifiers: Arc::new(Notifications::default()),
            ..self.for_hubs()
        }
    }

    /// Returns these ports, the clusters, and downloads. The others refuse every request, so that a
    /// program has no code for them.
    fn for_hubs(self) -> Ports {
        Ports {
            git: Arc::new(GitRouter::new()),
            charts: Arc::new(HttpCharts::new()),
            buckets: Arc::new(Offline),
            blobs: self.blobs,
            queue: Arc::new(TracedQueue::new(self.queue)),
            secrets: self.secrets,
            clusters: Arc::new(KubeClusters::new()),
            clouds: Offline::clouds(),
            notifiers: Arc::new(Offline),
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
pub async fn function_ports(name: &'static str) -> std::result::Result<Ports, StartError> {
    let ports = match environment("DRIFTLESS_STORE") {
        None => aws_ports(&Config::from_env()?).await?,
        Some(directory) => directory_ports(&PathBuf::from(directory), hosts_of_environment()?)?,
    };
    Ok(of_function(name, ports))
}

/// Returns the ports of a function that works on hubs alone, according to its environment as
/// [`function_ports`] does: no Git repository, bucket of a source, cloud or receiver of
/// notifications can be reached.
///
/// # Errors
/// Those of [`function_ports`].
pub async fn hub_ports(name: &'static str) -> std::result::Result<Ports, StartError> {
    let own = match environment("DRIFTLESS_STORE") {
        None => OwnPorts::on_aws(&Config::from_env()?, &aws::settings().await),
        Some(directory) => OwnPorts::in_directory(Path::new(&directory))?,
    };
    Ok(of_function(name, own.for_hubs()))
}

/// An error that ends a function at its start.
type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Returns a variable of the environment, unless it is empty.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the hosts with GitHub's API that the environment names.
///
/// # Errors
/// Fails if a variable is not valid.
fn hosts_of_environment() -> std::result::Result<Hosts, ConfigError> {
    hosts(
        environment("DRIFTLESS_GITHUB_API").as_deref(),
        environment("DRIFTLESS_GITHUB_HOSTS").as_deref(),
    )
}

/// Returns the ports of a function that keeps the registrations of hubs while it is warm, and
/// records its version.
fn of_function(name: &'static str, ports: Ports) -> Ports {
    trace::read_headers_from(&ports.secrets);
    // In the background, so that it does not delay the first event.
    let blobs = ports.blobs.clone();
    tokio::spawn(async move {
        let hub = environment("DRIFTLESS_HUB");
        if let Err(error) = functions::register(blobs.as_ref(), name, hub.as_deref()).await {
            tracing::warn!("cannot write the version of this function: {error}");
        }
    });
    let is_local = environment("DRIFTLESS_STORE").is_some();
    let blobs: Arc<dyn Blobs> = match is_local {
        true => ports.blobs,
        false => Arc::new(HubSettingsCache::new(ports.blobs)),
    };
    Ports { blobs, ..ports }
}

/// Returns the ports of a function as [`function_ports`] does, and the pull requests of the hosts
/// with GitHub's API, read and written with the installation's own login.
///
/// # Errors
/// Those of [`function_ports`].
pub async fn function_ports_with_pull_requests(
    name: &'static str,
) -> std::result::Result<(Ports, Arc<dyn PullRequests>), StartError> {
    let ports = function_ports(name).await?;
    let github = GitHub::new(hosts_of_environment()?, ports.secrets.clone())?;
    Ok((ports, Arc::new(github)))
}

fn directory_ports(directory: &Path, hosts: Hosts) -> Result<Ports> {
    OwnPorts::in_directory(directory)?.with_repositories(hosts)
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
    let own = OwnPorts {
        blobs: Arc::new(DirectoryBlobs::open(&options.store)?),
        queue: Arc::new(queue.clone()),
        secrets: Arc::new(LocalSecrets::new(options.given_secrets, options.secrets)),
        compute: Arc::new(Threads::default()),
    };
    let mut git = GitRouter::new()
        .with(own.github(options.hosts)?)
        .with(GitServers::new());
    if !options.git_repositories.is_empty() {
        git = git.with(LocalGit::new(options.git_repositories)?);
    }
    Ok((own.with_network(git, AwsLogins::new()), queue))
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
    let own = OwnPorts {
        blobs,
        queue,
        secrets,
        compute: Arc::new(Threads::default()),
    };
    own.with_repositories(hosts)
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
        assert_eq!(config.hub, None);
        let more = [
            ("AWS_ENDPOINT_URL", "http://x"),
            ("DRIFTLESS_HUB", "staging"),
            (
                "DRIFTLESS_GITHUB_HOSTS",
                "git.a=https://git.a/api/v3, git.b=http://b/",
            ),
        ];
        let config = read(&[needed.as_slice(), &more].concat()).unwrap();
        assert!(config.path_style);
        assert_eq!(config.hub.as_deref(), Some("staging"));
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
