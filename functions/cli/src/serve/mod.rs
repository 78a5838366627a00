//! `driftless serve`: a whole installation in one process.

mod body;
mod changes;
mod connections;
#[cfg(test)]
mod damaged_state_starts;
mod data;
mod garbage;
mod http;
mod local;
pub mod log;
pub mod metrics;
pub mod setup;
#[cfg(test)]
mod testing;
pub mod worker;

use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::term;
use driftless_core::flux::parse_duration;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use worker::Shared;

const EXAMPLES: &str = "Examples:
  driftless serve --repository acme/fleet --path clusters/staging
  driftless serve --repository file:///home/me/fleet --branch main --path clusters/dev
  driftless serve --kubeconfig hub.yaml        # a hub whose sources are there already

Environment:
  DRIFTLESS_WEBHOOK_SECRET      the secret of GitHub's webhook
  GITHUB_TOKEN                  a token for the repositories that the flags name, or:
  DRIFTLESS_GITHUB_APP_ID       the id of a GitHub App, and
  DRIFTLESS_GITHUB_APP_KEY_FILE the file with its private key
  DRIFTLESS_LOG                 the log's level, such as info or driftless_core=debug

A hub at a loopback address, such as kind's and k3d's, may have remote clusters at loopback addresses without \
--allow-local-clusters. What is changed on the hub is seen within two seconds.

POST /webhook takes GitHub's deliveries; GET /healthz and GET /metrics answer everybody; GET /api/objects and POST /sweep \
answer this machine alone.";

/// How long steps that run may take when the process is asked to end.
const GRACE: Duration = Duration::from_secs(10);

/// Serve a hub from this process, without any controller in the cluster
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    connection: Connection,
    /// The fleet repository: OWNER/NAME of GitHub, a URL, or file:///PATH. It is read with GITHUB_TOKEN or the GitHub App. Without
    /// it the hub's own sources are served
    #[arg(long, value_name = "REPOSITORY", value_parser = setup::repository)]
    repository: Option<String>,
    /// Its branch
    #[arg(long, default_value = "main", requires = "repository")]
    branch: String,
    /// The directory in it that leads to everything else
    #[arg(long, default_value = "./", requires = "repository")]
    path: String,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9292")]
    listen: SocketAddr,
    /// The address of GitHub's API, for GitHub Enterprise
    #[arg(long, value_name = "URL")]
    github_api: Option<String>,
    /// The hub's name
    #[arg(long, default_value = "default")]
    name: String,
    /// Where artifacts and state are kept
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    rules: crate::bootstrap::Rules,
    /// How many steps run at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// How often to look for what is due
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    sweep_interval: Duration,
    /// The form of the log
    #[arg(long, value_enum, default_value_t = log::Format::Auto)]
    log_format: log::Format,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: Args) -> Result<(), Error> {
    if args.sweep_interval < Duration::from_secs(1) {
        return Err(Error::usage("--sweep-interval is below 1s"));
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
    // Before anything is changed in the cluster.
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Error::new(format!("listen on {}: {error}", args.listen))
            .next("give another address with --listen")
    })?;
    let address = listener.local_addr().map_err(Error::new)?;
    let installation = setup::start(args).await?;
    let shared = Arc::new(Shared {
        ports: installation.ports,
        queue: installation.queue,
        metrics: metrics::Metrics::default(),
    });
    // Before anybody is told that it can be ended.
    let mut end = End::new()?;
    announce(args, address, &installation.server);
    // Locked until the end.
    let _data = installation.data;

    let workers = worker::workers(&shared, usize::from(args.workers));
    let timer = worker::timer(&shared, &[&args.name], args.sweep_interval);
    let garbage = garbage::timer(shared.ports.clone(), installation.store, args.name.clone());
    let site = http::router(shared.clone(), args.name.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let metrics = shared.clone();
    let count: connections::Count = Arc::new(move |result| metrics.metrics.crowded(result));
    let server = connections::serve(
        listener,
        site,
        count,
        connections::Places::default(),
        async {
            // Asked to stop, or the sender is gone: the end in both cases.
            stopped.await.unwrap_or_default();
        },
    );
    let mut server = tokio::spawn(server);
    tokio::select! {
        () = end.asked() => {}
        done = &mut server => return Err(Error::new(format!("the server ended: {done:?}"))),
    }
    tracing::info!(
        "ending: steps that run may take {} s more; the same again ends at once",
        GRACE.as_secs()
    );
    timer.abort();
    garbage.abort();
    shared.queue.close();
    drop(stop);
    let rest = futures::future::join(server, futures::future::join_all(workers));
    tokio::select! {
        rest = tokio::time::timeout(GRACE, rest) => match rest {
            Ok((Ok(()), _)) => tracing::info!("ended"),
            Ok((served, _)) => tracing::warn!("the server did not end well: {served:?}"),
            Err(_) => tracing::warn!("steps still ran: the next start repeats them"),
        },
        () = end.asked() => tracing::warn!("ended at once: the next start repeats what was cut off"),
    }
    Ok(())
}

/// Says what is served, for people.
fn announce(args: &Args, address: SocketAddr, server: &str) {
    let what = match &args.repository {
        Some(url) => format!("{url} ({} of branch {})", args.path, args.branch),
        None => "the sources that are on it".to_owned(),
    };
    term::success(&format!("serving hub {} at {server}: {what}", args.name));
    term::success(&format!(
        "webhook: http://{address}/webhook (content type application/json, the push event)"
    ));
    if let Some(variable) = setup::unused_login(args) {
        term::failure(&format!(
            "{variable} is set, and no repository is named that is read with it: give --repository, or \
             --allow-installation-repository flux-system=OWNER/NAME"
        ));
    }
    if std::env::var_os(setup::WEBHOOK_SECRET).is_none_or(|secret| secret.is_empty()) {
        let why = "webhooks are refused until it is set; the timer looks every";
        term::failure(&format!(
            "{} is not set: {why} {} s",
            setup::WEBHOOK_SECRET,
            args.sweep_interval.as_secs()
        ));
    }
}

/// SIGINT and SIGTERM.
pub struct End {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl End {
    /// Takes them from the process.
    pub fn new() -> Result<Self, Error> {
        let signal =
            |kind| signal(kind).map_err(|error| Error::new(format!("wait for signals: {error}")));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
