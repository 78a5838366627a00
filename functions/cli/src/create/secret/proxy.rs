//! `driftless create secret proxy`.

use super::Secret;
use crate::create::basic_login::BasicLogin;
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
    #[command(flatten)]
    login: BasicLogin,
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
        let (username, password) = self.login.parts();
        for (key, value) in [("username", username), ("password", password)] {
            if let Some(value) = value {
                secret.set(key, value);
            }
        }
        Ok(secret)
    }
}
