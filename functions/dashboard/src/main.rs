//! The dashboard function: pages and JSON for users who log in.

mod config;
mod handler;
#[cfg(test)]
mod logged_in_tests;
mod web;

use driftless_adapters::trace;
use lambda_http::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    driftless_adapters::log::init_lambda("dashboard");
    let ports = driftless_adapters::config::hub_ports("dashboard").await?;
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // The runtime prints the start's error by its Debug, which is the message only of a string.
    let settings = config::read(&ports, &variable).await;
    let settings = settings.map_err(|error| error.to_string())?;
    let function = handler::Function::new(ports, settings).map_err(|error| error.to_string())?;
    run(service_fn(|request| {
        trace::invocation("dashboard", function.handle(request))
    }))
    .await
}
