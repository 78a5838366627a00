//! The checks of an installation on AWS, as its functions see it.

use super::cluster;
use super::report::Report;
use crate::term;
use bytes::Bytes;
use driftless_adapters::aws::{self, QueueState, SqsQueue};
use driftless_adapters::config::{self, Config};
use driftless_core::ports::{Ports, Precondition, Put};
use driftless_core::{hub, webhook};

/// Where the probe of conditional writes goes.
const PROBE: &str = "doctor/probe";
/// The time limit of the reconcile function (infra/template.yaml); AWS asks for a visibility time-out of six times as much.
const FUNCTION_SECONDS: u64 = 120;

/// Checks everything.
pub async fn check(config: &Config, report: &mut Report) {
    let ports = match config::aws_ports(config).await {
        Ok(ports) => ports,
        Err(error) => {
            report.fail("AWS", error, "check AWS_REGION and the credentials of AWS");
            return;
        }
    };
    bucket(&ports, report).await;
    let settings = aws::settings().await;
    let queue = SqsQueue::new(&settings, config.queue_url.as_str());
    queues(&queue, "queue", FUNCTION_SECONDS, report).await;
    secrets(&ports, report).await;
    let names = match hub::names(&ports).await {
        Ok(names) => names,
        Err(error) => {
            report.fail("hubs", error, "check the rights on hubs/* of the bucket");
            return;
        }
    };
    if names.is_empty() {
        let next = "driftless bootstrap --name NAME --repository OWNER/NAME --path PATH";
        report.note("hubs", "none is registered", next);
    }
    for name in names {
        term::action(&format!("hub {name}"));
        match hub::connect(&ports, &name).await {
            Ok(hub) => cluster::check(&hub, &format!("hub {name}"), report).await,
            Err(failure) => {
                let next =
                    format!("driftless bootstrap --name {name}: it stores the kubeconfig anew");
                report.fail(&format!("hub {name}"), failure, &next);
            }
        }
    }
}

/// Records are written with conditions: a bucket that ignores them loses leases.
async fn bucket(ports: &Ports, report: &mut Report) {
    let next = "check DRIFTLESS_BUCKET, and the rights on doctor/* of it";
    let blobs = ports.blobs.as_ref();
    let put = || blobs.put(PROBE, Bytes::from_static(b"probe"), Precondition::Absent);
    let twice = async {
        blobs.delete(PROBE).await?;
        let first = put().await?;
        let second = put().await?;
        blobs.delete(PROBE).await?;
        Ok((first, second))
    };
    let twice: driftless_core::ports::Result<(Put, Put)> = twice.await;
    match twice {
        Ok((Put::Done(_), Put::PreconditionFailed)) => {
            report.pass("bucket", "it can be written, and obeys conditions");
        }
        Ok(_) => report.fail(
            "bucket",
            "it ignores If-None-Match",
            "use S3, or a service that has conditional writes",
        ),
        Err(error) => report.fail("bucket", error, next),
    }
}

async fn queues(queue: &SqsQueue, check: &str, function: u64, report: &mut Report) {
    let state = match queue.state().await {
        Ok(state) => state,
        Err(error) => {
            let next = "check DRIFTLESS_QUEUE_URL, and the right sqs:GetQueueAttributes";
            report.fail(check, error, next);
            return;
        }
    };
    let QueueState {
        waiting,
        in_flight,
        visibility_seconds,
        dead_letters,
        ..
    } = state;
    let found = format!("{waiting} messages wait, {in_flight} are worked on");
    if visibility_seconds < function {
        let found = format!(
            "its visibility time-out of {visibility_seconds} s is shorter than the function's"
        );
        report.fail(check, found, "deploy infra/template.yaml as it is");
    } else {
        report.pass(check, found);
    }
    let check = &format!("{check}: dead letters");
    match dead_letters {
        None => report.fail(
            check,
            "the queue has no dead-letter queue",
            "deploy infra/template.yaml as it is",
        ),
        Some(0) => report.pass(check, "none"),
        Some(count) => {
            let next = "read their bodies and the function's log; objects recover by the timer, and the letters can be purged";
            report.note(check, format!("{count} messages"), next);
        }
    }
}

async fn secrets(ports: &Ports, report: &mut Report) {
    let next = "check the right secretsmanager:GetSecretValue on the prefix";
    match ports.secrets.secret(webhook::SECRET).await {
        Ok(Some(_)) => report.pass("webhook", "its secret is set"),
        Ok(None) => {
            let next = format!(
                "store a random text as {} and give it to GitHub's webhook",
                webhook::SECRET
            );
            report.note(
                "webhook",
                "its secret is not set: pushes wait for the timer",
                &next,
            );
        }
        Err(error) => report.fail("webhook", error, next),
    }
    let mut found = Vec::new();
    for name in ["github/app", "github/token"] {
        match ports.secrets.secret(name).await {
            Ok(Some(_)) => found.push(name),
            Ok(None) => {}
            Err(error) => {
                report.fail("GitHub", error, next);
                return;
            }
        }
    }
    match found.first() {
        Some(name) => report.pass("GitHub", format!("the installation logs in with {name}")),
        None => report.note(
            "GitHub",
            "the installation has no login: private repositories need a Secret each, and limits are those of anybody",
            "store github/app or github/token (infra/README.md)",
        ),
    }
}
