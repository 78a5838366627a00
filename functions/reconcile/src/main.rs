//! The reconcile function: one step a message.

mod handler;

use driftless_adapters::config::Config;
use lambda_runtime::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda();
    let ports = driftless_adapters::config::aws_ports(&Config::from_env()?).await?;
    run(service_fn(|event| handler::handle(&ports, event))).await
}
