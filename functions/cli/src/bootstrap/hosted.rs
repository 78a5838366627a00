//! `driftless bootstrap gitlab` and `driftless bootstrap gitea`: set up a fleet repository at the
//! host by its API, and the cluster that follows it.

use super::Rules;
use super::flux_flags::FluxFlags;
use super::steps::{self, Cluster, SshAccess};
use crate::create::known_hosts;
use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::term;
use clap::{ArgAction, ValueEnum};
use driftless_adapters::git::{
    GitLabRepository, GiteaRepository, NewRepository, RepositoryAdministration, Visibility,
};
use driftless_core::bootstrap::Root;
use driftless_flux::{FLUX_SYSTEM, Invalid};
use driftless_kernel::ports::Secret;
use std::path::{Path, PathBuf};

const GITLAB_EXAMPLES: &str = "Examples:
  export GITLAB_TOKEN=...
  driftless bootstrap gitlab --owner acme/platform --repository fleet --path clusters/staging
  driftless bootstrap gitlab --owner me --personal --repository fleet --path clusters/staging \\
    --token-auth
  driftless bootstrap gitlab --hostname git.example.com --owner acme --repository fleet \\
    --path clusters/staging

The project is created if it does not exist. PATH/flux-system/gotk-sync.yaml, with the GitRepository and the Kustomization that follow \
PATH, is committed to it, and a kustomization.yaml next to it unless there is one. The cluster gets Flux's definitions, the login and \
both objects. Running the command again changes only what is missing or different.

Without --name the cluster is served by `driftless serve`. With --name it becomes a hub of the installation on AWS: the environment \
and rights are those of `driftless bootstrap --help`.

Environment:
  GITLAB_TOKEN  a token with the scope api that may administer the project

The webhook is yours to create: infra/README.md names its secret. Without one, pushes are found within a minute.";

const GITEA_EXAMPLES: &str = "Examples:
  export GITEA_TOKEN=...
  driftless bootstrap gitea --hostname git.example.com --owner acme --repository fleet \\
    --path clusters/staging
  driftless bootstrap gitea --hostname git.example.com --owner me --personal --repository fleet \\
    --path clusters/staging --token-auth

The repository is created if it does not exist. PATH/flux-system/gotk-sync.yaml, with the GitRepository and the Kustomization that \
follow PATH, is committed to it, and a kustomization.yaml next to it unless there is one. The cluster gets Flux's definitions, the \
login and both objects. Running the command again changes only what is missing or different.

Without --name the cluster is served by `driftless serve`. With --name it becomes a hub of the installation on AWS: the environment \
and rights are those of `driftless bootstrap --help`.

Environment:
  GITEA_TOKEN  a token that may write repositories, and organizations or the user for a new one

Gitea 1.20 or newer, or Forgejo. The webhook is yours to create: infra/README.md names its secret. Without one, pushes are found within a minute.";

/// Set up a fleet repository on GitLab, and the cluster that follows it
#[derive(clap::Args)]
#[command(after_help = format!("{GITLAB_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct GitLab {
    /// The group that owns the project, with the groups above it, or the user
    #[arg(long, value_name = "OWNER", value_parser = owner)]
    owner: String,
    /// The host, with its port if that is not 443
    #[arg(long, value_name = "HOST[:PORT]", default_value = "gitlab.com", value_parser = host)]
    hostname: String,
    /// The URL of its API [default: api/v4 of the host]
    #[arg(long, value_name = "URL", value_parser = steps::api)]
    gitlab_api: Option<String>,
    /// The readers of a new project
    #[arg(long, value_enum, default_value_t = Readers::Private)]
    visibility: Readers,
    #[command(flatten)]
    hosted: Hosted,
}

