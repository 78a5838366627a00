//! `driftless demo`: a hub, its remote clusters and a fleet, all in this process, and what happens to them.

mod kubeconfigs;
mod screen;
mod summary;
mod watch;

use crate::embedded::{State, World};
use crate::error::{EXIT_CODES, Error};
use crate::fleet::{self, Fleet};
use crate::serve::{End, log, metrics::Metrics, work};
use crate::term;
use clap::ValueEnum;
use driftless_adapters::aws::S3Buckets;
use driftless_adapters::charts::HttpCharts;
use driftless_adapters::local::{LocalQueue, SystemClock};
use driftless_core::flux::parse_duration;
use screen::Screen;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use watch::Watch;
use work::Shared;

const EXAMPLES: &str = "Examples:
  driftless demo                       # stays up: edit driftless-demo/fleet, look with kubectl
  driftless demo --once                # ends with a table of every object
  driftless demo --once -o json
  driftless demo --fleet ../fleet --path clusters/staging

Everything is in this process: the API servers are embedded ones, the repositories are folders. There are no nodes: the
status of workloads is simulated as if all pods ran.";

/// How often everything is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing may change until what is not ready counts as failed.
const QUIET: Duration = Duration::from_secs(3);
/// How long a folder must be quiet until its content is a commit.
const SETTLED: Duration = Duration::from_millis(150);
/// How often to look for what is due.
const SWEEP: Duration = Duration::from_secs(60);
const WORKERS: usize = 8;

/// Run a hub, two remote clusters and a sample fleet in this process
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// End when the fleet is synced: exit code 0 when all of it is ready
    #[arg(long)]
    once: bool,
    /// Where the sample fleet and the kubeconfig are written; a fleet that is there already is kept as it is
    #[arg(long, value_name = "DIR", default_value = "driftless-demo")]
    dir: PathBuf,
    /// A fleet repository of yours in place of the sample
    #[arg(long, value_name = "DIR")]
    fleet: Option<PathBuf>,
    #[command(flatten)]
    options: fleet::Options,
    /// How long the first sync may take with --once
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    timeout: Duration,
    /// What --once prints
    #[arg(short, long, value_enum, default_value_t = Format::Table, requires = "once")]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    Table,
    /// A JSON document
    Json,
}

/// Runs until the end is asked for, or with `--once` until the fleet is synced.
pub fn run(args: Args) -> Result<(), Error> {
    log::start_if_asked()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Error::new(format!("start: {error}")))?
        .block_on(demo(&args))
}

async fn demo(args: &Args) -> Result<(), Error> {
    let mut end = End::new()?;
    let (fleet, folder) = prepare(args).await?;
    let queue = LocalQueue::new(100_000);
    let world = World::start(
        &fleet,
        Arc::new(HttpCharts::new()),
        Arc::new(S3Buckets::new()),
        Arc::new(queue.clone()),
        Arc::new(SystemClock),
        true,
    )
    .await?;
    let shared = Arc::new(Shared {
        ports: world.ports.clone(),
        queue,
        metrics: Metrics::default(),
    });
    let workers = work::workers(&shared, WORKERS);
    let names: Vec<&str> = world.hubs.iter().map(|hub| hub.name.as_str()).collect();
    let timer = work::timer(&shared, &names, SWEEP);
    let show = Show {
        args,
        folder: &folder,
        world: &world,
        queue: shared.queue.clone(),
        watch: Watch::new(&world),
        screen: Screen::new(),
    };
    let done = tokio::select! {
        done = show.run() => done,
        () = end.asked() => Ok(()),
    };
    timer.abort();
    shared.queue.close();
    futures::future::join_all(workers).await;
    done
}

/// The fleet and its folder: the user's own, or the sample.
async fn prepare(args: &Args) -> Result<(Fleet, PathBuf), Error> {
    if let Some(folder) = &args.fleet {
        return Ok((args.options.open(folder, SETTLED).await?, folder.clone()));
    }
    args.options.refuse("--fleet")?;
    let folder = args.dir.join("fleet");
    let shown = folder.display();
    if folder.exists() {
        term::success(&format!("the fleet is in {shown}, as it was left"));
    } else {
        fleet::write_sample(&folder)?;
        term::success(&format!("wrote the sample fleet into {shown}"));
    }
    Ok((Fleet::sample(&folder, SETTLED)?, folder))
}

/// What a person sees.
struct Show<'a> {
    args: &'a Args,
    folder: &'a Path,
    world: &'a World,
    queue: LocalQueue,
    watch: Watch<'a>,
    screen: Screen,
}

impl Show<'_> {
    async fn run(mut self) -> Result<(), Error> {
        let start = Instant::now();
        let (mut rows, mut changed, mut synced) = (Vec::new(), start, false);
        let (mut kubeconfig, mut known) = (PathBuf::new(), 0);
        loop {
            if self.watch.look().await? {
                let now = self.world.snapshot().await?;
                if now != rows {
                    (rows, changed) = (now, Instant::now());
                }
            }
            if !self.queue.is_quiet() {
                changed = Instant::now();
            }
            let remotes = self.world.remotes().len();
            if kubeconfig.as_os_str().is_empty() || remotes != known {
                kubeconfig = kubeconfigs::write(&self.args.dir, self.world)?;
                known = remotes;
            }
            self.screen.draw(&rows);
            let ready = !rows.is_empty() && rows.iter().all(|row| row.state == State::Ready);
            let took = start.elapsed();
            let is_over = ready || changed.elapsed() >= QUIET || took >= self.args.timeout;
            if is_over && !synced {
                synced = true;
                if self.args.once {
                    drop(self.screen);
                    let as_json = self.args.output == Format::Json;
                    return summary::print(self.world, &rows, as_json, took).await;
                }
                let what = if ready {
                    "synced in"
                } else {
                    "not all of it is ready after"
                };
                self.screen.say(&[
                    format!("{what} {:.1} s; ctrl-c ends it", took.as_secs_f64()),
                    format!(
                        "export KUBECONFIG={}; kubectl get kustomizations -A",
                        kubeconfig.display()
                    ),
                    format!(
                        "edit a file in {}: it is applied within a second",
                        self.folder.display()
                    ),
                ]);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
