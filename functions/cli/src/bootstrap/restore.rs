//! `driftless bootstrap restore`: registers hubs again from their secrets, after the bucket was
//! lost.

use super::{Installation, check_hub, on_nats};
use crate::error::{EXIT_CODES, Error};
use crate::nats::NatsFlags;
use crate::term;
use driftless_adapters::config;
use driftless_kernel::hub::{self, RestoreResult};
use driftless_kernel::ports::Ports;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  driftless bootstrap restore            # all hubs whose kubeconfig is in the secret manager
  driftless bootstrap restore staging
  driftless bootstrap restore --nats nats://127.0.0.1:4222 --secrets secrets

The command registers each hub that is missing in the bucket, with the settings that `driftless bootstrap` stored next to its kubeconfig. \
It refuses a hub without stored settings, because nothing would be forbidden on it: register that hub with all of its flags. \
The functions write the rest of the bucket again. The command may run at any time: the functions delete nothing on a hub that is not registered. \
Without NAME, an installation that serves one hub (parameter Hub) registers this hub alone. If other installations share the prefix of the secrets, name the hubs.

The environment is that of `driftless bootstrap`. The identity on AWS needs s3:ListBucket, s3:GetObject and s3:PutObject on hubs/*, \
secretsmanager:GetSecretValue on PREFIXhubs/*, and without NAME secretsmanager:ListSecrets.";

/// Register hubs again with the settings in their secrets, after the bucket was lost
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The hubs [default: the one that the installation serves alone, or all that have a secret]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    nats: NatsFlags,
    /// The directory with the secrets of the workers: hubs/NAME has the kubeconfig of a hub
    #[arg(long, value_name = "DIR", requires = "nats")]
    secrets: Option<PathBuf>,
}

impl Args {
    /// Registers each hub that is not registered.
    ///
    /// # Errors
    /// Fails with the errors of AWS or of NATS, and if a hub has no settings.
    pub async fn run(&self) -> Result<(), Error> {
        let (ports, names) = match self.nats.is_given() {
            true => self.on_nats().await?,
            false => self.on_aws().await?,
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

    /// Returns the ports of the installation on AWS, and the names of the hubs.
    async fn on_aws(&self) -> Result<(Ports, Vec<String>), Error> {
        let installation = Installation::from_env()?;
        let ports = config::aws_ports(&installation.0).await?;
        let only = installation.0.only_hub(&ports).await?;
        let names = match (self.names.is_empty(), only) {
            (false, only) => {
                for name in &self.names {
                    check_hub(only.as_deref(), name)?;
                }
                self.names.clone()
            }
            (true, Some(only)) => vec![only],
            (true, None) => {
                let names = installation.secrets().await.names("hubs/").await;
                names.map_err(|error| {
                    Error::from(error).next("give the names: driftless bootstrap restore NAME NAME")
                })?
            }
        };
        Ok((ports, names))
    }

    /// Returns the ports of the installation on NATS, and the names of the hubs.
    async fn on_nats(&self) -> Result<(Ports, Vec<String>), Error> {
        let installation = on_nats::Installation::new(&self.nats, self.secrets.as_deref())?;
        let names = match self.names.is_empty() {
            false => self.names.clone(),
            true => installation.names()?,
        };
        Ok((installation.ports().await?, names))
    }
}
