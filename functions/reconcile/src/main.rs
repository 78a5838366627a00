//! The reconcile function: one step a message.

mod handler;

use lambda_runtime::{Error, run, service_fn};
use mimalloc::MiMalloc;

/// Renders are mostly small allocations: a third of the time of a chart with the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda();
    let ports = driftless_adapters::config::function_ports().await?;
    run(service_fn(|event| handler::handle(&ports, event))).await
}
