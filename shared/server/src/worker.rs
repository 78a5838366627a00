//! A worker of an installation on NATS JetStream: it receives steps and sweeps from the stream, and
//! runs several at once. Any number of workers share the stream.
//!
//! A message stays in the stream until its step has ended. Meanwhile the worker sends signs of
//! progress to the server; when they end, another worker gets the message.

use crate::connections::{self, ConnectionLimits, Count};
use crate::http;
use crate::metrics::Metrics;
use crate::server::{ServerError, begin_stop};
use crate::signals::StopSignals;
use crate::tasks::{Backlog, LAST_EXPORT, ServerState};
use driftless_adapters::trace;
use driftless_core::{step, sweep};
use driftless_kernel::document::DocumentError;
use driftless_kernel::ports::{Ports, Result};
use driftless_nats::{Deliveries, Delivery, MAX_DELIVERIES, Nats, NatsQueue, QueueName, Work};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{RwLock, RwLockReadGuard, watch};
use tokio::task::JoinHandle;

/// The number of hubs that a worker sweeps at the same time.
const SWEEPS: usize = 4;
/// The time that running steps have to finish after a signal: less than the 30 s after which
/// Kubernetes kills a container.
const GRACE: Duration = Duration::from_secs(20);
/// The time that messages have to return to the stream after that.
const HAND_BACK: Duration = Duration::from_secs(3);
/// The pause after a failed request for a message.
const PAUSE: Duration = Duration::from_secs(1);

/// The settings of a worker.
pub struct WorkerOptions {
    /// The number of steps that run at the same time.
    pub concurrency: usize,
    /// The interval of sweeps, the same in all workers.
    pub sweep_interval: Duration,
    /// Returns the place of a secret for the sender of a webhook, by the name of the secret, which
    /// is for example `gitlab/webhook`.
    pub secret_place: fn(&str) -> String,
}

/// A running worker.
pub struct Worker {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    traces: JoinHandle<()>,
    phase: watch::Sender<Phase>,
    options: WorkerOptions,
}

/// The parts that the tasks of a worker share.
struct Shared {
    state: Arc<ServerState>,
    nats: Nats,
    /// An isolated step has it for writing: it runs when no other step runs. A receiver of the
    /// others has it for reading from the request of a message to the end of the step, so that no
    /// message waits in this worker for an isolated step. The lock is fair: while an isolated step
    /// waits, no message is requested.
    steps: RwLock<()>,
}

/// The right of a receiver to run a step that is not isolated; `None` for other messages.
type Turn<'a> = Option<RwLockReadGuard<'a, ()>>;

/// The phases of a worker, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Messages are received.
    Running,
    /// Running steps may finish.
    Stopping,
    /// The messages of running steps return to the stream.
    HandingBack,
}

impl Backlog for NatsQueue {
    fn waiting(&self) -> BoxFuture<'_, Result<u64>> {
        NatsQueue::waiting(self).boxed()
    }
}

impl Worker {
    /// Starts to receive messages, in the runtime of the caller. `queue` is the queue of `ports`,
    /// and both are on `nats`.
    pub fn start(ports: Ports, nats: &Nats, queue: NatsQueue, options: WorkerOptions) -> Self {
        let shared = Arc::new(Shared {
            state: Arc::new(ServerState {
                ports,
                backlog: Box::new(queue),
                metrics: Metrics::new(false),
            }),
            nats: nats.clone(),
            steps: RwLock::default(),
        });
        let (phase, watched) = watch::channel(Phase::Running);
        let mut tasks = Vec::new();
        for (queue, count) in [
            (QueueName::Steps, options.concurrency),
            (QueueName::Isolated, 1),
            (QueueName::Sweeps, SWEEPS),
        ] {
            let deliveries = Arc::new(Deliveries::new(nats, queue));
            for _ in 0..count {
                let work = shared.clone().receive(deliveries.clone(), watched.clone());
                tasks.push(tokio::spawn(work));
            }
        }
        let timer = shared.clone().timer(options.sweep_interval, watched);
        tasks.push(tokio::spawn(timer));
        let traces = tokio::spawn(trace::flush_in_background());
        Self {
            shared,
            tasks,
            traces,
            phase,
            options,
        }
    }

