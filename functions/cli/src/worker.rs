//! `driftless worker`: one of any number of processes that share an installation on NATS JetStream.

use crate::error::{EXIT_CODES, Error};
use crate::nats::NatsFlags;
use crate::root;
use crate::serve::{log, startup};
use crate::term;
use driftless_adapters::config::{self, shared_ports};
use driftless_adapters::local::LocalSecrets;
use driftless_flux::parse_duration;
use driftless_kernel::functions;
use driftless_kernel::hub;
use driftless_kernel::ports::Ports;
use driftless_nats::{NatsBlobs, NatsQueue};
use driftless_server::{StopSignals, Worker, WorkerOptions};
use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

const EXAMPLES: &str = "Examples:
  driftless worker --nats nats://127.0.0.1:4222 --secrets /etc/driftless/secrets
  driftless worker --nats tls://a.nats:4222 --nats tls://b.nats:4222 \\
    --nats-credentials worker.creds --secrets /etc/driftless/secrets --listen 0.0.0.0:8080
  driftless bootstrap --nats nats://127.0.0.1:4222 --secrets secrets --name staging \\
    --repository acme/fleet --path clusters/staging       # register a hub first

Environment:
  DRIFTLESS_NATS                the addresses of --nats, with commas
  DRIFTLESS_WEBHOOK_SECRET      the secret of GitHub's webhook
  DRIFTLESS_WEBHOOK_SECRET_HOST that of GITLAB, GITEA (also Forgejo), BITBUCKET or AZUREDEVOPS
  GITHUB_TOKEN                  a token for the repositories that hubs may read, or:
  DRIFTLESS_GITHUB_APP_ID       the id of a GitHub App, and
  DRIFTLESS_GITHUB_APP_KEY_FILE the file with its private key
  DRIFTLESS_GITHUB_HOSTS        the APIs of GitHub Enterprise: HOST=https://HOST/api/v3, with commas
  DRIFTLESS_LOG                 the log's level, such as info or driftless=debug
  OTEL_EXPORTER_OTLP_ENDPOINT   the collector of traces, such as http://localhost:4318, and the other variables of OpenTelemetry

Start it as often as the work needs, on any machines: all workers share the streams of one installation. NATS 2.12 or newer with \
JetStream. Each worker needs the kubeconfig of every hub: --secrets has a file for each, hubs/NAME.

POST /webhook receives the deliveries of Git hosts, and POST /hook/... those of Receivers; GET /healthz, GET /readyz and GET /metrics \
are for all clients. Not supported: watches of hubs (changes on a hub wait for its sweep), the dashboard, plans of pull requests, and \
kubeconfigs for owners of Capsule Tenants.

SIGTERM: running steps have 20 s to finish; then their messages return to the stream.";

/// Run steps and sweeps of an installation on NATS JetStream, next to other workers
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    nats: NatsFlags,
    /// The directory with a file for each secret, such as hubs/NAME with the kubeconfig of a hub.
    /// Those of the environment take precedence
    #[arg(long, value_name = "DIR")]
    secrets: PathBuf,
    /// The address to listen on, for webhooks and metrics. Without it, the worker has neither
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The number of steps that run at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// The interval of sweeps, which find what is due: the same for all workers, 10m at most
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    sweep_interval: Duration,
    /// The URL of the API of github.com; DRIFTLESS_GITHUB_HOSTS has those of GitHub Enterprise
    #[arg(long, value_name = "URL")]
    github_api: Option<String>,
    /// The format of the log
    #[arg(long, value_enum, default_value_t = log::Format::Auto)]
    log_format: log::Format,
}

/// Works until SIGINT or SIGTERM.
pub fn run(args: Args) -> Result<(), Error> {
    let limits = Duration::from_secs(1)..=Duration::from_secs(600);
    if !limits.contains(&args.sweep_interval) {
        return Err(Error::usage("--sweep-interval: expected 1s to 10m"));
    }
    if !args.nats.is_given() {
        return Err(Error::usage("--nats is required").next(
            "give the address of a server of NATS, as --nats nats://127.0.0.1:4222 or in DRIFTLESS_NATS",
        ));
    }
    args.nats.check()?;
    if !args.secrets.is_dir() {
        let shown = args.secrets.display();
        return Err(
            Error::usage(format!("--secrets: {shown} is not a directory"))
                .next("create it, or register a hub with driftless bootstrap --nats, which does"),
        );
    }
    log::start("worker", args.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Error::caused_by(error).context("start"))?
        .block_on(work(args))
}

async fn work(args: Args) -> Result<(), Error> {
    let github_hosts = env::var("DRIFTLESS_GITHUB_HOSTS").ok();
    let hosts = config::hosts(args.github_api.as_deref(), github_hosts.as_deref());
    let hosts = hosts.map_err(Error::usage)?;
    let listener = match args.listen {
        Some(address) => Some(TcpListener::bind(address).await.map_err(|error| {
            Error::caused_by(error)
                .context(format!("listen on {address}"))
                .next("give another address with --listen")
        })?),
        None => None,
    };
    let address = listener.as_ref().map(TcpListener::local_addr).transpose();
    let address = address.map_err(Error::caused_by)?;
    let nats = args.nats.connect().await?;
    let queue = NatsQueue::new(&nats, args.sweep_interval);
    let given = startup::secrets(None, None)?;
    let ports = shared_ports(
        Arc::new(NatsBlobs::new(&nats)),
        Arc::new(queue.clone()),
        Arc::new(LocalSecrets::new(given, Some(args.secrets.clone()))),
        hosts,
    )?;
    let hubs = hub::names(&ports).await?;
    functions::register(ports.blobs.as_ref(), "worker", None).await?;
    let mut signals = StopSignals::new()?;
    announce(&args, address, &hubs);
    warn_of_missing_secrets(&ports, &hubs).await;
    let options = WorkerOptions {
        concurrency: usize::from(args.concurrency),
        sweep_interval: args.sweep_interval,
        secret_place: |name| {
            let variable = root::webhook_variable(name);
            format!(
                "the environment variable {variable} of driftless worker, or the file {name} of --secrets"
            )
        },
    };
    let worker = Worker::start(ports, &nats, queue, options);
    Ok(worker.run(listener, &mut signals).await?)
}

/// Prints what the worker does.
fn announce(args: &Args, address: Option<SocketAddr>, hubs: &[String]) {
    let noun = if hubs.len() == 1 { "hub" } else { "hubs" };
    term::success(&format!(
        "working for {} {noun} at {}: {} steps at the same time",
        hubs.len(),
        args.nats.display(),
        args.concurrency
    ));
    if let Some(address) = address {
        term::success(&format!(
            "webhook: http://{address}/webhook (content type application/json, the push event)"
        ));
    }
    if hubs.is_empty() {
        term::failure(
            "no hub is registered: driftless bootstrap --nats ... --name NAME registers one",
        );
    }
}

/// Prints the hubs whose kubeconfig this worker does not have.
async fn warn_of_missing_secrets(ports: &Ports, hubs: &[String]) {
    for hub in hubs {
        let name = format!("hubs/{hub}");
        match ports.secrets.secret(&name).await {
            Ok(Some(_)) => {}
            Ok(None) => term::failure(&format!(
                "hub {hub}: --secrets has no file {name} with its kubeconfig; its steps fail in this worker"
            )),
            Err(error) => term::failure(&format!("hub {hub}: {error}")),
        }
    }
}
