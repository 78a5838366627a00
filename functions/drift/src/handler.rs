use driftless_core::ports::Ports;
use driftless_core::sweep;
use lambda_runtime::{Error, LambdaEvent};
use serde_json::{Value, json};

/// Sweeps every hub. The event says only that a minute is over.
///
/// # Errors
/// The registry could not be read; the next minute tries again.
pub async fn handle(ports: &Ports, _event: LambdaEvent<Value>) -> Result<Value, Error> {
    let reports = sweep::sweep(ports).await?;
    let hubs = reports.iter().map(|report| {
        tracing::info!(
            hub = report.hub,
            queued = report.queued.len(),
            failed = report.failure.is_some(),
            "swept"
        );
        json!({
            "hub": report.hub,
            "queued": report.queued.iter().map(|one| one.object.to_string()).collect::<Vec<_>>(),
            "failure": report.failure.as_ref().map(|failure| &failure.message),
        })
    });
    Ok(json!({"hubs": hubs.collect::<Vec<_>>()}))
}
