//! `driftless bootstrap github`: sets up a fleet repository on GitHub, and the cluster that follows
//! it.

use super::{Installation, Rules, report_registration};
use crate::create::{KNOWN_HOSTS, KeyPair, PUBLIC_KEY, known_hosts};
use crate::error::{EXIT_CODES, Error};
use crate::hub::{Connection, apply};
use crate::serve::startup::{WEBHOOK_SECRET, follow, report_changes};
use crate::term;
use clap::{ArgAction, ValueEnum};
use driftless_adapters::git::{NewFile, Outcome, RepositorySetup};
use driftless_adapters::local::SystemClock;
use driftless_core::bootstrap::{self, Root};
use driftless_core::credentials;
use driftless_core::flux::FLUX_SYSTEM;
use driftless_core::hub::Hub;
use driftless_core::ports::{Secret, SecretStore as _};
use driftless_core::webhook;
use driftless_kustomize::FILE_NAMES;
use serde_json::{Value, json};
use std::env;

const EXAMPLES: &str = "Examples:
  export GITHUB_TOKEN=...
  driftless bootstrap github --owner acme --repository fleet --path clusters/staging
  driftless bootstrap github --owner me --personal --repository fleet --path clusters/staging \\
    --auth token
  driftless bootstrap github --owner acme --repository fleet --path clusters/staging \\
    --name staging --webhook-url URL

The repository is created if it does not exist. PATH/flux-system/gotk-sync.yaml, with the GitRepository and the Kustomization that \
follow PATH, is committed to it, and a kustomization.yaml next to it unless there is one. The cluster gets Flux's definitions, the \
login and both objects. Running the command again changes only what is missing or different.

Without --name the cluster is served by `driftless serve`. With --name it becomes a hub of the installation on AWS: the environment \
and rights are those of `driftless bootstrap --help`.

Environment:
  GITHUB_TOKEN              a token that may administer the repository
  DRIFTLESS_WEBHOOK_SECRET  the secret of the webhook, without --name

A classic token needs the scope repo, a fine-grained one Administration, Contents and Webhooks (read and write). With --name the \
secret of the webhook is PREFIXgithub/webhook of Secrets Manager.";

/// The environment variable with the token.
const TOKEN: &str = "GITHUB_TOKEN";

/// Set up a fleet repository on GitHub, and the cluster that follows it
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The organisation or user that owns the repository
    #[arg(long, value_parser = plain)]
    owner: String,
    /// The repository's name
    #[arg(long, value_parser = plain)]
    repository: String,
    /// The branch
    #[arg(long, default_value = "main", value_parser = path)]
    branch: String,
    /// The directory in the repository that this cluster follows
    #[arg(long, default_value = "./", value_parser = path)]
    path: String,
    /// The owner is a user
    #[arg(long)]
    personal: bool,
    /// Create the repository as a private one
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true")]
    private: bool,
    /// The credentials with which the cluster reads the repository [default: deploy-key; with
    /// --name installation]
    #[arg(long, value_enum)]
    auth: Option<Auth>,
    /// Create the deploy key with write access
    #[arg(long)]
    read_write_key: bool,
    /// The URL to which GitHub delivers pushes: that of the webhook function, or that of
    /// `driftless serve` with /webhook
    #[arg(long, value_name = "URL", value_parser = webhook_url)]
    webhook_url: Option<String>,
    /// The host, for GitHub Enterprise
    #[arg(long, default_value = "github.com", value_parser = plain)]
    hostname: String,
    /// The URL of its API [default: that of github.com; api/v3 of another host]
    #[arg(long, value_name = "URL")]
    github_api: Option<String>,
    /// Register the cluster as a hub of this name with the installation on AWS
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    rules: Rules,
}

/// The credentials with which the cluster reads the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Auth {
    /// A new SSH key in the Secret flux-system
    DeployKey,
    /// GITHUB_TOKEN in the Secret flux-system
    Token,
    /// The installation's own GitHub App or token; no Secret
    Installation,
}

/// Parses the name of an owner, a repository or a host.
fn plain(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match !text.is_empty() && text.bytes().all(fits) && !text.starts_with('.') {
        true => Ok(text.to_owned()),
        false => Err("expected letters, digits, '-', '_' and '.'".to_owned()),
    }
}

