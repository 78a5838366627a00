//! `driftless bootstrap`: makes a cluster a hub of an installation on AWS or on NATS JetStream, and
//! sets up its fleet repository.

mod flux_flags;
mod git;
mod github;
mod hosted;
mod on_nats;
mod restore;
mod steps;

use crate::error::{EXIT_CODES, Error};
use crate::hub::{Connection, access, load};
use crate::nats::NatsFlags;
use crate::root::{self, RootFlags, follow, install};
use crate::term;
use clap::Subcommand;
use driftless_adapters::aws::{self, SecretsManager};
use driftless_adapters::config::{self, Config};
use driftless_flux::Invalid;
use driftless_kernel::hub::{self, CapsuleProxy, Hub, RegistrationResult, Settings};
use driftless_kernel::ports::{Ports, Secret};
use driftless_kernel::repository::{self, Grant};
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  driftless bootstrap --name staging --repository acme/fleet --path clusters/staging
  driftless bootstrap --name staging --kubeconfig hub.yaml   # a hub that already has its sources
  driftless bootstrap github --owner acme --repository fleet --path clusters/staging
  driftless bootstrap git --url ssh://git@git.example.com/fleet --path clusters/staging
  driftless bootstrap --nats nats://127.0.0.1:4222 --secrets secrets --name staging \\
    --repository acme/fleet --path clusters/staging    # a hub for driftless worker

Environment:
  DRIFTLESS_BUCKET, DRIFTLESS_QUEUE_URL  outputs of the stack in infra/template.yaml
  DRIFTLESS_SECRETS_PREFIX               the stack's SecretsPrefix, driftless/ when absent
  AWS_PROFILE, AWS_REGION and so on      as for every AWS tool

