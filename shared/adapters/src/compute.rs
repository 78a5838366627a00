use async_trait::async_trait;
use driftless_core::ports::Compute;

/// The threads of the runtime for work that blocks.
#[derive(Clone, Copy, Debug)]
pub struct Threads;

#[async_trait]
impl Compute for Threads {
    async fn run(&self, work: Box<dyn FnOnce() + Send>) {
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
        tokio::join!(Threads.run(work), elsewhere);
        assert_eq!(result.try_recv().expect("it ended"), Ok("an answer"));
    }
}
