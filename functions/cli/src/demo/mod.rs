//! The command `driftless demo`: runs a hub, its remote clusters and a fleet in this process, and
//! shows their state.

mod dashboard;
mod kubeconfigs;
mod line;
mod region;
mod screen;
mod summary;
mod tree;
mod watch;

use crate::error::{EXIT_CODES, Error};
use crate::fleet_options::FleetOptions;
use crate::output::{Output, TableOrJson};
use crate::serve::log;
use crate::term::{self, Mark};
use driftless_adapters::buckets::HttpBuckets;
use driftless_adapters::charts::HttpCharts;
use driftless_adapters::local::{LocalQueue, SystemClock};
use driftless_adapters::trace::TracedQueue;
use driftless_fleet::check::StandIns;
use driftless_fleet::embedded::{Row, State, World};
use driftless_fleet::{Fleet, write_sample};
use driftless_flux::parse_duration;
use driftless_server::{BackgroundTasks, StopSignals, TaskOptions};
use line::Line;
use screen::Screen;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use watch::Watch;

const EXAMPLES: &str = "Examples:
  driftless demo                       # stays up: edit driftless-demo/fleet, look with kubectl
  driftless demo --once                # ends with a table of every object
  driftless demo --once -o json
  driftless demo --fleet ../fleet --path clusters/staging

Everything is in this process: the API servers are embedded ones, the repositories are directories. There are no nodes: the \
status of workloads is simulated as if all pods ran.";

/// The interval of checks for changes.
const POLL: Duration = Duration::from_millis(50);
/// The idle time after which objects that are not ready count as failed.
const IDLE_UNTIL_FAILED: Duration = Duration::from_secs(3);
/// The idle time after which a directory's content is a commit, and stand-ins of the fleet are
/// created.
const IDLE_UNTIL_COMMIT: Duration = Duration::from_millis(150);
/// The interval of sweeps.
const SWEEP: Duration = Duration::from_secs(60);
const WORKERS: usize = 8;

/// Run a hub, two remote clusters and a sample fleet in this process
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), mut_arg("output", |flag| flag.requires("once").help("The output format of --once")))]
pub struct Args {
    /// Exit when the fleet is synced, with code 0 if all of it is ready
    #[arg(long)]
    once: bool,
    /// Directory for the sample fleet and the kubeconfig; an existing fleet is kept
    #[arg(long, value_name = "DIR", default_value = "driftless-demo")]
    dir: PathBuf,
    /// Directory of a fleet repository in place of the sample
    #[arg(long, value_name = "DIR")]
    fleet: Option<PathBuf>,
    #[command(flatten)]
    options: FleetOptions,
    /// Timeout of the first sync with --once
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    output: Output<TableOrJson>,
}

/// Runs until a signal, or with `--once` until the fleet is synced.
pub fn run(args: Args) -> Result<(), Error> {
    let logs = log::start_if_asked()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Error::caused_by(error).context("cannot start the runtime"))?
        .block_on(demo(&args, logs))
}

async fn demo(args: &Args, logs: bool) -> Result<(), Error> {
    let mut end = StopSignals::new()?;
    let (fleet, directory) = prepare(args).await?;
    let queue = LocalQueue::new(100_000);
    let mut world = World::start(
        &fleet,
        Arc::new(HttpCharts::new()),
        Arc::new(HttpBuckets::default()),
        Arc::new(TracedQueue::new(Arc::new(queue.clone()))),
        Arc::new(SystemClock),
        true,
    )
    .await?;
    let stand_ins = match args.fleet {
        Some(_) => Some(StandIns::new(fleet, &mut world)?),
        None => None,
    };
    let names: Vec<&str> = world.hubs.iter().map(|hub| hub.name.as_str()).collect();
    let options = TaskOptions {
        hubs: &names,
        workers: WORKERS,
        sweep_interval: SWEEP,
        drift_watch: true,
        object_metrics: false,
    };
    let tasks = BackgroundTasks::start(world.ports.clone(), queue.clone(), &options);
    let dashboard = match args.once {
        true => None,
        false => Some(dashboard::serve(world.ports.clone()).await?),
    };
    let show = DemoOutput {
        dashboard: dashboard.as_ref().map(|served| served.url.clone()),
        args,
        directory: &directory,
        world: &world,
        stand_ins,
        queue,
        watch: Watch::new(&world),
        screen: Screen::new(logs),
    };
    let done = tokio::select! {
        done = show.run() => done,
        () = end.wait() => Ok(()),
    };
    tasks.stop().await;
    done
}

/// Returns the fleet and its directory: the user's fleet, or the sample.
async fn prepare(args: &Args) -> Result<(Fleet, PathBuf), Error> {
    if let Some(directory) = &args.fleet {
        return Ok((
            args.options.open(directory, IDLE_UNTIL_COMMIT).await?,
            directory.clone(),
        ));
    }
    args.options.refuse("--fleet")?;
    let directory = args.dir.join("fleet");
    let shown = directory.display();
    if directory.exists() {
        term::success(&format!("the fleet in {shown} is kept"));
    } else {
        write_sample(&directory)?;
        term::success(&format!("wrote the sample fleet into {shown}"));
    }
    Ok((Fleet::sample(&directory, IDLE_UNTIL_COMMIT)?, directory))
}

