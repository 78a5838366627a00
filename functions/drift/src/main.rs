//! The drift function: queues the objects that are due, lost or drifted.

use lambda_runtime::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda("drift");
    let ports = driftless_adapters::config::function_ports("drift").await?;
    run(service_fn(|event| drift::handle(&ports, event))).await
}
