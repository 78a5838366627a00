//! The checks of an installation on AWS, with the configuration of its functions.

use super::cluster;
use super::report::Report;
use super::state;
use crate::term;
use bytes::Bytes;
use driftless_adapters::aws::{self, QueueState, SecretsManager, SqsQueue};
use driftless_adapters::config::{self, Config};
use driftless_core::webhook;
use driftless_flux::{FLUX_SYSTEM, FluxKind, GitRepository};
use driftless_kernel::functions;
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{GitAuth, Ports, Precondition, PutOutcome};

/// The key of the object that probes conditional writes.
const PROBE: &str = "doctor/probe";

/// The expected settings of a queue in infra/template.yaml.
struct Expected {
    /// The name of the check.
    check: &'static str,
    /// The environment variable with the queue's URL.
    variable: &'static str,
    /// The timeout of the function that receives its messages, in seconds; AWS recommends a
    /// visibility timeout of six times as much.
    seconds: u64,
    /// True if the template has a dead-letter queue for it.
    keeps_dead_letters: bool,
}

const STEPS: Expected = Expected {
    check: "queue",
    variable: "DRIFTLESS_QUEUE_URL",
    seconds: 120,
    keeps_dead_letters: true,
};
const ISOLATED: Expected = Expected {
    check: "queue of isolated steps",
    variable: "DRIFTLESS_ISOLATED_QUEUE_URL",
    seconds: 120,
    keeps_dead_letters: true,
};
const SWEEPS: Expected = Expected {
    check: "queue of sweeps",
    variable: "DRIFTLESS_SWEEP_QUEUE_URL",
    seconds: 55,
    // A sweep is not retried: the next minute sends another one.
    keeps_dead_letters: false,
};

/// Runs all checks.
pub async fn check(config: &Config, report: &mut Report) {
    let settings = aws::settings().await;
    let ports = match config::aws_ports_with(config, &settings) {
        Ok(ports) => ports,
        Err(error) => {
            report.fail("AWS", error, "check AWS_REGION and the credentials of AWS");
            return;
        }
    };
    bucket(&ports, report).await;
    let steps = SqsQueue::new(&settings, config.queue_url.as_str());
    queues(&steps, &STEPS, report).await;
    for (url, expected, output) in [
        (&config.isolated_queue_url, &ISOLATED, "IsolatedQueueUrl"),
        (&config.sweep_queue_url, &SWEEPS, "SweepQueueUrl"),
    ] {
        let Expected {
            check, variable, ..
        } = expected;
        match url {
            Some(url) => queues(&SqsQueue::new(&settings, url.as_str()), expected, report).await,
            None => report.note(
                check,
                format!("{variable} is not set: the {check} is not checked"),
                &format!("set it to the output {output} of the stack"),
            ),
        }
    }
    secrets(&ports, report).await;
    versions(&ports, report).await;
    let names = match hub::names(&ports).await {
        Ok(names) => names,
        Err(error) => {
            report.fail("hubs", error, "check the rights on hubs/* of the bucket");
            return;
        }
    };
    if names.is_empty() {
        let next = "driftless bootstrap --name NAME --repository OWNER/NAME --path PATH";
        report.note("hubs", "no hub is registered", next);
    }
    let secrets = SecretsManager::new(&settings, config.secrets_prefix.as_str());
    match config.only_hub(&ports).await {
        Ok(only) => state::kubeconfigs(&secrets, &names, only.as_deref(), report).await,
        Err(error) => report.fail(
            "kubeconfigs",
            error,
            "check the rights on versions/drift.json",
        ),
    }
    let stored = state::read(&ports, report).await;
    if let Some(stored) = &stored {
        state::of_hubs(stored, &names, &config.bucket, report);
    }
    for name in names {
        term::action(&format!("hub {name}"));
        match hub::connect(&ports, &name).await {
            Ok(hub) => {
                cluster::check(&hub, &format!("hub {name}"), report).await;
                repository(&ports, &hub, report).await;
                state::copy(&ports, &hub, report).await;
                if let Some(stored) = &stored {
                    state::of_objects(stored, &hub, &config.bucket, report).await;
                }
            }
            Err(failure) => {
                let next =
                    format!("driftless bootstrap --name {name}: it stores the kubeconfig again");
                report.fail(&format!("hub {name}"), failure, &next);
            }
        }
    }
}

/// Checks that the functions have the version of this command. Each function stores its version
/// when it starts.
async fn versions(ports: &Ports, report: &mut Report) {
    const CHECK: &str = "functions";
    let found = match functions::versions(ports.blobs.as_ref()).await {
        Ok(found) => found,
        Err(error) => {
            report.fail(CHECK, error, "check the rights on versions/* of the bucket");
            return;
        }
    };
    if found.is_empty() {
        let next = "deploy infra/template.yaml; the timer starts the drift function each minute";
        report.note(CHECK, "no function has started yet", next);
        return;
    }
    let own = functions::VERSION;
    for (name, version) in &found {
        if version != own {
            let message =
                format!("{name} runs version {version}, and this command is version {own}");
            report.note(
                CHECK,
                &message,
                "deploy the functions and the command of one version",
            );
        }
    }
    if found.values().all(|version| version == own) {
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        report.pass(CHECK, format!("{} run version {own}", names.join(", ")));
    }
}

