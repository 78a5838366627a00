//! `driftless create secret helm`.

use super::tls::{self, Files, TlsFlags};
use super::{Secret, read};
use crate::create::basic_login::BasicLogin;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};

const EXAMPLES: &str = "Examples:
  driftless create secret helm repo-login -n team-a --username me --password secret \\
    --export > login.yaml
  driftless create secret helm repo-certs --tls-crt-file client.crt --tls-key-file client.key \\
    --ca-crt-file ca.crt";

/// Create or update a Secret for a HelmRepository
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    login: BasicLogin,
    #[command(flatten)]
    tls: TlsFlags,
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for files that cannot be read, and for flags that exclude each other.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let labels = names::labels(&self.named.labels)?;
        let secret = Secret::new(&self.named.name, common, labels);
        fill(secret, self.login.parts(), &self.tls.files())
    }
}

/// Adds a login or certificates to a Secret, which stays unchanged without any.
///
/// # Errors
/// Fails for files that cannot be read, and for flags that exclude each other: Flux drops a login
/// that is given with a certificate.
pub fn fill(
    secret: Secret,
    login: (Option<&str>, Option<&str>),
    files: &Files<'_>,
) -> Result<Secret, Error> {
    let pair = files.are_a_pair()?;
    match login {
        (None, None) if !pair && files.authorities.is_none() => Ok(secret),
        (None, None) => tls::fill(secret, files),
        _ if pair => {
            let message = "a client certificate and a user's login cannot be used together";
            Err(Error::usage(message))
        }
        (Some(username), Some(password)) => {
            let mut secret = secret.with_type("kubernetes.io/basic-auth");
            secret.set("username", username).set("password", password);
            if let Some(file) = files.authorities {
                secret.set("ca.crt", read("the CA certificates", file)?);
            }
            Ok(secret)
        }
        (None, Some(_)) => Err(Error::usage("username is required").next("add --username NAME")),
        (Some(_), None) => {
            Err(Error::usage("password is required").next("add --password PASSWORD"))
        }
    }
}
