//! `driftless bootstrap git`: makes a cluster follow a repository of any Git server, and prints the
//! commands that commit the root's manifests to it.

use super::Rules;
use super::flux_flags::FluxFlags;
use super::steps::{self, Cluster, LIST, SYNC};
use crate::create::{Login, Remote, Secret};
use crate::error::{EXIT_CODES, Error};
use crate::hub::{Connection, apply};
use crate::term;
use driftless_core::bootstrap::Root;
use driftless_flux::FLUX_SYSTEM;
use driftless_kustomize::FILE_NAMES;
use std::env;

const EXAMPLES: &str = "Examples:
  driftless bootstrap git --url ssh://git@git.example.com/fleet --path clusters/staging | sh
  driftless bootstrap git --url https://git.example.com/acme/fleet.git --username me \\
    --password TOKEN --path clusters/staging > commit.sh
  driftless bootstrap git --url ssh://git@git.example.com/fleet --path clusters/staging \\
    --private-key-file ./id --known-hosts-file ./known_hosts > commit.sh
  driftless bootstrap git --url ssh://git@git.example.com/fleet --path clusters/staging --export

The cluster gets Flux's definitions, the login, and the GitRepository and the Kustomization that follow PATH. The output is a shell \
script: with your own login of Git it commits PATH/flux-system/gotk-sync.yaml with both objects, and a kustomization.yaml next to it \
unless there is one, and pushes the branch. With --export nothing is applied, and the output is the script only.

For SSH a new key is generated, unless --private-key-file gives one or the cluster has one: add the printed deploy key to the \
repository. For HTTPS give --username and --password; without them the repository is read without a login.

Environment:
  GIT_PASSWORD  the password, without --password";

/// The environment variable with the password.
const PASSWORD: &str = "GIT_PASSWORD";

/// Make a cluster follow a repository of any Git server, and print the commands that set it up
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The repository's address: https://HOST/PATH or ssh://USER@HOST/PATH
    #[arg(long)]
    url: String,
    /// The branch
    #[arg(long, default_value = "main", value_parser = steps::path)]
    branch: String,
    /// The directory in the repository that this cluster follows
    #[arg(long, default_value = "./", value_parser = steps::path)]
    path: String,
    #[command(flatten)]
    login: Login,
    /// The file with the certificates of the server's authorities, for HTTPS
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// Send the password as a bearer token, without a user's name
    #[arg(long, conflicts_with = "username")]
    with_bearer_token: bool,
    /// Accept an http URL: the password is sent in the clear
    #[arg(long)]
    allow_insecure_http: bool,
    /// Print the commands, and connect to no cluster and no server
    #[arg(long, conflicts_with = "name")]
    export: bool,
    /// Register the cluster as a hub of this name with the installation on AWS
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    rules: Rules,
    /// Accepted as in Flux: no command asks for a confirmation
    #[arg(short, long, hide = true)]
    silent: bool,
    /// HTTPS with a password needs no flag
    #[arg(long, hide = true)]
    token_auth: bool,
    #[command(flatten)]
    flux: FluxFlags,
}