/// Parses a path of directories, or a branch.
fn path(text: &str) -> Result<String, String> {
    let trimmed = text.trim_start_matches("./").trim_matches('/');
    let is_part = |part: &str| {
        plain(part).is_ok()
            || part.starts_with('.') && part != "." && part != ".." && plain(&part[1..]).is_ok()
    };
    match trimmed.is_empty() || trimmed.split('/').all(is_part) {
        true => Ok(trimmed.to_owned()),
        false => Err(
            "expected names of letters, digits, '-', '_' and '.', with '/' between them".to_owned(),
        ),
    }
}

fn webhook_url(text: &str) -> Result<String, String> {
    match text.starts_with("https://") || text.starts_with("http://") {
        true => Ok(text.to_owned()),
        false => Err("expected an https or http URL".to_owned()),
    }
}

impl Args {
    /// Creates the repository, commits the root's manifests, and installs and registers the
    /// cluster.
    ///
    /// # Errors
    /// Fails with the errors of GitHub, AWS and the cluster, and if the hub follows another root.
    pub async fn run(&self, connection: &Connection) -> Result<(), Error> {
        let token = variable(TOKEN).ok_or_else(|| {
            Error::usage(format!("{TOKEN} is not set"))
                .next("set it to a token that may administer the repository")
        })?;
        let auth = self.auth();
        if auth == Auth::Installation && self.name.is_none() {
            return Err(Error::usage("--auth installation needs --name")
                .next("without an installation on AWS use --auth deploy-key or token"));
        }
        if self.read_write_key && auth != Auth::DeployKey {
            return Err(Error::usage("--read-write-key is for --auth deploy-key"));
        }
        let installation = self
            .name
            .is_some()
            .then(Installation::from_env)
            .transpose()?;
        let webhook = self.webhook_secret(installation.as_ref()).await?;
        let setup = RepositorySetup::new(&self.api(), &token, &self.owner, &self.repository)?;
        let cluster = connection.connect().await?;

        term::action(&format!("connecting to {}", self.hostname));
        let shown = format!("{}/{}", self.owner, self.repository);
        let created = setup.create(self.personal, self.private).await?;
        report(created, &format!("repository {shown}"));
        let root = self.root(auth);
        self.commit(&setup, &root).await?;
        if let Some((url, secret)) = &webhook {
            report(setup.webhook(url, secret).await?, "webhook");
        }

        let hub = match (&installation, &self.name) {
            (Some(installation), Some(name)) => {
                let own = (auth == Auth::Installation).then_some(root.url.as_str());
                let settings = self.rules.settings(name, own);
                installation.register(connection, &settings).await?
            }
            _ => {
                let report = bootstrap::install(cluster.cluster.as_ref(), &SystemClock).await?;
                report_changes(&report);
                cluster
            }
        };
        self.login(&setup, &hub, auth, &token).await?;
        follow(hub.cluster.as_ref(), &root).await?;
        match &self.name {
            Some(_) => report_registration(&hub),
            None => term::success(&format!(
                "{} follows {shown}; `driftless serve` reconciles it",
                hub.access.server
            )),
        }
        Ok(())
    }

    fn auth(&self) -> Auth {
        self.auth.unwrap_or(match self.name {
            Some(_) => Auth::Installation,
            None => Auth::DeployKey,
        })
    }

    fn api(&self) -> String {
        match (&self.github_api, self.hostname.as_str()) {
            (Some(url), _) => url.clone(),
            (None, "github.com") => "https://api.github.com".to_owned(),
            (None, host) => format!("https://{host}/api/v3"),
        }
    }

    fn root(&self, auth: Auth) -> Root {
        let (host, owner, name) = (&self.hostname, &self.owner, &self.repository);
        Root {
            url: match auth {
                Auth::DeployKey => format!("ssh://git@{host}/{owner}/{name}"),
                Auth::Token | Auth::Installation => format!("https://{host}/{owner}/{name}"),
            },
            branch: self.branch.clone(),
            path: self.path.clone(),
            secret: (auth != Auth::Installation).then(|| FLUX_SYSTEM.to_owned()),
        }
    }