    /// Answers requests until a signal. Then running steps have 20 seconds to finish; the messages
    /// of those that do not return to the stream. A second signal ends the worker at once.
    ///
    /// # Errors
    /// The HTTP server ended before a signal.
    pub async fn run(
        self,
        listener: Option<TcpListener>,
        signals: &mut StopSignals,
    ) -> std::result::Result<(), ServerError> {
        let mut server = tokio::spawn(self.serve(listener));
        begin_stop(&mut server, signals, GRACE).await?;
        let phase = self.phase;
        phase.send_replace(Phase::Stopping);
        let rest = futures::future::join(server, futures::future::join_all(self.tasks));
        tokio::pin!(rest);
        let ended = async {
            if tokio::time::timeout(GRACE, &mut rest).await.is_ok() {
                return true;
            }
            phase.send_replace(Phase::HandingBack);
            tokio::time::timeout(HAND_BACK, &mut rest).await.is_ok()
        };
        tokio::select! {
            ended = ended => match ended {
                true => tracing::info!("stopped"),
                false => tracing::warn!("stopped with running steps: their messages are delivered again"),
            },
            () = signals.wait() => tracing::warn!("stopped at once: the messages of running steps are delivered again"),
        }
        self.shared.nats.flush().await;
        self.traces.abort();
        trace::flush(LAST_EXPORT).await;
        Ok(())
    }

    /// Returns the work of the HTTP server, which ends when the worker stops.
    fn serve(&self, listener: Option<TcpListener>) -> BoxFuture<'static, ()> {
        let mut phase = self.phase.subscribe();
        let stop = async move {
            reached(&mut phase, Phase::Stopping).await;
        };
        let Some(listener) = listener else {
            return stop.boxed();
        };
        let state = self.shared.state.clone();
        let nats = self.shared.nats.clone();
        let is_connected = Arc::new(move || nats.is_connected());
        let router = http::worker_router(state.clone(), self.options.secret_place, is_connected);
        let count: Count = Arc::new(move |result| state.metrics.count_refused_connection(result));
        let limits = ConnectionLimits::default();
        connections::serve(listener, router, count, limits, stop).boxed()
    }
}

