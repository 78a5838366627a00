//! `driftless create source git`.

use super::new_source;
use crate::create::Secret;
use crate::create::apply::Hub;
use crate::create::flags::{self, List, NonEmpty as _};
use crate::create::secret::{CREDENTIALS, Login, Remote};
use crate::create::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use crate::term;
use clap::ArgAction;
use driftless_flux::{GitReference, GitRepositorySpec, LocalRef};
use serde_json::Map;

/// The name of the kind in messages.
const NOUN: &str = "GitRepository source";

const EXAMPLES: &str = "Examples:
  driftless create source git fleet --url https://github.com/acme/fleet --branch main
  driftless create source git podinfo --url https://github.com/stefanprodan/podinfo \\
    --tag-semver '>=3.2.0 <3.3.0' --export
  driftless create source git fleet --url ssh://git@github.com/acme/fleet --branch main \\
    --ssh-key-algorithm ed25519
  driftless create source git fleet --url https://github.com/acme/fleet --branch main \\
    --username git --password TOKEN

With a login, or for SSH, a Secret of the same name is created first, unless --secret-ref names one. For SSH a new key is generated, \
unless --private-key-file gives one, and the key of the server is read from the server, unless --known-hosts-file gives it.";

/// Create or update a GitRepository
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The repository's address: https://HOST/PATH or ssh://USER@HOST/PATH
    #[arg(long)]
    url: Option<String>,
    /// The branch
    #[arg(long)]
    branch: Option<String>,
    /// The tag
    #[arg(long)]
    tag: Option<String>,
    /// A range of versions, for the highest tag in it
    #[arg(long, value_name = "RANGE")]
    tag_semver: Option<String>,
    /// The reference, such as refs/pull/420/head
    #[arg(long, value_name = "REFERENCE")]
    ref_name: Option<String>,
    /// The commit; may be given with --branch
    #[arg(long)]
    commit: Option<String>,
    #[command(flatten)]
    login: Login,
    /// The Secret with the login
    #[arg(long, value_name = "NAME")]
    secret_ref: Option<String>,
    /// The Secret with the proxy's address and login
    #[arg(long, value_name = "NAME")]
    proxy_secret_ref: Option<String>,
    /// The provider of the login
    #[arg(long, value_parser = ["generic", "github", "aws", "azure"])]
    provider: Option<String>,
    /// The file with the certificates of authorities
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// Also fetch submodules
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    recurse_submodules: bool,
    /// Do not ask whether the deploy key is added to the repository
    #[arg(short, long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    silent: bool,
    /// Paths to ignore
    #[arg(long, value_name = "PATHS")]
    ignore_paths: Vec<List>,
    /// Directories to which the fetch is restricted
    #[arg(long, value_name = "PATHS")]
    sparse_checkout_paths: Vec<List>,
}

impl Args {
    /// Writes the object with `--export`. Otherwise applies its Secret and then the object, and
    /// waits until it is ready.
    pub async fn run(&self, common: &Common, timeout: Option<String>) -> Result<(), Error> {
        let remote = Remote::parse(self.url.non_empty())?;
        let mut spec = self.spec(common, &remote, timeout)?;
        let metadata = common.metadata(&self.named)?;
        if common.export(&new_source(NOUN, &metadata, &spec)?.object)? {
            return Ok(());
        }
        let secret = self.secret(common, &remote)?;
        let hub = Hub::connect(common).await?;
        if let Some(secret) = secret {
            secret.print_keys();
            if remote.is_ssh() && !self.silent {
                confirm()?;
            }
            let name = secret.name.clone();
            hub.store(secret, CREDENTIALS).await?;
            spec.secret_ref = Some(LocalRef { name });
        }
        hub.finish(new_source(NOUN, &metadata, &spec)?).await
    }

    fn spec(
        &self,
        common: &Common,
        remote: &Remote,
        timeout: Option<String>,
    ) -> Result<GitRepositorySpec, Error> {
        let reference = self.reference()?;
        if remote.is_ssh() && self.ca_file.non_empty().is_some() {
            let message = "specifying a CA file is not supported for Git over SSH";
            return Err(Error::usage(message));
        }
        let sparse = flags::items(&self.sparse_checkout_paths);
        Ok(GitRepositorySpec {
            url: self.url.to_non_empty().unwrap_or_default(),
            interval: common.interval.to_string(),
            recurse_submodules: self.recurse_submodules,
            reference: Some(reference),
            ignore: flags::ignore(&self.ignore_paths),
            sparse_checkout: sparse.into_iter().map(str::to_owned).collect(),
            timeout,
            secret_ref: flags::local_ref(&self.secret_ref),
            proxy_secret_ref: flags::local_ref(&self.proxy_secret_ref),
            provider: self.provider.to_non_empty(),
            ..GitRepositorySpec::default()
        })
    }

    /// Returns `spec.ref`. Flux uses the first of several refs and drops the others; here several
    /// are an error, except a commit with its branch.
    fn reference(&self) -> Result<GitReference, Error> {
        let reference = GitReference {
            commit: self.commit.to_non_empty().unwrap_or_default(),
            name: self.ref_name.to_non_empty().unwrap_or_default(),
            semver: self.tag_semver.to_non_empty().unwrap_or_default(),
            tag: self.tag.to_non_empty().unwrap_or_default(),
            branch: self.branch.to_non_empty().unwrap_or_default(),
        };
        let flags = [
            ("--commit", &reference.commit),
            ("--ref-name", &reference.name),
            ("--tag-semver", &reference.semver),
            ("--tag", &reference.tag),
            ("--branch", &reference.branch),
        ];
        let given = flags.into_iter().filter(|(_, value)| !value.is_empty());
        let given: Vec<&str> = given.map(|(flag, _)| flag).collect();
        match given[..] {
            [] => Err(Error::usage(
                "a Git ref is required, use one of the following: --branch, --tag, --commit, --ref-name or --tag-semver",
            )),
            [_] | ["--commit", "--branch"] => Ok(reference),
            _ => {
                let message = format!("only one Git ref can be used: {}", given.join(", "));
                Err(Error::usage(message))
            }
        }
    }

    /// Returns the Secret with the login; `None` if there is one already, or none is needed.
    fn secret(&self, common: &Common, remote: &Remote) -> Result<Option<Secret>, Error> {
        let authorities = self.ca_file.non_empty();
        let given = self.login.is_given() || authorities.is_some();
        if self.secret_ref.non_empty().is_some() {
            return match given {
                false => Ok(None),
                true => {
                    let message =
                        "cannot use a login or certificates in combination with --secret-ref";
                    Err(Error::usage(message))
                }
            };
        }
        if remote.scheme == "http" && given {
            term::failure("insecure configuration: credentials configured for an HTTP URL");
        }
        let secret = Secret::new(&self.named.name, common, Map::new());
        let login = ("--ca-file", authorities);
        let secret = self.login.fill(secret, remote, login, None)?;
        Ok((!secret.is_empty()).then_some(secret))
    }
}

/// Asks the user whether the deploy key was added to the repository.
fn confirm() -> Result<(), Error> {
    match term::confirm("Have you added the deploy key to your repository?")? {
        true => Ok(()),
        false => Err(Error::new("aborted: nothing was created")
            .next("create the key with driftless create secret git, add it to the repository, and name the Secret with --secret-ref; or give --silent")),
    }
}
