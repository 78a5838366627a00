//! Computations that block, on threads of their own.

use async_trait::async_trait;
use driftless_core::ports::Compute;
use std::thread::available_parallelism;
use tokio::sync::Semaphore;

/// The threads of the runtime for work that blocks: as many computations at once as there are processors. More would take
/// memory and end no sooner.
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
        // Nobody closes it: without a permit there would be no computation at all.
        let _permit = self.0.acquire().await;
        if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::error!(%error, "a computation was cut off");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// The only worker of this runtime ends what a computation waits for.
    #[tokio::test]
    async fn a_computation_keeps_nobody_waiting() {
        let (answer, asked) = mpsc::channel();
        let (done, mut result) = tokio::sync::oneshot::channel();
        let work = Box::new(move || {
            let answered = asked.recv_timeout(Duration::from_secs(20));
            let _ = done.send(answered);
        });
        let elsewhere = async {
            tokio::task::yield_now().await;
            answer.send("an answer").expect("somebody waits");
        };
        let threads = Threads::default();
        tokio::join!(threads.run(work), elsewhere);
        assert_eq!(result.try_recv().expect("it ended"), Ok("an answer"));
    }
}