    /// Returns the webhook's URL and secret; `None` without `--webhook-url`.
    async fn webhook_secret(
        &self,
        installation: Option<&Installation>,
    ) -> Result<Option<(String, Secret)>, Error> {
        let Some(url) = &self.webhook_url else {
            return Ok(None);
        };
        let (secret, place) = match installation {
            Some(installation) => {
                let secrets = installation.secrets().await;
                let place = format!("the secret {} of Secrets Manager", webhook::SECRET);
                (secrets.secret(webhook::SECRET).await?, place)
            }
            None => (
                variable(WEBHOOK_SECRET),
                format!("the variable {WEBHOOK_SECRET}"),
            ),
        };
        match secret.filter(|secret| !secret.expose().is_empty()) {
            Some(secret) => Ok(Some((url.clone(), secret))),
            None => Err(Error::new(format!("{place} is not set"))
                .next("set it to a random string: GitHub signs deliveries with it")),
        }
    }

    /// Commits the manifests of the root that are missing.
    async fn commit(&self, setup: &RepositorySetup, root: &Root) -> Result<(), Error> {
        let directory = match self.path.as_str() {
            "" => FLUX_SYSTEM.to_owned(),
            path => format!("{path}/{FLUX_SYSTEM}"),
        };
        let list = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- gotk-sync.yaml\n";
        let files = [
            NewFile {
                path: format!("{directory}/gotk-sync.yaml"),
                text: root.manifest(),
                unless: Vec::new(),
            },
            // A kustomization that Flux wrote also lists its controllers: it is left unchanged.
            NewFile {
                path: format!("{directory}/kustomization.yaml"),
                text: list.to_owned(),
                unless: FILE_NAMES
                    .map(|name| format!("{directory}/{name}"))
                    .to_vec(),
            },
        ];
        let message = format!("Add the sync manifests of {directory}");
        match setup.commit(&self.branch, &files, &message).await? {
            Some(sha) => term::success(&format!(
                "committed {directory} to {} as {sha}",
                self.branch
            )),
            None => term::success(&format!("{directory} of {} is up to date", self.branch)),
        }
        Ok(())
    }

    /// Applies the Secret with which the cluster reads the repository; none with
    /// `--auth installation`.
    async fn login(
        &self,
        setup: &RepositorySetup,
        hub: &Hub,
        auth: Auth,
        token: &Secret,
    ) -> Result<(), Error> {
        let data = match auth {
            Auth::Installation => return Ok(()),
            Auth::Token => {
                json!({"username": "git", "password": token.expose_str().unwrap_or_default()})
            }
            Auth::DeployKey => self.deploy_key(setup, hub).await?,
        };
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": FLUX_SYSTEM, "namespace": FLUX_SYSTEM}, "stringData": data});
        apply(hub.cluster.as_ref(), secret, false).await?;
        term::success(&format!("applied Secret/{FLUX_SYSTEM}/{FLUX_SYSTEM}"));
        Ok(())
    }

    /// Returns the data of the Secret for SSH, with the key that the cluster already has, or a new
    /// one. Adds the key to the repository as a deploy key.
    async fn deploy_key(&self, setup: &RepositorySetup, hub: &Hub) -> Result<Value, Error> {
        let known = credentials::secret(hub, FLUX_SYSTEM, FLUX_SYSTEM).await?;
        let entry = |name: &str| {
            let found = credentials::entry(known.as_ref()?, name)?;
            found.expose_str().map(str::to_owned)
        };
        let pair = match (entry("identity"), entry(PUBLIC_KEY)) {
            (Some(private), Some(public)) => KeyPair { private, public },
            _ => KeyPair::new()
                .map_err(|error| Error::new(format!("key pair generation failed: {error}")))?,
        };
        let mut hosts = setup.known_hosts(&self.hostname).await?;
        if hosts.is_empty() {
            hosts = known_hosts::scan(&self.hostname).map_err(|error| {
                Error::new(format!(
                    "SSH key scan for host {} failed: {error}",
                    self.hostname
                ))
            })?;
        }
        let title = match self.path.as_str() {
            "" => "driftless".to_owned(),
            path => format!("driftless-{path}"),
        };
        let added = setup
            .deploy_key(&title, &pair.public, !self.read_write_key)
            .await?;
        report(added, "deploy key");
        Ok(json!({"identity": pair.private, PUBLIC_KEY: pair.public, KNOWN_HOSTS: hosts}))
    }
}

/// Prints what happened to `subject`.
fn report(outcome: Outcome, subject: &str) {
    term::success(&match outcome {
        Outcome::Created => format!("{subject} created"),
        Outcome::Updated => format!("{subject} updated"),
        Outcome::Unchanged => format!("{subject} exists"),
    });
}

fn variable(name: &str) -> Option<Secret> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(Secret::new(text.into_bytes()))
}
