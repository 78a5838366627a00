//! `driftless bootstrap restore`: registers hubs again from their secrets, after the bucket was
//! lost.

use super::Installation;
use crate::error::{EXIT_CODES, Error};
use crate::term;
use driftless_adapters::config;
use driftless_kernel::hub::{self, RestoreResult};

const EXAMPLES: &str = "Examples:
  driftless bootstrap restore            # all hubs whose kubeconfig is in the secret manager
  driftless bootstrap restore staging

`driftless bootstrap` stores a hub's settings with its kubeconfig, and this command registers each hub with them that is not registered. \
A hub whose secret has no settings is refused, because nothing would be forbidden on it: register it with all of its flags. \
The rest of the bucket is made again by the functions. Run it before the functions' next minute or after; nothing is deleted on a hub that is not registered.

The environment is that of `driftless bootstrap`. The identity on AWS needs s3:ListBucket, s3:GetObject and s3:PutObject on hubs/*, \
secretsmanager:GetSecretValue on PREFIXhubs/*, and without NAME secretsmanager:ListSecrets.";

/// Register hubs again with the settings in their secrets, after the bucket was lost
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The hubs [default: all that have a secret]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Args {
    /// Registers each hub that is not registered.
    ///
    /// # Errors
    /// Fails with the errors of AWS, and if a hub has no settings.
    pub async fn run(&self) -> Result<(), Error> {
        let installation = Installation::from_env()?;
        let ports = config::aws_ports(&installation.0).await?;
        let names = match self.names.is_empty() {
            false => self.names.clone(),
            true => {
                let names = installation.secrets().await.names("hubs/").await;
                names.map_err(|error| {
                    Error::from(error).next("give the names: driftless bootstrap restore NAME NAME")
                })?
            }
        };
        if names.is_empty() {
            return Err(Error::new("the secret manager has no kubeconfig of a hub")
                .next("driftless bootstrap --name NAME --repository OWNER/NAME --path PATH"));
        }
        let mut failed = 0;
        for name in &names {
            match hub::restore(&ports, name).await {
                Ok(RestoreResult::Kept) => {
                    term::success(&format!("hub {name}: is registered, and stays unchanged"));
                }
                Ok(RestoreResult::Restored) => term::success(&format!(
                    "hub {name}: is registered again; the timer reconciles it within a minute"
                )),
                Err(failure) => {
                    failed += 1;
                    term::failure(&format!("hub {name}: {failure}"));
                }
            }
        }
        match failed {
            0 => Ok(()),
            1 => Err(Error::new("1 hub is not registered")),
            count => Err(Error::new(format!("{count} hubs are not registered"))),
        }
    }
}
