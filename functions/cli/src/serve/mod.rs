//! `driftless serve`: a whole installation in one process.

mod body;
mod changes;
pub mod connections;
#[cfg(test)]
mod damaged_state_tests;
pub mod dashboard;
mod data_directory;
mod garbage;
mod http;
mod local;
pub mod log;
pub mod metrics;
pub mod startup;
#[cfg(test)]
mod testing;
pub mod worker;

use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::root;
use crate::term;
pub use data_directory::default as default_data_directory;
use driftless_flux::{FLUX_SYSTEM, parse_duration};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use worker::ServerState;

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

A hub at a loopback address, such as one of kind or k3d, may have remote clusters at loopback addresses without \
--allow-local-clusters. Changes on the hub are detected within two seconds.

POST /webhook receives the deliveries of Git hosts, and POST /hook/... those of Receivers; GET /healthz and GET /metrics are for \
all clients; the dashboard (GET / in a browser, GET /api/v1/openapi.json for its JSON), GET /api/objects and POST /sweep are only \
for this machine.";

/// The hub's name, if none is given.
pub const DEFAULT_NAME: &str = "default";
/// The time that running steps have to finish after a signal.
const GRACE: Duration = Duration::from_secs(10);

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
    /// The branch of the fleet repository
    #[arg(long, default_value = "main", requires = "repository")]
    branch: String,
    /// The directory in the fleet repository that the root Kustomization applies
    #[arg(long, default_value = "./", requires = "repository")]
    path: String,
    /// The root's name: the namespace and name of its GitRepository and Kustomization. A hub with
    /// another root, for example of another environment, gets this one in addition
    #[arg(long, value_name = "NAME", default_value = FLUX_SYSTEM, requires = "repository", value_parser = root::root_name)]
    root: String,
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
    /// The number of steps that run at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// The interval of sweeps, which find what is due
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    sweep_interval: Duration,
    /// The format of the log
    #[arg(long, value_enum, default_value_t = log::Format::Auto)]
    log_format: log::Format,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: Args) -> Result<(), Error> {
    if args.sweep_interval < Duration::from_secs(1) {
        return Err(Error::usage("--sweep-interval: the minimum is 1s"));
    }
    log::start(args.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Error::new(format!("start: {error}")))?
        .block_on(serve(&args))
}

async fn serve(args: &Args) -> Result<(), Error> {
    // Listen first: a failure must not leave changes in the cluster.
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Error::new(format!("listen on {}: {error}", args.listen))
            .next("give another address with --listen")
    })?;
    let address = listener.local_addr().map_err(Error::new)?;
    let installation = startup::start(args).await?;
    let shared = Arc::new(ServerState {
        ports: installation.ports,
        queue: installation.queue,
        metrics: metrics::Metrics::default(),
    });
    // Handle signals before the messages that announce the server.
    let mut end = StopSignals::new()?;
    announce(args, address, &installation.server);
    // Keeps the directory locked until the end.
    let _data = installation.data;

    let workers = worker::workers(&shared, usize::from(args.workers));
    let timer = worker::timer(&shared, &[&args.name], args.sweep_interval);
    let garbage = garbage::timer(shared.ports.clone(), installation.store, args.name.clone());
    let dashboard = dashboard::Dashboard::new(shared.ports.clone()).map_err(Error::new)?;
    dashboard.warm_up();
    let site = http::router(shared.clone(), args.name.clone(), dashboard.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let metrics = shared.clone();
    let count: connections::Count =
        Arc::new(move |result| metrics.metrics.count_refused_connection(result));
    let server = connections::serve(
        listener,
        site,
        count,
        connections::ConnectionLimits::default(),
        async {
            // Stop on a message, and also if the sender is dropped.
            stopped.await.unwrap_or_default();
        },
    );
    let mut server = tokio::spawn(server);
    tokio::select! {
        () = end.wait() => {}
        done = &mut server => return Err(Error::new(format!("the HTTP server failed: {done:?}"))),
    }
    tracing::info!(
        "stopping: running steps have {} s to finish; a second signal stops at once",
        GRACE.as_secs()
    );
    timer.abort();
    garbage.abort();
    shared.queue.close();
    dashboard.stop();
    drop(stop);
    let rest = futures::future::join(server, futures::future::join_all(workers));
    tokio::select! {
        rest = tokio::time::timeout(GRACE, rest) => match rest {
            Ok((Ok(()), _)) => tracing::info!("stopped"),
            Ok((served, _)) => tracing::warn!("the server failed while stopping: {served:?}"),
            Err(_) => tracing::warn!("stopped with running steps: the next start repeats them"),
        },
        () = end.wait() => tracing::warn!("stopped at once: the next start repeats interrupted steps"),
    }
    Ok(())
}

/// Prints what is served.
fn announce(args: &Args, address: SocketAddr, server: &str) {
    let sources = match &args.repository {
        Some(url) => format!("{url} ({} of branch {})", args.path, args.branch),
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
pub fn local_address(address: SocketAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        false => address,
    }
}

/// The signals SIGINT and SIGTERM.
pub struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    /// Installs the handlers of the signals.
    pub fn new() -> Result<Self, Error> {
        let signal =
            |kind| signal(kind).map_err(|error| Error::new(format!("wait for signals: {error}")));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