/// Set up a fleet repository on Gitea or Forgejo, and the cluster that follows it
#[derive(clap::Args)]
#[command(after_help = format!("{GITEA_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Gitea {
    /// The organization or user that owns the repository
    #[arg(long, value_name = "OWNER", value_parser = steps::plain)]
    owner: String,
    /// The host, with its port if that is not 443
    #[arg(long, value_name = "HOST[:PORT]", default_value = "gitea.com", value_parser = host)]
    hostname: String,
    /// The URL of its API [default: api/v1 of the host]
    #[arg(long, value_name = "URL", value_parser = steps::api)]
    gitea_api: Option<String>,
    /// Create the repository as a private one
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true")]
    private: bool,
    #[command(flatten)]
    hosted: Hosted,
}

#[derive(Clone, Copy, ValueEnum)]
enum Readers {
    /// Its members
    Private,
    /// Every user of the host
    Internal,
    /// Everyone
    Public,
}

/// The flags of both hosts.
#[derive(clap::Args)]
struct Hosted {
    /// The repository's name
    #[arg(long, value_name = "NAME", value_parser = steps::plain)]
    repository: String,
    /// The branch
    #[arg(long, default_value = "main", value_parser = steps::path)]
    branch: String,
    /// The directory in the repository that this cluster follows
    #[arg(long, default_value = "./", value_parser = steps::path)]
    path: String,
    /// The owner is a user
    #[arg(long)]
    personal: bool,
    /// Let the cluster read the repository over HTTPS with the token, instead of a new deploy key
    #[arg(long)]
    token_auth: bool,
    /// Create the deploy key with write access
    #[arg(long, conflicts_with = "token_auth")]
    read_write_key: bool,
    /// The host and port of the SSH server, if they differ from the host
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "token_auth", value_parser = host)]
    ssh_hostname: Option<String>,
    /// The file with the SSH server's keys, in the format of ~/.ssh/known_hosts, instead of those
    /// that the server sends
    #[arg(long, value_name = "FILE", conflicts_with = "token_auth")]
    known_hosts_file: Option<PathBuf>,
    /// Register the cluster as a hub of this name with the installation on AWS
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    rules: Rules,
    #[arg(long, hide = true)]
    webhook_url: Option<String>,
    #[command(flatten)]
    flux: FluxFlags,
}

/// Parses the owner of a project of GitLab.
fn owner(text: &str) -> Result<String, Invalid> {
    let trimmed = text.trim_matches('/');
    match !trimmed.is_empty() && trimmed.split('/').all(|part| steps::plain(part).is_ok()) {
        true => Ok(trimmed.to_owned()),
        false => Err("expected the name of a group or a user, as in acme/platform".into()),
    }
}

/// Parses a host with or without a port.
fn host(text: &str) -> Result<String, Invalid> {
    let (host, port) = text.split_once(':').unwrap_or((text, "443"));
    match steps::plain(host).is_ok() && port.parse::<u16>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("expected HOST or HOST:PORT".into()),
    }
}

/// A repository at a host.
struct Place<'a> {
    /// The name of the kind of host.
    kind: &'a str,
    host: &'a str,
    owner: &'a str,
    visibility: Visibility,
    /// The variable with the token.
    variable: &'a str,
}

impl GitLab {
    /// Creates the project, commits the root's manifests, and installs the cluster.
    ///
    /// # Errors
    /// Fails with the errors of GitLab, AWS and the cluster, and if the hub follows another root.
    pub async fn run(&self, connection: &Connection) -> Result<(), Error> {
        let place = Place {
            kind: "GitLab",
            host: &self.hostname,
            owner: &self.owner,
            visibility: match self.visibility {
                Readers::Private => Visibility::Private,
                Readers::Internal => Visibility::Internal,
                Readers::Public => Visibility::Public,
            },
            variable: "GITLAB_TOKEN",
        };
        let token = self.hosted.token(&place)?;
        let default = || format!("https://{}/api/v4", self.hostname);
        let api = self.gitlab_api.clone().unwrap_or_else(default);
        let setup = GitLabRepository::new(&api, &token, &self.owner, &self.hosted.repository)?;
        self.hosted.run(connection, &setup, &place, &token).await
    }
}

