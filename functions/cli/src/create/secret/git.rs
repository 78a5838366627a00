//! `driftless create secret git`, and the logins of `create source git`.

use super::key::{Algorithm, Curve, KeyPair};
use super::{Secret, known_hosts, read};
use crate::create::flags::NonEmpty as _;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use driftless_flux::Invalid;
use driftless_helm::scheme_and_host;

const EXAMPLES: &str = "Examples:
  driftless create secret git fleet-login --url https://github.com/acme/fleet --username git \\
    --password TOKEN
  driftless create secret git fleet-login --url ssh://git@github.com/acme/fleet \\
    --ssh-key-algorithm ed25519
  driftless create secret git fleet-login --url ssh://git@github.com/acme/fleet \\
    --private-key-file ./id --export > login.yaml
  driftless create secret git fleet-login --url ssh://git@git.example.com:2222/fleet \\
    --known-hosts-file ./known_hosts

For SSH a new key is generated, unless --private-key-file gives one: add the printed deploy key to the repository. The key of the \
server is read from the server, unless --known-hosts-file gives it: compare it with the one that the host publishes.";

/// The key of a Secret for the keys of SSH servers.
pub const KNOWN_HOSTS: &str = "known_hosts";
/// The key of a Secret for the public key.
pub const PUBLIC_KEY: &str = "identity.pub";
/// The content of a Secret of a Git repository, for messages.
pub const CREDENTIALS: &str = "repository credentials";

/// Create or update a Secret for a Git repository
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The repository's address: https://HOST/PATH or ssh://USER@HOST/PATH
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    login: Login,
    /// The file with the certificates of authorities
    #[arg(long, value_name = "FILE")]
    ca_crt_file: Option<String>,
    /// A token instead of a user's name and password
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    bearer_token: Option<String>,
}

/// The flags for credentials of a Git repository.
#[derive(Clone, clap::Args)]
pub struct Login {
    /// The user's name, for HTTP
    #[arg(short, long, value_name = "NAME", allow_hyphen_values = true)]
    username: Option<String>,
    /// The user's password, for HTTP; or the password of --private-key-file
    #[arg(short, long, allow_hyphen_values = true)]
    password: Option<String>,
    /// The algorithm of a new key [default: ecdsa]
    #[arg(long, value_enum)]
    ssh_key_algorithm: Option<Algorithm>,
    /// The size of a new RSA key: at least 1024, a multiple of 8 [default: 2048]
    #[arg(long, value_name = "BITS", value_parser = bits)]
    ssh_rsa_bits: Option<usize>,
    /// The curve of a new ECDSA key [default: p384]
    #[arg(long, value_enum)]
    ssh_ecdsa_curve: Option<Curve>,
    /// The file with a private key, instead of a new key
    #[arg(long, value_name = "FILE")]
    private_key_file: Option<String>,
    /// The file with the server's keys, in the format of ~/.ssh/known_hosts, instead of those that
    /// the server sends
    #[arg(long, value_name = "FILE")]
    known_hosts_file: Option<String>,
}

/// Parses the size of an RSA key, with the limits of Flux.
fn bits(text: &str) -> Result<usize, Invalid> {
    match text.parse::<usize>() {
        Ok(bits) if bits < 1024 => Err("RSA key bit size must be at least 1024".into()),
        Ok(bits) if bits % 8 != 0 => Err("RSA key bit size must be a multiple of 8".into()),
        Ok(bits) if bits > 16_384 => Err("RSA key bit size must be at most 16384".into()),
        Ok(bits) => Ok(bits),
        Err(_) => Err("expected a number".into()),
    }
}

/// Returns the error for an address that is not valid for a repository, with the expected formats.
fn address(message: String) -> Error {
    Error::usage(message).next(
        "give --url https://HOST/OWNER/NAME, or ssh://git@HOST/OWNER/NAME for git@HOST:OWNER/NAME",
    )
}

/// The address of a Git repository.
pub struct Remote {
    /// The scheme: `ssh`, `http` or `https`.
    pub scheme: String,
    /// The host, with its port if the address has one.
    pub host: String,
}

