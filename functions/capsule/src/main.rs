//! The capsule function: creates the kubeconfigs of owners of Capsule Tenants, and deletes those of
//! former owners.

mod handler;

use driftless_adapters::trace;
use lambda_runtime::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda("capsule");
    let ports = driftless_adapters::config::hub_ports("capsule").await?;
    run(service_fn(|event| {
        trace::invocation("capsule", handler::handle(&ports, event))
    }))
    .await
}
