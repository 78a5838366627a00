//! The webhook function: receives GitHub's deliveries and queues requests.

use lambda_http::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda("webhook");
    let ports = driftless_adapters::config::hub_ports("webhook").await?;
    run(service_fn(|request| webhook::handle(&ports, request))).await
}
