//! Handles the timer's event: reconciles the kubeconfigs of Tenant owners on each hub that has a
//! Capsule proxy.

use driftless_core::capsule::{self, Report};
use driftless_kernel::ports::Ports;
use lambda_runtime::{Error, LambdaEvent};
use serde_json::{Value, json};

/// Reconciles the accounts of every hub that has a Capsule proxy. The event has no content that is
/// used.
///
/// # Errors
/// Fails if the registry cannot be read, and after all work if something failed on a hub, so that
/// the metric of this function's errors counts it. The next event tries again.
pub async fn handle(ports: &Ports, _event: LambdaEvent<Value>) -> Result<Value, Error> {
    let reports = capsule::run(ports).await?;
    let failed: Vec<String> = reports.iter().flat_map(failures).collect();
    if !failed.is_empty() {
        return Err(failed.join("; ").into());
    }
    Ok(json!({"hubs": reports.iter().map(summarize).collect::<Vec<_>>()}))
}

fn failures(report: &Report) -> impl Iterator<Item = String> {
    report
        .failures
        .iter()
        .map(|failure| format!("{}: {failure}", report.hub))
}

fn summarize(report: &Report) -> Value {
    tracing::info!(
        hub = report.hub,
        applied = report.applied.len(),
        deleted = report.deleted.len(),
        "reconciled the owners of Capsule Tenants"
    );
    json!({"hub": report.hub, "applied": report.applied, "deleted": report.deleted})
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::hub::{self, CapsuleProxy, Settings};
    use std::sync::Arc;

    const MINUTE: &str = include_str!("../../../events/capsule-schedule.json");

    async fn answer(ports: &Ports) -> Result<Value, Error> {
        let event = serde_json::from_str(MINUTE)?;
        handle(
            ports,
            LambdaEvent::new(event, lambda_runtime::Context::default()),
        )
        .await
    }

    #[tokio::test]
    async fn hubs_without_a_proxy_are_left_alone_and_failures_are_errors() {
        let ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let mut settings = Settings {
            name: "plain".to_owned(),
            ..Settings::default()
        };
        hub::register(&ports, &settings).await.expect("register");
        assert_eq!(
            answer(&ports).await.expect("an answer"),
            json!({"hubs": []})
        );

        // This hub has no kubeconfig.
        settings.name = "tenants".to_owned();
        settings.capsule_proxy = Some(CapsuleProxy {
            url: "https://proxy.example.com:9001".to_owned(),
            certificate_authority: None,
        });
        hub::register(&ports, &settings).await.expect("register");
        let failed = answer(&ports).await.expect_err("an error").to_string();
        assert!(
            failed.starts_with("tenants: the secret manager has no"),
            "{failed}"
        );
    }
}
