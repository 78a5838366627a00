//! `driftless bootstrap github`: sets up a fleet repository on GitHub, and the cluster that follows
//! it.

use super::flux_flags::FluxFlags;
use super::steps::{self, Cluster, SshAccess, path, plain, report, variable};
use super::{Installation, Rules};
use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::root::WEBHOOK_SECRET;
use crate::term;
use clap::{ArgAction, ValueEnum};
use driftless_adapters::git::RepositorySetup;
use driftless_core::bootstrap::Root;
use driftless_core::webhook;
use driftless_flux::FLUX_SYSTEM;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Secret, SecretStore as _};

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
    /// The URL to which GitHub delivers events: that of the webhook function, or that of
    /// `driftless serve` with /webhook
    #[arg(long, value_name = "URL", value_parser = steps::api)]
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
    /// Flux's name of --auth token
    #[arg(long, hide = true, conflicts_with = "auth")]
    token_auth: bool,
    #[command(flatten)]
    flux: FluxFlags,
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

impl Args {
    /// Creates the repository, commits the root's manifests, and installs and registers the
    /// cluster.
    ///
    /// # Errors
    /// Fails with the errors of GitHub, AWS and the cluster, and if the hub follows another root.
    pub async fn run(&self, connection: &Connection) -> Result<(), Error> {
        self.flux.refuse()?;
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
        let target = Cluster::new(connection, self.name.as_deref(), &self.rules)?;
        let webhook = self.webhook_secret(target.installation.as_ref()).await?;
        let setup = RepositorySetup::new(&self.api(), &token, &self.owner, &self.repository)?;
        let cluster = connection.connect().await?;

        term::action(&format!("connecting to {}", self.hostname));
        let shown = format!("{}/{}", self.owner, self.repository);
        let created = setup.create(self.personal, self.private).await?;
        report(created, &format!("repository {shown}"));
        let root = self.root(auth);
        steps::commit(&setup, &root).await?;
        if let Some((url, secret)) = &webhook {
            report(setup.webhook(url, secret).await?, "webhook");
        }

        let own = (auth == Auth::Installation).then_some(root.url.as_str());
        let hub = target.install(cluster, own).await?;
        self.login(&setup, &hub, auth, &token).await?;
        target.follow(&hub, &root, &shown).await
    }

    fn auth(&self) -> Auth {
        self.auth.unwrap_or(match (&self.name, self.token_auth) {
            (_, true) => Auth::Token,
            (Some(_), false) => Auth::Installation,
            (None, false) => Auth::DeployKey,
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
            name: FLUX_SYSTEM.to_owned(),
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
            Auth::Token => steps::token_login(token),
            Auth::DeployKey => {
                let ssh = SshAccess {
                    host: &self.hostname,
                    known_hosts: None,
                    read_write: self.read_write_key,
                };
                steps::deploy_key(setup, hub, &self.path, ssh).await?
            }
        };
        steps::login(hub, data).await
    }
}
