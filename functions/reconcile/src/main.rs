//! The reconcile function: runs one step for each message.

use lambda_runtime::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda("reconcile");
    let ports = driftless_adapters::config::function_ports("reconcile").await?;
    run(service_fn(|event| reconcile::handle(&ports, event))).await
}
