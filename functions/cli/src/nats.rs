//! The flags that lead to an installation on NATS JetStream.

use crate::error::Error;
use driftless_flux::Invalid;
use driftless_nats::{ConnectError, Nats, NatsOptions, connect, without_login};
use std::path::PathBuf;

/// The flags of the servers, for a command that also has another kind of installation.
#[derive(clap::Args)]
pub struct NatsFlags {
    /// The address of a server of NATS, nats://HOST:4222 or tls://HOST:4222, with USER:PASSWORD@
    /// before the host if it needs that; repeat it for the servers of a cluster
    #[arg(
        long,
        value_name = "URL",
        env = "DRIFTLESS_NATS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    nats: Vec<String>,
    /// The file with the login at NATS, as nsc writes it
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_credentials: Option<PathBuf>,
    /// The file with the certificate authority of the servers, PEM; the system's authorities when
    /// absent
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_ca: Option<PathBuf>,
    /// The prefix of the names of the installation's streams
    #[arg(long, value_name = "NAME", default_value = "driftless", requires = "nats", value_parser = prefix)]
    nats_prefix: String,
    /// The number of servers that keep each message, for streams that do not exist yet: 3 in a
    /// cluster
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nats", value_parser = clap::value_parser!(u8).range(1..=5))]
    nats_replicas: u8,
}

impl NatsFlags {
    /// Returns whether an installation on NATS is named.
    pub fn is_given(&self) -> bool {
        !self.nats.is_empty()
    }

    /// Returns the addresses of the servers, without logins.
    pub fn display(&self) -> String {
        let shown = self.nats.iter().map(|server| without_login(server));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Checks the addresses of the servers. It is not the parser of the flag, because clap quotes a
    /// refused value, which may have a password.
    ///
    /// # Errors
    /// An address has another form than a server of NATS.
    pub fn check(&self) -> Result<(), Error> {
        match self.nats.iter().all(|server| is_address(server)) {
            true => Ok(()),
            false => Err(
                Error::usage("--nats: expected nats://HOST:PORT or tls://HOST:PORT")
                    .next("give each address with its scheme, in --nats or DRIFTLESS_NATS"),
            ),
        }
    }

    /// Connects, and creates the streams that are missing.
    ///
    /// # Errors
    /// An address is not valid, no server answers or accepts the login, or one lacks JetStream or
    /// is too old.
    pub async fn connect(&self) -> Result<Nats, Error> {
        self.check()?;
        let options = NatsOptions {
            servers: self.nats.clone(),
            credentials: self.nats_credentials.clone(),
            certificate_authority: self.nats_ca.clone(),
            prefix: self.nats_prefix.clone(),
            replicas: usize::from(self.nats_replicas),
        };
        Ok(connect(&options).await?)
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        let next = error.next;
        Self::caused_by(error).next(next)
    }
}

/// Returns whether this is the address of a server, with a scheme.
fn is_address(text: &str) -> bool {
    let rest = text
        .strip_prefix("nats://")
        .or_else(|| text.strip_prefix("tls://"));
    rest.is_some_and(|host| !host.is_empty())
}

/// Parses the prefix of streams, which is also a token of subjects.
fn prefix(text: &str) -> Result<String, Invalid> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match (1..=32).contains(&text.len()) && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 32 letters, digits, '-' and '_'".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_prefixes_are_checked() {
        assert!(is_address("nats://127.0.0.1:4222"));
        assert!(is_address("tls://nats.acme.dev"));
        for bad in ["127.0.0.1:4222", "http://nats", "nats://", "ws://nats:80"] {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(prefix("driftless-eu_1").is_ok());
        for bad in ["", "a.b", "a b", "a>", &"x".repeat(33)] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }
}