impl Remote {
    /// Parses the value of `--url`.
    ///
    /// # Errors
    /// Fails if the address is missing or not valid.
    pub fn parse(url: Option<&str>) -> Result<Self, Error> {
        let Some(url) = url else {
            return Err(Error::usage("url is required").next("add --url URL, such as --url https://github.com/acme/fleet or ssh://git@github.com/acme/fleet"));
        };
        let parsed = scheme_and_host(url);
        let (scheme, host) =
            parsed.map_err(|error| address(format!("git URL parse failed: {error}")))?;
        if !["ssh", "http", "https"].contains(&scheme.as_str()) {
            return Err(address(format!(
                "git URL scheme '{scheme}' not supported, can be: ssh, http and https"
            )));
        }
        if scheme == "ssh" && host.is_empty() {
            return Err(Error::usage("git URL has no host"));
        }
        Ok(Self { scheme, host })
    }

    /// Returns whether the repository is accessed over SSH.
    pub fn is_ssh(&self) -> bool {
        self.scheme == "ssh"
    }
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for flags that are not valid or exclude each other, files that cannot be read, and a
    /// server that sends no key.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let remote = Remote::parse(self.url.non_empty())?;
        let labels = names::labels(&self.named.labels)?;
        let secret = Secret::new(&self.named.name, common, labels);
        let token = self.bearer_token.non_empty();
        if !remote.is_ssh() && token.is_none() && !self.login.is_complete() {
            return Err(Error::usage(
                "for Git over HTTP/S the username and password, or a bearer token is required",
            ));
        }
        let authorities = ("--ca-crt-file", self.ca_crt_file.non_empty());
        self.login.fill(secret, &remote, authorities, token)
    }
}

impl Login {
    fn is_complete(&self) -> bool {
        self.username.non_empty().is_some() && self.password.non_empty().is_some()
    }

    /// Returns whether any credentials were given.
    pub fn is_given(&self) -> bool {
        self.username.non_empty().is_some()
            || self.password.non_empty().is_some()
            || self.ssh_flag().is_some()
    }

    /// Returns whether a private key was given.
    pub fn has_private_key(&self) -> bool {
        self.private_key_file.non_empty().is_some()
    }

    /// Splits off the password, which is a token for HTTP.
    pub fn split_token(mut self) -> (Self, Option<String>) {
        let token = self.password.take().filter(|token| !token.is_empty());
        (self, token)
    }

    /// Returns the credentials of a root: over HTTP, `password` is used without `--password`, and
    /// the user's name is `git` without `--username`.
    #[must_use]
    pub fn for_root(mut self, remote: &Remote, password: Option<String>) -> Self {
        let may_have_password = !remote.is_ssh() || self.has_private_key();
        if self.password.non_empty().is_none() && may_have_password {
            self.password = password;
        }
        let is_given = self.password.non_empty().is_some() && !remote.is_ssh();
        if is_given && self.username.non_empty().is_none() {
            self.username = Some("git".to_owned());
        }
        self
    }

