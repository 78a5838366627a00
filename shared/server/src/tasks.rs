//! The background tasks: workers run the steps of the queue, a timer sweeps.

use crate::metrics::Metrics;
use crate::watches::{self, Wanted};
use driftless_adapters::local::{LocalQueue, Work};
use driftless_adapters::trace;
use driftless_core::capsule;
use driftless_core::step;
use driftless_core::sweep;
use driftless_kernel::context::Outcome;
use driftless_kernel::ports::{ErrorKind, PortError, Ports, Request, Result};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// The time that a step may wait for health before it requeues itself.
const WAIT_BUDGET: Duration = Duration::from_secs(5);
/// The timeout of a step, the same as in a function.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);
/// The delay before a step that ended with an error, a panic or a timeout, or a sweep that failed
/// as a whole, is retried.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The time for the last export of traces.
pub(crate) const LAST_EXPORT: Duration = Duration::from_secs(2);

/// The state that workers, the timer and the HTTP routes share.
pub(crate) struct ServerState {
    /// The ports of the process.
    pub(crate) ports: Ports,
    /// The queue of `ports`, for the number of its requests.
    pub(crate) backlog: Box<dyn Backlog>,
    /// The counters of the process.
    pub(crate) metrics: Metrics,
}

/// A queue that knows how many requests it has.
pub(crate) trait Backlog: Send + Sync {
    /// Returns the number of requests that wait.
    fn waiting(&self) -> BoxFuture<'_, Result<u64>>;
}

impl Backlog for LocalQueue {
    fn waiting(&self) -> BoxFuture<'_, Result<u64>> {
        let waiting = u64::try_from(LocalQueue::waiting(self)).unwrap_or(u64::MAX);
        std::future::ready(Ok(waiting)).boxed()
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    /// The object needed no step.
    Skipped,
    /// The step did what was missing.
    Done,
    /// The step has written its failure into the object's status.
    Failed,
    /// The step ended with an error, and must be repeated.
    Error,
    /// The step panicked, and must be repeated.
    Panic,
    /// The step took too long, and must be repeated.
    Timeout,
}

impl StepResult {
    /// Returns the label of metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
        }
    }

    /// Returns whether the message of the step must come again.
    pub(crate) fn is_unfinished(self) -> bool {
        matches!(self, Self::Error | Self::Panic | Self::Timeout)
    }
}

/// The workers of a queue, and the timer that sweeps.
pub struct BackgroundTasks {
    state: Arc<ServerState>,
    queue: LocalQueue,
    workers: Vec<JoinHandle<()>>,
    timer: JoinHandle<()>,
    watches: Vec<JoinHandle<()>>,
    traces: JoinHandle<()>,
}

/// The settings of the background tasks.
pub struct TaskOptions<'a> {
    /// The hubs that are watched.
    pub hubs: &'a [&'a str],
    /// The number of steps that run at the same time.
    pub workers: usize,
    /// The interval of sweeps.
    pub sweep_interval: Duration,
    /// True if the objects that were applied are watched as well.
    pub drift_watch: bool,
    /// True if each Flux object has metrics with its name.
    pub object_metrics: bool,
}

impl BackgroundTasks {
    /// Starts the workers, the timer, which sweeps every registered hub now and after each
    /// interval, and the watches of the hubs. `queue` is the receiving end of the queue of `ports`.
    pub fn start(ports: Ports, queue: LocalQueue, options: &TaskOptions<'_>) -> Self {
        let metrics = Metrics::new(options.object_metrics);
        let state = Arc::new(ServerState {
            ports,
            backlog: Box::new(queue.clone()),
            metrics,
        });
        let wanted = Arc::<Wanted>::default();
        let watch =
            |hub: &&str| watches::start(&state.ports, hub, wanted.clone(), options.drift_watch);
        Self {
            workers: (0..options.workers)
                .map(|_| worker(state.clone(), queue.clone()))
                .collect(),
            timer: timer(state.clone(), wanted.clone(), options.sweep_interval),
            watches: options.hubs.iter().map(watch).collect(),
            traces: tokio::spawn(trace::flush_in_background()),
            queue,
            state,
        }
    }

    pub(crate) fn state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// Ends the timer and the watches, and closes the queue. Returns the workers, which end after
    /// their current steps.
    pub(crate) fn close(self) -> Vec<JoinHandle<()>> {
        self.timer.abort();
        self.watches.iter().for_each(JoinHandle::abort);
        self.traces.abort();
        self.queue.close();
        self.workers
    }

    /// Ends the timer, closes the queue, and waits for the running steps.
    pub async fn stop(self) {
        futures::future::join_all(self.close()).await;
        trace::flush(LAST_EXPORT).await;
    }
}

/// Starts a worker, which ends when the queue is closed.
fn worker(state: Arc<ServerState>, queue: LocalQueue) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(work) = queue.next().await {
            state.work(work).await;
        }
    })
}