/// Checks that the installation's login can read the fleet repository of a hub.
async fn repository(ports: &Ports, hub: &Hub, report: &mut Report) {
    for (root, url) in hub.settings.roots() {
        root_repository(ports, hub, root, url, report).await;
    }
}

/// Checks that the installation's login can read the repository of a root.
async fn root_repository(ports: &Ports, hub: &Hub, root: &str, url: &str, report: &mut Report) {
    let name = &hub.settings.name;
    let check = match root {
        FLUX_SYSTEM => format!("hub {name}: repository"),
        root => format!("hub {name}: repository of root {root}"),
    };
    let sources = match hub.list(FluxKind::GitRepository).await {
        Ok(sources) => sources.into_iter(),
        Err(error) => {
            let next = "check the rights of the hub's user on gitrepositories";
            report.fail(&check, error, next);
            return;
        }
    };
    let mut sources = sources.filter_map(|object| GitRepository::from_object(object).ok());
    let is_of_root = |source: &GitRepository| {
        source.id.namespace == root && source.id.name == root && source.spec.url == url
    };
    let source = sources.find(is_of_root);
    let Some(reference) = source.map(|source| source.reference()) else {
        let found = format!("GitRepository/{root}/{root} does not follow {url}");
        let next = "driftless bootstrap with --repository creates it";
        report.note(&check, found, next);
        return;
    };
    let login = GitAuth::Installation;
    match ports.git.resolve(url, &reference, &login, None).await {
        Ok(commit) => report.pass(&check, format!("{url} is read at {}", commit.revision())),
        Err(error) => {
            let next = "check that the host can be reached, and that github/app or github/token is valid and may read it \
                        (infra/README.md)";
            report.fail(&check, format!("{url}: {error}"), next);
        }
    }
}

/// Checks conditional writes: without them the bucket loses leases.
async fn bucket(ports: &Ports, report: &mut Report) {
    let next = "check DRIFTLESS_BUCKET, and the rights on doctor/* of it";
    let blobs = ports.blobs.as_ref();
    let put = || blobs.put(PROBE, Bytes::from_static(b"probe"), Precondition::Absent);
    let results = async {
        blobs.delete(PROBE).await?;
        let first = put().await?;
        let second = put().await?;
        blobs.delete(PROBE).await?;
        Ok((first, second))
    };
    let results: driftless_kernel::ports::Result<(PutOutcome, PutOutcome)> = results.await;
    match results {
        Ok((PutOutcome::Done(_), PutOutcome::PreconditionFailed)) => {
            report.pass("bucket", "writable, with conditional writes");
        }
        Ok(_) => report.fail(
            "bucket",
            "If-None-Match is ignored",
            "use S3, or a service with conditional writes",
        ),
        Err(error) => report.fail("bucket", error, next),
    }
}

async fn queues(queue: &SqsQueue, expected: &Expected, report: &mut Report) {
    let Expected {
        check,
        variable,
        seconds,
        keeps_dead_letters,
    } = *expected;
    let state = match queue.state().await {
        Ok(state) => state,
        Err(error) => {
            let next = format!("check {variable}, and the right sqs:GetQueueAttributes");
            report.fail(check, error, &next);
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
    let found = format!("{waiting} messages are waiting, {in_flight} are in flight");
    if visibility_seconds < seconds {
        let found = format!(
            "the visibility timeout of {visibility_seconds} s is shorter than the function's timeout"
        );
        report.fail(check, found, "deploy infra/template.yaml without changes");
    } else {
        report.pass(check, found);
    }
    let check = &format!("{check}: dead letters");
    match dead_letters {
        None if !keeps_dead_letters => {}
        None => report.fail(
            check,
            "the queue has no dead-letter queue",
            "deploy infra/template.yaml without changes",
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
    let mut set = Vec::new();
    for name in [webhook::SECRET].into_iter().chain(webhook::OTHER_SECRETS) {
        match ports.secrets.secret(name).await {
            Ok(Some(_)) => set.push(name),
            Ok(None) => {}
            Err(error) => {
                report.fail("webhook", error, next);
                return;
            }
        }
    }
    match set.is_empty() {
        false => report.pass("webhook", format!("the secret is set: {}", set.join(", "))),
        true => {
            let next = format!(
                "store a random string as {}, or as {} for another host, and give it to the host's webhook",
                webhook::SECRET,
                webhook::OTHER_SECRETS.join(", "),
            );
            report.note(
                "webhook",
                "no secret is set: pushes wait for the timer",
                &next,
            );
        }
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
        Some(name) => report.pass("GitHub", format!("the installation has the login {name}; it is tried on each hub's repository")),
        None => report.note(
            "GitHub",
            "the installation has no login: each private repository needs a Secret, and rate limits are those of anonymous users",
            "store github/app or github/token (infra/README.md)",
        ),
    }
}
