//! `driftless serve`: a whole installation in one process.

pub mod log;
pub mod startup;

use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::root::{self, RootFlags};
use crate::term;
use driftless_flux::parse_duration;
use driftless_server::{Server, ServerOptions, StopSignals};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;

const EXAMPLES: &str = "Examples:
  driftless serve --repository acme/fleet --path clusters/staging
  driftless serve --repository file:///home/me/fleet --branch main --path clusters/dev
  driftless serve --kubeconfig hub.yaml        # a hub that already has its sources

Environment:
  DRIFTLESS_WEBHOOK_SECRET      the secret of GitHub's webhook
  DRIFTLESS_WEBHOOK_SECRET_HOST that of GITLAB, GITEA (also Forgejo), BITBUCKET or AZUREDEVOPS
  GITHUB_TOKEN                  a token for the repositories that the flags name, or:
  DRIFTLESS_GITHUB_APP_ID       the id of a GitHub App, and
  DRIFTLESS_GITHUB_APP_KEY_FILE the file with its private key
  DRIFTLESS_LOG                 the log's level, such as info or driftless=debug
  OTEL_EXPORTER_OTLP_ENDPOINT   the collector of traces, such as http://localhost:4318, and the other variables of OpenTelemetry

A hub at a loopback address, such as one of kind or k3d, may have remote clusters at loopback addresses without \
--allow-local-clusters. Changes on the hub are watched, and start at once.

POST /webhook receives the deliveries of Git hosts, and POST /hook/... those of Receivers; GET /healthz and GET /metrics are for \
all clients; the dashboard (GET / in a browser, GET /api/v1/openapi.json for its JSON), GET /api/objects and POST /sweep are only \
for this machine.";

/// The hub's name, if none is given.
pub const DEFAULT_NAME: &str = "default";

/// Serve a hub from this process, without any controller in the cluster
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    connection: Connection,
    /// The fleet repository: OWNER/NAME of GitHub, a URL, or file:///PATH. It is read with
    /// GITHUB_TOKEN or the GitHub App. Without this flag the sources that the hub already has are
    /// served
    #[arg(long, value_name = "REPOSITORY", value_parser = root::repository)]
    repository: Option<String>,
    #[command(flatten)]
    root: RootFlags,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9292")]
    listen: SocketAddr,
    /// The address of GitHub's API, for GitHub Enterprise
    #[arg(long, value_name = "URL")]
    github_api: Option<String>,
    /// The hub's name
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
    /// The directory for artifacts and state
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    rules: crate::bootstrap::Rules,
    /// The number of steps that run at the same time. How many requests are in flight to a cluster
    /// depends on its answers
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// The interval of sweeps, which find what is due
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    sweep_interval: Duration,
    /// Watch the objects that were applied, and put back at once what another client changes or
    /// deletes. Without the watches, drift is found by the sweep
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    drift_watch: bool,
    /// Add metrics of each Flux object to GET /metrics, with its name: those that Flux's Grafana
    /// dashboards show. Every client that reaches the address can read them
    #[arg(long)]
    object_metrics: bool,
    /// The format of the log
    #[arg(long, value_enum, default_value_t = log::Format::Auto)]
    log_format: log::Format,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: Args) -> Result<(), Error> {
    if args.sweep_interval < Duration::from_secs(1) {
        return Err(Error::usage("--sweep-interval: the minimum is 1s"));
    }
    log::start("serve", args.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Error::caused_by(error).context("start"))?
        .block_on(serve(&args))
}

async fn serve(args: &Args) -> Result<(), Error> {
    // Listen first: a failure must not leave changes in the cluster.
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Error::caused_by(error)
            .context(format!("listen on {}", args.listen))
            .next("give another address with --listen")
    })?;
    let address = listener.local_addr().map_err(Error::caused_by)?;
    let (installation, hub_address) = startup::start(args).await?;
    let options = ServerOptions {
        hub: args.name.clone(),
        workers: usize::from(args.workers),
        sweep_interval: args.sweep_interval,
        drift_watch: args.drift_watch,
        object_metrics: args.object_metrics,
        secret_place: |name| {
            let variable = root::webhook_variable(name);
            format!("the environment variable {variable} of driftless serve")
        },
    };
    // Handle signals before the messages that announce the server.
    let mut signals = StopSignals::new()?;
    announce(args, address, &hub_address);
    let server = Server::new(installation, options);
    Ok(server.run(listener, &mut signals).await?)
}

/// Prints what is served.
fn announce(args: &Args, address: SocketAddr, server: &str) {
    let sources = match &args.repository {
        Some(url) => format!("{url} ({} of branch {})", args.root.path, args.root.branch),
        None => "the sources of the hub".to_owned(),
    };
    term::success(&format!("serving hub {} at {server}: {sources}", args.name));
    term::success(&format!(
        "webhook: http://{address}/webhook (content type application/json, the push event)"
    ));
    term::success(&format!("dashboard: http://{}/", local_address(address)));
    if let Some(variable) = startup::unused_login(args) {
        term::failure(&format!(
            "{variable} is set, but no repository is read with it: give --repository, or \
             --allow-installation-repository flux-system=OWNER/NAME"
        ));
    }
    if !root::has_webhook_secret() {
        term::failure(&format!(
            "{} is not set: webhooks are refused, and changes are only found by the sweep every {} s",
            root::WEBHOOK_SECRET,
            args.sweep_interval.as_secs()
        ));
    }
}

/// Returns the address at which a browser on this machine reaches a server.
fn local_address(address: SocketAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        false => address,
    }
}