    /// Returns the first given flag that is only for SSH.
    fn ssh_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--ssh-key-algorithm", self.ssh_key_algorithm.is_some()),
            ("--ssh-rsa-bits", self.ssh_rsa_bits.is_some()),
            ("--ssh-ecdsa-curve", self.ssh_ecdsa_curve.is_some()),
            (
                "--private-key-file",
                self.private_key_file.non_empty().is_some(),
            ),
            (
                "--known-hosts-file",
                self.known_hosts_file.non_empty().is_some(),
            ),
        ];
        flags
            .into_iter()
            .find_map(|(flag, given)| given.then_some(flag))
    }

    /// Adds the credentials to a Secret, which stays empty over HTTP without credentials.
    ///
    /// # Errors
    /// Fails for flags that exclude each other (Flux ignores the superfluous ones silently), files
    /// that cannot be read, and a server that sends no key.
    pub fn fill(
        &self,
        secret: Secret,
        remote: &Remote,
        authorities: (&str, Option<&str>),
        token: Option<&str>,
    ) -> Result<Secret, Error> {
        match remote.is_ssh() {
            true => {
                for (flag, given) in [
                    ("--username", self.username.non_empty().is_some()),
                    ("--bearer-token", token.is_some()),
                ] {
                    if given {
                        let message = format!("{flag} is not supported for Git over SSH");
                        return Err(Error::usage(message));
                    }
                }
                if authorities.1.is_some() {
                    let message = "specifying a CA file is not supported for Git over SSH";
                    return Err(Error::usage(message));
                }
                self.fill_ssh(secret, remote)
            }
            false => self.fill_http(secret, authorities, token),
        }
    }

    fn fill_http(
        &self,
        mut secret: Secret,
        (flag, authorities): (&str, Option<&str>),
        token: Option<&str>,
    ) -> Result<Secret, Error> {
        if let Some(flag) = self.ssh_flag() {
            let message = format!("{flag} is not supported for Git over HTTP/S");
            return Err(Error::usage(message));
        }
        match (self.username.non_empty(), self.password.non_empty(), token) {
            (None, None, None) => {}
            (Some(username), Some(password), None) => {
                secret.set("username", username).set("password", password);
            }
            (None, None, Some(token)) => {
                secret.set("bearerToken", token);
            }
            (_, _, Some(_)) => {
                let message = "user credentials and bearer token cannot be used together";
                return Err(Error::usage(message));
            }
            _ => {
                let message = "--username and --password must be given together";
                return Err(Error::usage(message));
            }
        }
        if let Some(file) = authorities {
            secret.set("ca.crt", read(flag, file)?);
        }
        Ok(secret)
    }

    fn fill_ssh(&self, mut secret: Secret, remote: &Remote) -> Result<Secret, Error> {
        let password = self.password.non_empty();
        let pair = match self.private_key_file.non_empty() {
            Some(file) => {
                let text = read("--private-key-file", file)?;
                let loaded = KeyPair::load(text, password.is_some());
                loaded.map_err(|reason| {
                    Error::caused_by(reason).context(format!("--private-key-file: {file}"))
                })?
            }
            None if password.is_some() => {
                return Err(Error::usage("--password: a new key has no password")
                    .next("leave --password out, or give --private-key-file"));
            }
            None => self.new_pair()?,
        };
        let hosts = match self.known_hosts_file.non_empty() {
            Some(file) => {
                let text = read("--known-hosts-file", file)?;
                known_hosts::check(&text, &remote.host).map_err(|reason| {
                    Error::caused_by(reason).context(format!("--known-hosts-file: {file}"))
                })?;
                text
            }
            None => known_hosts::scan(&remote.host).map_err(|reason| {
                let message = format!("SSH key scan for host {} failed: {reason}", remote.host);
                Error::new(message).next("give the server's keys with --known-hosts-file")
            })?,
        };
        secret
            .set("identity", pair.private)
            .set(PUBLIC_KEY, pair.public)
            .set(KNOWN_HOSTS, hosts.trim());
        if let Some(password) = password {
            secret.set("password", password);
        }
        Ok(secret)
    }

    fn new_pair(&self) -> Result<KeyPair, Error> {
        let algorithm = self.ssh_key_algorithm.unwrap_or(Algorithm::Ecdsa);
        for (flag, given, for_algorithm) in [
            (
                "--ssh-rsa-bits",
                self.ssh_rsa_bits.is_some(),
                Algorithm::Rsa,
            ),
            (
                "--ssh-ecdsa-curve",
                self.ssh_ecdsa_curve.is_some(),
                Algorithm::Ecdsa,
            ),
        ] {
            if given && for_algorithm != algorithm {
                let message = format!("{flag} is not supported for this --ssh-key-algorithm");
                return Err(Error::usage(message));
            }
        }
        let curve = self.ssh_ecdsa_curve.unwrap_or(Curve::P384);
        KeyPair::generate(algorithm, curve, self.ssh_rsa_bits.unwrap_or(2048))
            .map_err(|reason| Error::caused_by(reason).context("key pair generation failed"))
    }
}
