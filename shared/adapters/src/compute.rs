//! Runs blocking computations on separate threads.

use async_trait::async_trait;
use driftless_core::ports::Compute;
use std::thread::available_parallelism;
use tokio::sync::Semaphore;

/// The runtime's threads for blocking work, with as many concurrent computations as processors:
/// more would need memory without finishing sooner.
#[derive(Debug)]
pub struct Threads(Semaphore);

impl Default for Threads {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self(Semaphore::new(processors))
    }
}

#[async_trait]
impl Compute for Threads {
    async fn run(&self, work: Box<dyn FnOnce() + Send>) {
        // The semaphore is never closed, so this is always a permit.
        let _permit = self.0.acquire().await;
        if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::error!(%error, "a computation was aborted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// The only worker thread of this runtime must send what the computation waits for.
    #[tokio::test]
    async fn a_computation_does_not_block_other_tasks() {
        let (sender, receiver) = mpsc::channel();
        let (done, mut result) = tokio::sync::oneshot::channel();
        let work = Box::new(move || {
            let received = receiver.recv_timeout(Duration::from_secs(20));
            let _ = done.send(received);
        });
        let elsewhere = async {
            tokio::task::yield_now().await;
            sender.send("an answer").expect("the computation waits");
        };
        let threads = Threads::default();
        tokio::join!(threads.run(work), elsewhere);
        assert_eq!(result.try_recv().expect("it ended"), Ok("an answer"));
    }
}