/// The output on the terminal.
struct DemoOutput<'a> {
    args: &'a Args,
    directory: &'a Path,
    world: &'a World,
    /// Present for the user's own fleet.
    stand_ins: Option<StandIns>,
    queue: LocalQueue,
    watch: Watch<'a>,
    /// The address of the dashboard.
    dashboard: Option<String>,
    screen: Screen,
}

impl DemoOutput<'_> {
    async fn run(mut self) -> Result<(), Error> {
        let start = Instant::now();
        let (mut rows, mut changed, mut synced) = (Vec::new(), start, None);
        let (mut kubeconfig, mut known, mut took_up) = (PathBuf::new(), 0, start);
        loop {
            if self.watch.poll().await? {
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
            let is_quiet = changed.elapsed() >= IDLE_UNTIL_COMMIT && took_up != changed;
            if is_quiet && let Some(stand_ins) = &mut self.stand_ins {
                took_up = changed;
                if stand_ins.add(self.world).await? {
                    changed = Instant::now();
                }
            }
            let ready = !rows.is_empty() && rows.iter().all(|row| row.state == State::Ready);
            let took = start.elapsed();
            let is_over =
                ready || changed.elapsed() >= IDLE_UNTIL_FAILED || took >= self.args.timeout;
            // The rights of Tenants' owners fail without an object that is not ready.
            if is_over
                && self.args.once
                && self.stand_ins.is_some()
                && took < self.args.timeout
                && self.world.capsule(&rows).await?
            {
                changed = Instant::now();
                continue;
            }
            if is_over && self.args.once {
                self.screen.draw(&rows, &[]);
                let as_json = self.args.output.format == TableOrJson::Json;
                return summary::print(self.world, &rows, as_json, took).await;
            }
            if is_over && synced.is_none() {
                // The idle time at the end is not part of the sync.
                synced = Some(changed.duration_since(start));
            }
            let footer = synced.map(|took| self.footer(&rows, took, &kubeconfig));
            self.screen.draw(&rows, &footer.unwrap_or_default());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Renders the lines below the tree after the first sync: its result, and the next steps.
    fn footer(&self, rows: &[Row], took: Duration, kubeconfig: &Path) -> Vec<Line> {
        // The second terminal may have another working directory.
        let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
        let owners = self.world.capsule_findings().into_iter();
        let owners = owners.map(|owner| Line {
            mark: Some(Mark::Failure),
            ..Line::plain(owner.to_string())
        });
        let lines = [
            format!("{}; ctrl-c ends it", sync_summary(rows, took)),
            format!("dashboard: {}", self.dashboard.as_deref().unwrap_or("off")),
            "in a second terminal:".to_owned(),
            format!("export KUBECONFIG={}", kubeconfig.display()),
            "kubectl get kustomizations -A".to_owned(),
            "what kubectl changes is put back at once".to_owned(),
            format!(
                "edit a file in {}: it is applied within a second",
                self.directory.display()
            ),
        ];
        owners.chain(lines.into_iter().map(Line::plain)).collect()
    }
}

/// Renders the duration of the first sync, and the number of objects that are not ready now.
fn sync_summary(rows: &[Row], took: Duration) -> String {
    let count = |state: &[State]| rows.iter().filter(|row| state.contains(&row.state)).count();
    let counts = [
        (count(&[State::Failed]), "failed"),
        (count(&[State::Waiting, State::Progressing]), "not ready"),
        (count(&[State::Suspended]), "suspended"),
    ];
    let mut text = format!("synced in {:.1} s", took.as_secs_f64());
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, label)| format!("{count} {label}"))
        .collect();
    if !counts.is_empty() {
        // The duration is that of the first sync, the counts are current.
        text.push_str(&format!("; now {}", counts.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_flux::FluxKind;

    #[test]
    fn the_sync_summary_counts_objects_that_are_not_ready() {
        let rows = |states: &[State]| -> Vec<Row> {
            let row = |state| tree::tests::row(FluxKind::Kustomization, "a", None, state);
            states.iter().copied().map(row).collect()
        };
        let took = Duration::from_millis(740);
        use State::{Failed, Progressing, Ready, Suspended, Waiting};
        for (states, want) in [
            (&[Ready, Ready][..], "synced in 0.7 s"),
            (&[Ready, Failed], "synced in 0.7 s; now 1 failed"),
            (
                &[Failed, Failed, Waiting, Progressing, Suspended],
                "synced in 0.7 s; now 2 failed, 2 not ready, 1 suspended",
            ),
        ] {
            assert_eq!(sync_summary(&rows(states), took), want);
        }
    }
}
