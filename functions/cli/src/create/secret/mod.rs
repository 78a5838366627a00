//! `driftless create secret`.

mod git;
mod githubapp;
pub mod helm;
mod key;
pub mod known_hosts;
mod notation;
mod oci;
mod proxy;
mod receiver;
mod sops;
pub mod tls;

use super::Common;
use super::apply::Hub;
use super::new_secret::Secret;
use crate::error::{EXIT_CODES, Error};
use crate::term;
use clap::Subcommand;
use driftless_manifest::yaml;
use std::path::Path;

pub use git::{CREDENTIALS, KNOWN_HOSTS, Login, PUBLIC_KEY, Remote};
pub use key::KeyPair;

const EXAMPLES: &str = "Examples:
  driftless create secret git fleet-login --url https://github.com/acme/fleet --username git \\
    --password TOKEN
  driftless create secret oci registry-login --url ghcr.io --username me --password TOKEN \\
    --export > login.yaml";

/// Create or update Secrets for sources and other objects
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Git(git::Args),
    Helm(helm::Args),
    Oci(oci::Args),
    Tls(tls::Args),
    Githubapp(githubapp::Args),
    Proxy(proxy::Args),
    Notation(notation::Args),
    Receiver(receiver::Args),
    Sops(sops::Args),
}

impl Args {
    /// Writes the Secret, or applies it.
    pub async fn run(&self, common: &Common) -> Result<(), Error> {
        let (noun, secret) = match &self.kind {
            Kind::Git(args) => ("git", args.secret(common)?),
            Kind::Helm(args) => ("helm", args.secret(common)?),
            Kind::Oci(args) => ("oci", args.secret(common)?),
            Kind::Tls(args) => ("tls", args.secret(common)?),
            Kind::Githubapp(args) => ("githubapp", args.secret(common)?),
            Kind::Proxy(args) => ("proxy", args.secret(common)?),
            Kind::Notation(args) => ("notation configuration", args.secret(common)?),
            Kind::Receiver(args) => ("receiver", args.secret(common)?),
            Kind::Sops(args) => ("sops", args.secret(common)?),
        };
        if common.export {
            // Flux ends all kinds except this one with an empty line.
            let end = if noun == "tls" { "" } else { "\n" };
            let text = yaml::to_string(&secret.exported());
            return term::result(&format!("---\n{text}{end}"));
        }
        secret.print_keys();
        let name = secret.name.clone();
        Hub::connect(common).await?.apply(secret.stored()).await?;
        let namespace = &common.scope.namespace;
        term::success(&format!(
            "{noun} secret '{name}' created in '{namespace}' namespace"
        ));
        Ok(())
    }
}

impl Secret {
    /// Prints the public keys of the SSH server, and the deploy key that the user has to add to the
    /// repository.
    pub fn print_keys(&self) {
        if let Some(hosts) = self.get(git::KNOWN_HOSTS) {
            term::success(&format!("public keys of the SSH server:\n{hosts}"));
        }
        if let Some(key) = self.get(git::PUBLIC_KEY) {
            term::action(&format!("deploy key: {}", key.trim_end()));
        }
    }
}

/// Reads the file that a flag names.
///
/// # Errors
/// Fails if the file does not exist, is not UTF-8, or is empty.
fn read(flag: &str, file: &str) -> Result<String, Error> {
    let invalid = |problem: &str| Error::new(format!("{flag}: {file}: {problem}"));
    let content =
        std::fs::read(file).map_err(|error| Error::unreadable(flag, Path::new(file), error))?;
    match String::from_utf8(content) {
        Ok(text) if text.trim().is_empty() => Err(invalid("the file is empty")),
        Ok(text) => Ok(text),
        Err(_) => Err(invalid("the file is not UTF-8")),
    }
}
