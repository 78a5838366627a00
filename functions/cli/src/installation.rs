//! The installation on AWS that the environment configures.

use crate::error::Error;
use driftless_adapters::config::{self, Config};
use driftless_kernel::ports::Ports;

/// Connects to the installation.
///
/// # Errors
/// The environment or the credentials of AWS are not complete.
pub async fn ports() -> Result<Ports, Error> {
    let config = Config::from(|name| std::env::var(name).ok());
    let config = config.map_err(|error| {
        Error::usage(format!("the installation: {error}"))
            .next("take it from the outputs of the stack (infra/template.yaml)")
    })?;
    let ports = config::aws_ports(&config).await;
    ports.map_err(|error| Error::from(error).next("check AWS_REGION and the credentials of AWS"))
}
