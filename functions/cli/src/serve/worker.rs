//! What goes on in the background: workers take steps from the queue, a timer sweeps.

use super::changes::ChangeDetector;
use super::metrics::Metrics;
use driftless_adapters::local::{LocalQueue, Work};
use driftless_core::capsule;
use driftless_core::kernel::Outcome;
use driftless_core::ports::{Ports, Queue as _, Request, Result};
use driftless_core::step;
use driftless_core::sweep;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// How long a step may wait for health before it puts itself back.
const WAIT_BUDGET: Duration = Duration::from_secs(5);
/// How long a step may take at all, as in a function.
const LONGEST: Duration = Duration::from_secs(120);
/// When a step that could not even be ended properly, or a sweep that failed as a whole, is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// How often the hub's objects are looked at for what people changed.
const LOOK: Duration = Duration::from_secs(2);

/// What workers, the timer and the server share.
pub struct Shared {
    /// The ports.
    pub ports: Ports,
    /// The queue of `ports`, from the other side.
    pub queue: LocalQueue,
    /// What was counted.
    pub metrics: Metrics,
}

/// Starts the workers. They end when the queue is closed.
pub fn workers(shared: &Arc<Shared>, count: usize) -> Vec<JoinHandle<()>> {
    let worker = |_| {
        let shared = shared.clone();
        tokio::spawn(async move {
            while let Some(work) = shared.queue.next().await {
                shared.work(work).await;
            }
        })
    };
    (0..count).map(worker).collect()
}

/// Starts the timer: a sweep now, one after each interval, and one when somebody changed the hubs' objects.
pub fn timer(shared: &Arc<Shared>, hubs: &[&str], interval: Duration) -> JoinHandle<()> {
    let shared = shared.clone();
    let mut looks_at: Vec<ChangeDetector> =
        hubs.iter().map(|hub| ChangeDetector::new(hub)).collect();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        let mut looks = tokio::time::interval(LOOK.min(interval));
        for timer in [&mut ticks, &mut looks] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            let due = tokio::select! {
                _ = ticks.tick() => true,
                _ = looks.tick() => changed(&mut looks_at, &shared.ports).await,
            };
            if due {
                shared.capsule().await;
            }
            // The sweep has logged why it failed. It is not left alone for a whole interval.
            if due && shared.sweep().await.is_err() {
                ticks.reset_after(AGAIN.min(interval));
            }
        }
    })
}

/// Whether anything was changed on one of the hubs. Each of them is looked at.
async fn changed(looks: &mut [ChangeDetector], ports: &Ports) -> bool {
    let mut any = false;
    for look in looks {
        any |= look.changed(ports).await;
    }
    any
}

impl Shared {
    /// Runs one step. Nothing that goes wrong in it ends the worker.
    async fn work(&self, work: Work) {
        let request = work.request();
        let kind = request.object.kind.as_str();
        let start = Instant::now();
        let step = AssertUnwindSafe(run(&self.ports, request)).catch_unwind();
        let result = match tokio::time::timeout(LONGEST, step).await {
            Ok(Ok(Ok(Outcome {
                is_skipped: true, ..
            }))) => "skipped",
            Ok(Ok(Ok(Outcome { failure: None, .. }))) => "done",
            // The step has logged it, and the object's status says it.
            Ok(Ok(Ok(Outcome {
                failure: Some(_), ..
            }))) => "failed",
            Ok(Ok(Err(error))) => {
                tracing::error!(object = %request.object, "step not ended: {error}");
                "error"
            }
            Ok(Err(_)) => {
                tracing::error!(object = %request.object, "step panicked: this is a bug");
                "panic"
            }
            Err(_) => {
                tracing::error!(object = %request.object, "step took longer than {} s", LONGEST.as_secs());
                "timeout"
            }
        };
        self.metrics.step(kind, result, start.elapsed());
        // As somebody who asks: the message itself is used up.
        let again = Request {
            token: None,
            ..request.clone()
        };
        if matches!(result, "error" | "panic" | "timeout")
            && let Err(error) = self.queue.send(vec![(again, AGAIN)]).await
        {
            tracing::warn!(object = %request.object, "not queued again, the timer will find it: {error}");
        }
    }

    /// Gives owners of Capsule's Tenants their kubeconfigs. What fails is logged, and tried again at the next tick.
    async fn capsule(&self) {
        let look = AssertUnwindSafe(owners(&self.ports)).catch_unwind().await;
        match look {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!("capsule: {error}"),
            Err(_) => tracing::error!("the look at Capsule's Tenants panicked: this is a bug"),
        }
    }

    /// Sweeps every hub.
    ///
    /// # Errors
    /// The registry cannot be read; the text says why.
    pub async fn sweep(&self) -> Result<Vec<sweep::Report>, String> {
        let swept = AssertUnwindSafe(swept(&self.ports)).catch_unwind().await;
        let swept = swept.unwrap_or_else(|_| {
            let text = "the sweep panicked: this is a bug".to_owned();
            Err(driftless_core::ports::PortError::new(
                driftless_core::ports::ErrorKind::Unavailable,
                text,
            ))
        });
        match swept {
            Ok(reports) => {
                let failed = reports.iter().any(|report| report.failure.is_some());
                self.metrics.sweep(if failed { "failed" } else { "done" });
                Ok(reports)
            }
            Err(error) => {
                tracing::error!("sweep: {error}");
                self.metrics.sweep("failed");
                Err(error.to_string())
            }
        }
    }
}

/// The step as one boxed future: its many parts are too much for the compiler to see that it may move between threads.
fn run<'a>(ports: &'a Ports, request: &'a Request) -> BoxFuture<'a, Result<Outcome>> {
    Box::pin(step::run(ports, request, WAIT_BUDGET))
}

/// The look at owners of Capsule's Tenants, likewise.
fn owners(ports: &Ports) -> BoxFuture<'_, Result<Vec<capsule::Report>>> {
    Box::pin(capsule::run(ports))
}

/// The sweep, likewise.
fn swept(ports: &Ports) -> BoxFuture<'_, Result<Vec<sweep::Report>>> {
    Box::pin(sweep::sweep(ports))
}