impl Args {
    /// Installs the cluster, makes it follow the repository, and prints the commands.
    ///
    /// # Errors
    /// Fails for flags that are not valid, with the errors of AWS and the cluster, and if the hub
    /// follows another root.
    pub async fn run(&self, connection: &Connection) -> Result<(), Error> {
        self.flux.refuse()?;
        let remote = self.remote()?;
        let (login, token) = self.login(&remote)?;
        let has_login = login.is_given() || token.is_some();
        let root = self.root(&remote, has_login);
        if self.export {
            return term::result(&self.script(&root));
        }
        let cluster = Cluster::new(connection, self.name.as_deref(), &self.rules)?;
        let connected = connection.connect().await?;
        // The deploy key of an earlier run stays valid.
        let known = match remote.is_ssh() && !login.has_private_key() {
            true => steps::known_pair(&connected).await?,
            false => None,
        };
        let secret = match (&root.secret, &known) {
            (Some(_), None) => {
                let secret = Secret::empty(FLUX_SYSTEM, FLUX_SYSTEM);
                let authorities = ("--ca-file", self.ca_file.as_deref());
                Some(login.fill(secret, &remote, authorities, token.as_deref())?)
            }
            _ => None,
        };
        let hub = cluster.install(connected, None).await?;
        if let Some(pair) = &known {
            term::action(&format!("deploy key: {}", pair.public.trim_end()));
        }
        if let Some(secret) = secret {
            apply(hub.cluster.as_ref(), secret.stored(), false).await?;
            term::success(&format!("applied Secret/{FLUX_SYSTEM}/{FLUX_SYSTEM}"));
            secret.print_keys();
        }
        cluster.follow(&hub, &root, &self.url).await?;
        term::action(
            "run the commands on stdout: they commit the manifests with your login of Git",
        );
        term::result(&self.script(&root))
    }

    /// Parses `--url`, and refuses an address that the repository must not have.
    fn remote(&self) -> Result<Remote, Error> {
        let remote = Remote::parse(Some(&self.url))?;
        let example = "give --url https://HOST/PATH or ssh://USER@HOST/PATH";
        if self
            .url
            .contains(|one: char| one.is_control() || matches!(one, '\'' | ' '))
        {
            return Err(
                Error::usage("--url: the address has characters that no URL has").next(example),
            );
        }
        if !remote.is_ssh() && self.url.contains('@') {
            // The URL is written to the repository.
            return Err(Error::usage("--url: the address has a login")
                .next("give the login with --username and --password"));
        }
        if remote.scheme == "http" && !self.allow_insecure_http {
            return Err(Error::usage("--url: http sends the password in the clear")
                .next("give an https URL, or --allow-insecure-http"));
        }
        Ok(remote)
    }

    /// Returns the credentials, and the token of `--with-bearer-token`.
    fn login(&self, remote: &Remote) -> Result<(Login, Option<String>), Error> {
        let password = env::var(PASSWORD).ok().filter(|text| !text.is_empty());
        let login = self.login.clone();
        if !self.with_bearer_token {
            return Ok((login.for_root(remote, password), None));
        }
        let (login, token) = login.split_token();
        match token.or(password) {
            Some(token) => Ok((login, Some(token))),
            None => Err(Error::usage("--with-bearer-token needs a token")
                .next(format!("give it with --password or {PASSWORD}"))),
        }
    }

    fn root(&self, remote: &Remote, has_login: bool) -> Root {
        let has_login = remote.is_ssh() || has_login || self.ca_file.is_some();
        Root {
            name: FLUX_SYSTEM.to_owned(),
            url: self.url.clone(),
            branch: self.branch.clone(),
            path: self.path.clone(),
            secret: has_login.then(|| FLUX_SYSTEM.to_owned()),
        }
    }

    /// Returns the commands that commit the manifests.
    fn script(&self, root: &Root) -> String {
        let directory = steps::directory(&root.path);
        let (url, branch, sync) = (&self.url, &self.branch, root.manifest());
        let exists = FILE_NAMES.map(|name| format!("[ -e '{directory}/{name}' ]"));
        let exists = exists.join(" || ");
        format!(
            "# Commits the sync manifests of {directory} to {branch}, with your own login of Git.
set -e
checkout=$(mktemp -d)
git clone '{url}' \"$checkout\"
cd \"$checkout\"
git checkout '{branch}' -- 2>/dev/null || git checkout -b '{branch}'
mkdir -p '{directory}'
cat > '{directory}/{SYNC}' <<'DRIFTLESS'
{sync}DRIFTLESS
{exists} || cat > '{directory}/kustomization.yaml' <<'DRIFTLESS'
{LIST}DRIFTLESS
git add '{directory}'
git diff --cached --quiet || git commit -m 'Add the sync manifests of {directory}'
git push origin '{branch}'
"
        )
    }
}