/// Starts the timer.
fn timer(state: Arc<ServerState>, wanted: Arc<Wanted>, interval: Duration) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_swept = tokio::select! {
                _ = ticks.tick() => true,
                () = wanted.sweep.notified() => true,
                () = wanted.capsule.notified() => false,
            };
            state.capsule().await;
            // The sweep has logged its error. Retry it before the end of the interval.
            if is_swept && state.sweep().await.is_err() {
                ticks.reset_after(RETRY_DELAY.min(interval));
            }
        }
    })
}

impl ServerState {
    /// Runs the step of a request of the queue in this process.
    async fn work(&self, work: Work) {
        let request = work.request();
        if !self.step(request).await.is_unfinished() {
            return;
        }
        // Queue a new request: the message itself is already consumed.
        let again = Request {
            token: None,
            ..request.clone()
        };
        if let Err(error) = self.ports.queue.send(vec![(again, RETRY_DELAY)]).await {
            tracing::warn!(object = %request.object, "not queued again, the next sweep will find it: {error}");
        }
    }

    /// Runs one step, and counts it. No error or panic of the step ends the worker.
    pub(crate) async fn step(&self, request: &Request) -> StepResult {
        let start = Instant::now();
        let step = AssertUnwindSafe(run(&self.ports, request)).catch_unwind();
        let result = match tokio::time::timeout(STEP_TIMEOUT, step).await {
            Ok(Ok(Ok(Outcome {
                is_skipped: true, ..
            }))) => StepResult::Skipped,
            Ok(Ok(Ok(Outcome { failure: None, .. }))) => StepResult::Done,
            // The step has logged the failure and written it into the object's status.
            Ok(Ok(Ok(Outcome {
                failure: Some(_), ..
            }))) => StepResult::Failed,
            Ok(Ok(Err(error))) => {
                tracing::error!(object = %request.object, "step did not finish: {error}");
                StepResult::Error
            }
            Ok(Err(_)) => {
                tracing::error!(object = %request.object, "step panicked: this is a bug");
                StepResult::Panic
            }
            Err(_) => {
                tracing::error!(object = %request.object, "step took longer than {} s", STEP_TIMEOUT.as_secs());
                StepResult::Timeout
            }
        };
        self.metrics.step(request, result.as_str(), start.elapsed());
        result
    }

    /// Creates the kubeconfigs of owners of Capsule's Tenants. A failure is logged, and retried at
    /// the next tick.
    async fn capsule(&self) {
        let done = AssertUnwindSafe(owners(&self.ports)).catch_unwind().await;
        match done {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!("capsule: {error}"),
            Err(_) => tracing::error!("capsule: the step panicked: this is a bug"),
        }
    }

    /// Returns the metrics of the process, in Prometheus's text format.
    ///
    /// # Errors
    /// A metric cannot be formatted.
    pub(crate) async fn rendered_metrics(&self) -> std::result::Result<String, std::fmt::Error> {
        let known = match self.metrics.has_objects() {
            true => sweep::known_objects(&self.ports).await,
            false => Ok(Vec::new()),
        };
        let known = known.unwrap_or_else(|failure| {
            tracing::warn!("no metrics of objects: {}", failure.message);
            Vec::new()
        });
        let waiting = self.backlog.waiting().await;
        let waiting =
            waiting.inspect_err(|error| tracing::warn!("no length of the queue: {error}"));
        self.metrics.render(waiting.ok(), &known)
    }

    /// Sweeps every hub.
    ///
    /// # Errors
    /// Fails if the registry cannot be read, or the sweep panicked.
    pub(crate) async fn sweep(&self) -> Result<Vec<sweep::Report>> {
        let swept = AssertUnwindSafe(sweep_all(&self.ports))
            .catch_unwind()
            .await;
        let swept = swept.unwrap_or_else(|_| {
            let text = "the sweep panicked: this is a bug";
            Err(PortError::new(ErrorKind::Unavailable, text))
        });
        match &swept {
            Ok(reports) => {
                let failed = reports.iter().any(|report| report.failure.is_some());
                self.metrics.sweep(if failed { "failed" } else { "done" });
            }
            Err(error) => {
                tracing::error!("sweep: {error}");
                self.metrics.sweep("failed");
            }
        }
        swept
    }
}

/// Boxes the future of a step: it has too many parts for the compiler to prove that it is `Send`.
fn run<'a>(ports: &'a Ports, request: &'a Request) -> BoxFuture<'a, Result<Outcome>> {
    Box::pin(trace::message(
        request,
        step::run(ports, request, WAIT_BUDGET),
    ))
}

/// Boxes the future of the Capsule step.
fn owners(ports: &Ports) -> BoxFuture<'_, Result<Vec<capsule::Report>>> {
    Box::pin(trace::timer("capsule", "", capsule::run(ports)))
}

/// Boxes the future of the sweep.
fn sweep_all(ports: &Ports) -> BoxFuture<'_, Result<Vec<sweep::Report>>> {
    Box::pin(trace::timer("sweep", "", sweep::sweep(ports)))
}
