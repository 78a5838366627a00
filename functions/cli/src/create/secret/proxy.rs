//! `driftless create secret proxy`.

use super::Secret;
use crate::create::flags::NonEmpty as _;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use driftless_helm::scheme_and_host;

const EXAMPLES: &str = "Examples:
  driftless create secret proxy my-proxy --address https://proxy.example.com --username me \\
    --password secret --export > proxy.yaml";

/// Create or update a Secret with a proxy's address and login
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The proxy's address
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// The user's name
    #[arg(short, long, value_name = "NAME", allow_hyphen_values = true)]
    username: Option<String>,
    /// The user's password
    #[arg(short, long, allow_hyphen_values = true)]
    password: Option<String>,
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let labels = names::labels(&self.named.labels)?;
        let Some(address) = self.address.non_empty() else {
            return Err(Error::usage("address is required").next("add --address URL"));
        };
        scheme_and_host(address)
            .map_err(|error| Error::usage(format!("invalid proxy address: {error}")))?;
        let mut secret = Secret::new(&self.named.name, common, labels).with_type("Opaque");
        secret.set("address", address);
        for (key, value) in [("username", &self.username), ("password", &self.password)] {
            if let Some(value) = value.non_empty() {
                secret.set(key, value);
            }
        }
        Ok(secret)
    }
}