impl Gitea {
    /// Creates the repository, commits the root's manifests, and installs the cluster.
    ///
    /// # Errors
    /// Fails with the errors of Gitea, AWS and the cluster, and if the hub follows another root.
    pub async fn run(&self, connection: &Connection) -> Result<(), Error> {
        let place = Place {
            kind: "Gitea",
            host: &self.hostname,
            owner: &self.owner,
            visibility: match self.private {
                true => Visibility::Private,
                false => Visibility::Public,
            },
            variable: "GITEA_TOKEN",
        };
        let token = self.hosted.token(&place)?;
        let default = || format!("https://{}/api/v1", self.hostname);
        let api = self.gitea_api.clone().unwrap_or_else(default);
        let setup = GiteaRepository::new(&api, &token, &self.owner, &self.hosted.repository)?;
        self.hosted.run(connection, &setup, &place, &token).await
    }
}

impl Hosted {
    /// Checks the flags, and returns the token.
    fn token(&self, place: &Place<'_>) -> Result<Secret, Error> {
        self.flux.refuse()?;
        if self.webhook_url.is_some() {
            let kind = place.kind;
            let message = format!("--webhook-url: webhooks of {kind} are not created");
            return Err(Error::usage(message).next(
                "leave --webhook-url out, and create the webhook in the settings of the repository: infra/README.md names its secret",
            ));
        }
        steps::variable(place.variable).ok_or_else(|| {
            Error::usage(format!("{} is not set", place.variable))
                .next("set it to a token that may administer the repository")
        })
    }

    async fn run(
        &self,
        connection: &Connection,
        setup: &dyn RepositoryAdministration,
        place: &Place<'_>,
        token: &Secret,
    ) -> Result<(), Error> {
        // The port of HTTPS is not that of SSH.
        let name = place.host.split(':').next().unwrap_or_default();
        let ssh_host = self.ssh_hostname.as_deref().unwrap_or(name);
        let hosts = match &self.known_hosts_file {
            Some(file) => Some(read_known_hosts(file, ssh_host)?),
            None => None,
        };
        let cluster = Cluster::new(connection, self.name.as_deref(), &self.rules)?;
        let connected = connection.connect().await?;

        term::action(&format!("connecting to {}", place.host));
        let shown = format!("{}/{}", place.owner, self.repository);
        let created = setup
            .create(&NewRepository {
                personal: self.personal,
                visibility: place.visibility,
                branch: &self.branch,
            })
            .await?;
        steps::report(created, &format!("repository {shown}"));
        let root = Root {
            name: FLUX_SYSTEM.to_owned(),
            url: match self.token_auth {
                true => format!("https://{}/{shown}.git", place.host),
                false => format!("ssh://git@{ssh_host}/{shown}.git"),
            },
            branch: self.branch.clone(),
            path: self.path.clone(),
            secret: Some(FLUX_SYSTEM.to_owned()),
        };
        steps::commit(setup, &root).await?;
        let hub = cluster.install(connected, None).await?;
        let data = match self.token_auth {
            true => steps::token_login(token),
            false => {
                let ssh = SshAccess {
                    host: ssh_host,
                    known_hosts: hosts.as_deref(),
                    read_write: self.read_write_key,
                };
                steps::deploy_key(setup, &hub, &self.path, ssh).await?
            }
        };
        steps::login(&hub, data).await?;
        cluster.follow(&hub, &root, &shown).await
    }
}

/// Reads the keys of an SSH server from a file, which must have one of this host.
fn read_known_hosts(file: &Path, host: &str) -> Result<String, Error> {
    let flag = "--known-hosts-file";
    let text =
        std::fs::read_to_string(file).map_err(|error| Error::unreadable(flag, file, error))?;
    known_hosts::check(&text, host).map_err(|reason| {
        Error::caused_by(reason).context(format!("{flag}: {}", file.display()))
    })?;
    Ok(text)
}