The identity on AWS needs s3:ListBucket, s3:GetObject and s3:PutObject on hubs/*, s3:ListBucket and s3:GetObject on versions/*, and secretsmanager:GetSecretValue, PutSecretValue \
and CreateSecret on PREFIXhubs/*. --secret-manager of add-remote needs the last two on PREFIXremotes/*.

The kubeconfig goes into Secrets Manager under PREFIXhubs/NAME, with a copy of the hub's settings for `driftless bootstrap restore`; with --nats, \
into the file hubs/NAME of --secrets, and nothing on AWS is read. It must not need a program: use a token or a certificate.";

/// Register a hub with an installation on AWS or NATS JetStream, and install what it lacks
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    host: Option<Host>,
    #[command(flatten)]
    connection: Connection,
    /// The hub's name
    #[arg(long, required = true)]
    name: Option<String>,
    #[command(flatten)]
    rules: Rules,
    /// The fleet repository: OWNER/NAME of GitHub, or a URL. It is read with the installation's own
    /// GitHub App or token. Without this flag the sources that the hub already has are served
    #[arg(long, value_name = "REPOSITORY", value_parser = root::repository)]
    repository: Option<String>,
    #[command(flatten)]
    root: RootFlags,
    #[command(flatten)]
    nats: NatsFlags,
    /// The directory with the secrets of driftless worker, for an installation on NATS
    #[arg(long, value_name = "DIR", requires = "nats")]
    secrets: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Host {
    Git(Box<git::Args>),
    Github(Box<github::Args>),
    Gitlab(Box<hosted::GitLab>),
    Gitea(Box<hosted::Gitea>),
    Restore(restore::Args),
}

/// The flags for the rules of a hub.
#[derive(clap::Args)]
pub struct Rules {
    /// The service account of objects that name none
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// The service account that opens a remote cluster where the ConfigMap of
    /// spec.kubeConfig.configMapRef names none
    #[arg(long, value_name = "NAME")]
    default_kubeconfig_service_account: Option<String>,
    /// The service account whose cloud login a source takes where it names none
    #[arg(long, value_name = "NAME")]
    default_source_service_account: Option<String>,
    /// The service account whose login at a key service a Kustomization takes where its decryption
    /// names none
    #[arg(long, value_name = "NAME")]
    default_decryption_service_account: Option<String>,
    /// Refuse references to other namespaces
    #[arg(long)]
    no_cross_namespace_refs: bool,
    /// Also apply the controllers of a gotk-components.yaml
    #[arg(long)]
    keep_controllers: bool,
    /// Accept insecure-skip-tls-verify in kubeconfigs
    #[arg(long)]
    allow_insecure_kubeconfigs: bool,
    /// Accept remote clusters at loopback and link-local addresses
    #[arg(long)]
    allow_local_clusters: bool,
    /// Fetch the remote bases and files that kustomizations name
    #[arg(long)]
    allow_remote_bases: bool,
    /// NAMESPACE=OWNER/NAME (or NAMESPACE=HOST/OWNER/NAME) of a Git repository that this namespace
    /// may read with the installation's own GitHub App or token; * matches any string in NAMESPACE,
    /// OWNER and NAME, as in 'team-a=acme/*'
    #[arg(long, value_name = "REPOSITORY", value_parser = grant)]
    allow_installation_repository: Vec<String>,
    /// NAMESPACE/NAME of a bucket that this namespace may read with the installation's own AWS role
    #[arg(long, value_name = "BUCKET")]
    allow_role_bucket: Vec<String>,
    /// NAMESPACE/ARN of an EKS cluster that this namespace may work on with the installation's own
    /// AWS role
    #[arg(long, value_name = "CLUSTER")]
    allow_role_cluster: Vec<String>,
    /// NAMESPACE/HOST/REPOSITORY in ECR that this namespace may read, with all below, with the
    /// installation's own AWS role
    #[arg(long, value_name = "REPOSITORY")]
    allow_role_registry: Vec<String>,
    /// NAMESPACE/ARN of a key of AWS KMS that Kustomizations of this namespace may decrypt with by
    /// the installation's own AWS role
    #[arg(long, value_name = "KEY")]
    allow_role_key: Vec<String>,
    /// A trusted_root.json for signatures without keys whose source names none, instead of the
    /// public Sigstore's built-in one
    #[arg(long, value_name = "FILE", value_parser = trusted_root)]
    sigstore_root: Option<String>,
    /// The Capsule proxy as driftless reaches it: owners of Capsule's Tenants get kubeconfigs that
    /// lead there, as capsule-addon-fluxcd makes them
    #[arg(long, value_name = "URL", value_parser = proxy)]
    capsule_proxy: Option<String>,
    /// The proxy's certificate authority, PEM; the system's authorities when absent
    #[arg(long, value_name = "FILE", requires = "capsule_proxy", value_parser = authority)]
    capsule_proxy_ca: Option<String>,
}

impl Rules {
    /// Returns the settings for the registration of a hub with this fleet repository.
    pub fn settings(&self, name: &str, root: Option<&str>) -> Settings {
        Settings {
            name: name.to_owned(),
            no_cross_namespace_refs: self.no_cross_namespace_refs,
            default_service_account: self.default_service_account.clone(),
            default_kubeconfig_service_account: self.default_kubeconfig_service_account.clone(),
            default_source_service_account: self.default_source_service_account.clone(),
            default_decryption_service_account: self.default_decryption_service_account.clone(),
            keep_controllers: self.keep_controllers,
            allow_insecure_kubeconfigs: self.allow_insecure_kubeconfigs,
            allow_local_clusters: self.allow_local_clusters,
            allow_remote_bases: self.allow_remote_bases,
            installation_repositories: self.allow_installation_repository.clone(),
            role_buckets: self.allow_role_bucket.clone(),
            role_clusters: self.allow_role_cluster.clone(),
            role_registries: self.allow_role_registry.clone(),
            role_keys: self.allow_role_key.clone(),
            sigstore_root: self.sigstore_root.clone(),
            capsule_proxy: self.capsule_proxy.as_ref().map(|url| CapsuleProxy {
                url: url.clone(),
                certificate_authority: self.capsule_proxy_ca.clone(),
            }),
            root_repository: root.map(str::to_owned),
            // The settings of Flux's feature gates have no flags.
            ..Settings::default()
        }
    }
}

/// Checks that a grant can be parsed, and returns it unchanged.
fn grant(text: &str) -> Result<String, Invalid> {
    Grant::parse(text)?;
    Ok(text.to_owned())
}

/// Parses the URL of a proxy. Only https, because the proxy receives tokens.
fn proxy(text: &str) -> Result<String, Invalid> {
    match text.strip_prefix("https://") {
        Some(host) if !host.is_empty() && !host.contains(['@', ' ', '"']) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err("expected https://HOST or https://HOST:PORT".into()),
    }
}

/// Reads a file with a certificate authority.
fn authority(file: &str) -> Result<String, Invalid> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    match text.contains("-----BEGIN CERTIFICATE-----") {
        true => Ok(text),
        false => Err("the file has no PEM certificate".into()),
    }
}

/// Reads a trusted root, and checks that it can be used.
fn trusted_root(file: &str) -> Result<String, Invalid> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    match driftless_verify::check_trusted_root(text.as_bytes()) {
        Ok(()) => Ok(text),
        Err(problem) => Err(format!("the file {problem}").into()),
    }
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Error> {
    let name = match (&args.host, &args.name) {
        (Some(Host::Git(git)), _) => return git.run(&args.connection).await,
        (Some(Host::Github(github)), _) => return github.run(&args.connection).await,
        (Some(Host::Gitlab(gitlab)), _) => return gitlab.run(&args.connection).await,
        (Some(Host::Gitea(gitea)), _) => return gitea.run(&args.connection).await,
        (Some(Host::Restore(restore)), _) => return restore.run().await,
        (None, Some(name)) => name.clone(),
        (None, None) => return Err(Error::usage("--name is required")),
    };
    args.register(&name).await
}

impl Args {
    async fn register(self, name: &str) -> Result<(), Error> {
        let is_directory = |url: &String| repository::directory(url).is_some();
        if self.repository.as_ref().is_some_and(is_directory) {
            let readers = match self.nats.is_given() {
                true => "workers",
                false => "the functions on AWS",
            };
            return Err(Error::usage(format!(
                "--repository: {readers} cannot read a local directory"
            ))
            .next("give OWNER/NAME, or use driftless serve"));
        }
        let mut settings = self.rules.settings(name, None);
        if let Some(url) = &self.repository {
            settings.set_root(&self.root.name, url);
        }
        let hub = match self.nats.is_given() {
            true => {
                let installation = on_nats::Installation::new(&self.nats, self.secrets.as_deref())?;
                installation.register(&self.connection, &settings).await?
            }
            false => {
                let installation = Installation::from_env()?;
                installation.register(&self.connection, &settings).await?
            }
        };
        if let Some(url) = self.repository {
            let root = self.root.root(url);
            follow(hub.cluster.as_ref(), &root, root::OTHER_ROOT).await?;
        }
        report_registration(&hub);
        Ok(())
    }
}

fn report_registration(hub: &Hub) {
    term::success(&format!(
        "hub {} at {} is registered; the timer reconciles it within a minute",
        hub.settings.name, hub.access.server
    ));
}

/// The installation on AWS that the environment names.
pub struct Installation(Config);

impl Installation {
    /// Reads the names of the bucket and the queue.
    ///
    /// # Errors
    /// Fails if a variable is missing.
    pub fn from_env() -> Result<Self, Error> {
        let config = Config::from_env().map_err(|error| {
            Error::usage(error)
                .next("take them from the outputs of the stack (infra/template.yaml)")
        })?;
        Ok(Self(config))
    }

    /// Returns a client for the secret manager.
    pub async fn secrets(&self) -> SecretsManager {
        SecretsManager::new(&aws::settings().await, self.0.secrets_prefix.as_str())
    }

    /// Stores the kubeconfig, registers the hub and installs what it lacks.
    async fn register(&self, connection: &Connection, settings: &Settings) -> Result<Hub, Error> {
        let kubeconfig = load(
            connection.kubeconfig.as_deref(),
            connection.context.as_deref(),
        )?;
        // Check first, so that a kubeconfig that the functions cannot use is not stored.
        access(&kubeconfig)?;
        let name = &settings.name;
        let ports = config::aws_ports(&self.0).await?;
        // Nothing is stored for a hub that the functions would refuse.
        check_hub(self.0.only_hub(&ports).await?.as_deref(), name)?;
        let store = async |secret: Secret| {
            let secrets = self.secrets().await;
            Ok(secrets.store(&format!("hubs/{name}"), &secret).await?)
        };
        register(&ports, settings, &kubeconfig, store).await
    }
}

/// Refuses a hub that the functions of an installation which serves `only` one would refuse.
fn check_hub(only: Option<&str>, name: &str) -> Result<(), Error> {
    match only.filter(|own| *own != name) {
        None => Ok(()),
        Some(own) => Err(Error::usage(hub::of_another_stack(own, name))
            .next("set DRIFTLESS_BUCKET and DRIFTLESS_QUEUE_URL to the outputs of that stack")),
    }
}

/// Stores the kubeconfig of a hub with a copy of its settings by `store`, registers the hub and
/// installs what it lacks.
async fn register(
    ports: &Ports,
    settings: &Settings,
    kubeconfig: &[u8],
    store: impl AsyncFnOnce(Secret) -> Result<(), Error>,
) -> Result<Hub, Error> {
    let name = &settings.name;
    let settings = hub::with_registered_roots(ports, settings).await?;
    let secret = hub::with_settings(kubeconfig, &settings);
    store(secret.map_err(|error| Error::new(error.to_string()))?).await?;
    if hub::register(ports, &settings).await? == RegistrationResult::Restored {
        term::failure(&format!(
            "hub {name}: the registration was damaged, and now has the settings of this command's flags"
        ));
    }
    let hub = hub::connect(ports, name).await?;
    install(&hub, ports).await?;
    Ok(hub)
}
