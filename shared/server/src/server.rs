//! The server of an installation, from its start to its end.

use crate::connections::{self, ConnectionLimits, Count};
use crate::dashboard::Dashboard;
use crate::data_directory::DataDirectory;
use crate::garbage;
use crate::http;
use crate::options::ServerOptions;
use crate::signals::StopSignals;
use crate::tasks::{BackgroundTasks, LAST_EXPORT, TaskOptions};
use driftless_adapters::local::{DirectoryBlobs, LocalQueue};
use driftless_adapters::trace;
use driftless_kernel::ports::Ports;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

/// The time that running steps have to finish after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// A hub that is registered and ready to be served.
pub struct Installation {
    /// The ports of the process.
    pub ports: Ports,
    /// The receiving end of the queue of `ports`.
    pub queue: LocalQueue,
    /// The store in the directory.
    pub store: DirectoryBlobs,
    /// The directory with the state of `ports`, which stays locked.
    pub data: DataDirectory,
}

/// The server of one hub.
pub struct Server {
    data: DataDirectory,
    tasks: BackgroundTasks,
    garbage: JoinHandle<()>,
    dashboard: Arc<Dashboard>,
    options: ServerOptions,
}

/// The reason why a server ended without a signal.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The HTTP server ended.
    #[error("the HTTP server failed: {0:?}")]
    Http(Result<(), JoinError>),
}

impl Server {
    /// Starts the workers, the timer, the watches and the deletion of unused artifacts, in the
    /// runtime of the caller.
    pub fn new(installation: Installation, options: ServerOptions) -> Self {
        let Installation {
            ports,
            queue,
            store,
            data,
        } = installation;
        let task_options = TaskOptions {
            hubs: &[&options.hub],
            workers: options.workers,
            sweep_interval: options.sweep_interval,
            drift_watch: options.drift_watch,
            object_metrics: options.object_metrics,
        };
        let tasks = BackgroundTasks::start(ports.clone(), queue, &task_options);
        let garbage = garbage::timer(ports.clone(), store, options.hub.clone());
        let dashboard = Dashboard::new(ports);
        dashboard.warm_up();
        Self {
            data,
            tasks,
            garbage,
            dashboard,
            options,
        }
    }

    /// Answers requests until a signal. Then running steps have ten seconds to finish; a second
    /// signal ends the server at once.
    ///
    /// # Errors
    /// The HTTP server ended before a signal.
    pub async fn run(
        self,
        listener: TcpListener,
        signals: &mut StopSignals,
    ) -> Result<(), ServerError> {
        let state = self.tasks.state();
        let router = http::router(state.clone(), &self.options, self.dashboard.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let count: Count = {
            let state = state.clone();
            Arc::new(move |result| state.metrics.count_refused_connection(result))
        };
        let limits = ConnectionLimits::default();
        let server = connections::serve(listener, router, count, limits, async {
            // Stop on a message, and also if the sender is dropped.
            stopped.await.unwrap_or_default();
        });
        let mut server = tokio::spawn(server);
        begin_stop(&mut server, signals, GRACE).await?;
        self.garbage.abort();
        let workers = self.tasks.close();
        self.dashboard.stop();
        drop(stop);
        let rest = futures::future::join(server, futures::future::join_all(workers));
        tokio::select! {
            rest = tokio::time::timeout(GRACE, rest) => match rest {
                Ok((Ok(()), _)) => tracing::info!("stopped"),
                Ok((served, _)) => tracing::warn!("the server failed while stopping: {served:?}"),
                Err(_) => tracing::warn!("stopped with running steps: the next start repeats them"),
            },
            () = signals.wait() => tracing::warn!("stopped at once: the next start repeats interrupted steps"),
        }
        trace::flush(LAST_EXPORT).await;
        // Unlocks the directory last.
        drop(self.data);
        Ok(())
    }
}

/// Waits for the signal after which running steps have the time `grace` to finish.
///
/// # Errors
/// The HTTP server ended before the signal.
pub(crate) async fn begin_stop(
    server: &mut JoinHandle<()>,
    signals: &mut StopSignals,
    grace: Duration,
) -> Result<(), ServerError> {
    tokio::select! {
        () = signals.wait() => {}
        done = server => return Err(ServerError::Http(done)),
    }
    tracing::info!(
        "stopping: running steps have {} s to finish; a second signal stops at once",
        grace.as_secs()
    );
    Ok(())
}