impl Shared {
    /// Receives messages one after the other, until the worker stops.
    async fn receive(
        self: Arc<Self>,
        deliveries: Arc<Deliveries>,
        mut phase: watch::Receiver<Phase>,
    ) {
        loop {
            let received = tokio::select! {
                biased;
                () = reached(&mut phase, Phase::Stopping) => return,
                received = self.next(&deliveries) => received,
            };
            match received {
                Ok(Some((delivery, _turn))) => self.handle(delivery, &mut phase).await,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!("{error}");
                    tokio::select! {
                        () = reached(&mut phase, Phase::Stopping) => return,
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
            }
        }
    }

    /// Waits for a message for some seconds, and before that for the turn of a step that is not
    /// isolated.
    async fn next(&self, deliveries: &Deliveries) -> Result<Option<(Delivery, Turn<'_>)>> {
        let turn = match deliveries.queue() {
            QueueName::Steps => Some(self.steps.read().await),
            QueueName::Isolated | QueueName::Sweeps => None,
        };
        let received = deliveries.next().await?;
        Ok(received.map(|delivery| (delivery, turn)))
    }

    /// Does the work of a message, and acknowledges it. If the worker must end before that, the
    /// message returns to the stream.
    async fn handle(&self, delivery: Delivery, phase: &mut watch::Receiver<Phase>) {
        if delivery.deliveries > MAX_DELIVERIES {
            bury(delivery, "no worker has finished the message").await;
            return;
        }
        let work = match delivery.work() {
            Ok(work) => work,
            // A newer worker may get it next.
            Err(error @ DocumentError::Newer(_)) if delivery.deliveries < MAX_DELIVERIES => {
                let queue = delivery.queue().as_str();
                tracing::warn!(queue, "a message is delivered again: {error}");
                retry(delivery).await;
                return;
            }
            Err(error) => {
                bury(delivery, &format!("the message cannot be read: {error}")).await;
                return;
            }
        };
        let is_done = {
            let done = AssertUnwindSafe(self.work(delivery.queue(), work)).catch_unwind();
            tokio::pin!(done);
            let mut progress = tokio::time::interval(Delivery::PROGRESS);
            progress.reset();
            loop {
                tokio::select! {
                    done = &mut done => break done.unwrap_or(false),
                    _ = progress.tick() => delivery.progress().await,
                    () = reached(phase, Phase::HandingBack) => {
                        delivery.retry(Duration::ZERO).await;
                        return;
                    }
                }
            }
        };
        if is_done {
            delivery.done().await;
        } else if delivery.deliveries >= MAX_DELIVERIES {
            bury(delivery, "the step did not end in the last delivery").await;
        } else {
            retry(delivery).await;
        }
    }

    /// Does the work of a message of this queue. Returns false if the message must be delivered
    /// again.
    async fn work(&self, queue: QueueName, work: Work) -> bool {
        match work {
            Work::Step(request) => {
                let _alone = match queue {
                    QueueName::Isolated => Some(self.steps.write().await),
                    QueueName::Steps | QueueName::Sweeps => None,
                };
                !self.state.step(&request).await.is_unfinished()
            }
            Work::Sweep(hub) => {
                self.sweep(hub).await;
                true
            }
        }
    }

    /// Sweeps a hub. A failure is logged: the next sweep is the retry.
    async fn sweep(&self, hub: String) {
        let swept = sweep::sweep_hub(&self.state.ports, hub.clone());
        let swept: BoxFuture<'_, sweep::Report> = Box::pin(trace::timer("sweep", &hub, swept));
        let result = match AssertUnwindSafe(swept).catch_unwind().await {
            Ok(report) => match report.failure {
                None => {
                    tracing::debug!(hub, queued = report.queued.len(), "swept");
                    "done"
                }
                Some(failure) => {
                    tracing::error!(hub, "the hub was not swept completely: {failure}");
                    "failed"
                }
            },
            Err(_) => {
                tracing::error!(hub, "the sweep panicked: this is a bug");
                "failed"
            }
        };
        self.state.metrics.sweep(result);
    }

    /// Queues the sweeps of all hubs at the start, and at the beginning of each interval. All
    /// workers do so: the stream keeps one sweep of a hub for each interval.
    async fn timer(self: Arc<Self>, interval: Duration, mut phase: watch::Receiver<Phase>) {
        loop {
            let started: BoxFuture<'_, Result<sweep::SweepStart>> =
                Box::pin(sweep::start(&self.state.ports));
            if let Err(error) = started.await {
                tracing::warn!("no sweep is queued: {error}");
            }
            tokio::select! {
                () = reached(&mut phase, Phase::Stopping) => return,
                () = tokio::time::sleep(until_next(interval, self.state.ports.clock.now())) => {}
            }
        }
    }
}

/// Waits until the worker is in this phase, or in a later one.
async fn reached(phase: &mut watch::Receiver<Phase>, least: Phase) {
    // A sender that is gone is a worker that has ended.
    drop(phase.wait_for(|phase| *phase >= least).await);
}

/// Returns the time until the next interval begins; they are counted from 1970.
fn until_next(interval: Duration, now: Duration) -> Duration {
    let interval = interval.as_millis().max(1);
    let rest = u64::try_from(interval - now.as_millis() % interval);
    Duration::from_millis(rest.unwrap_or(1000))
}

/// Returns a message to the queue, for a delay that grows with its deliveries.
async fn retry(delivery: Delivery) {
    let deliveries = u32::try_from(delivery.deliveries).unwrap_or(u32::MAX);
    delivery.retry(step::redelivery(deliveries)).await;
}

/// Puts a message among the dead ones.
async fn bury(delivery: Delivery, reason: &str) {
    let queue = delivery.queue();
    tracing::error!(
        queue = queue.as_str(),
        deliveries = delivery.deliveries,
        "a message is put among the dead messages: {reason}"
    );
    if let Err(error) = delivery.bury(reason).await {
        tracing::error!("{error}; it is delivered again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_begin_their_intervals_at_the_same_time() {
        let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
        assert_eq!(until_next(minute, 59 * second), second);
        assert_eq!(until_next(minute, 60 * second), minute);
        assert_eq!(until_next(minute, 61 * second), 59 * second);
    }
}
