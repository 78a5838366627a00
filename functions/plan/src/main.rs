//! The plan function: comments on pull requests what their change would do in the clusters.

use driftless_adapters::trace;
use lambda_runtime::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda("plan");
    let (ports, pull_requests) =
        driftless_adapters::config::function_ports_with_pull_requests("plan").await?;
    let function = plan::Function::new(ports, pull_requests);
    run(service_fn(|event| {
        trace::invocation("plan", function.handle(event))
    }))
    .await
}
