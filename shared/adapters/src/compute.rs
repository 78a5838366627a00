//! Runs blocking computations on separate threads.

use async_trait::async_trait;
use driftless_kernel::ports::Compute;
use std::sync::Arc;
use std::thread::available_parallelism;
use tokio::sync::Semaphore;

/// The unit of the bound of bytes.
const KIB: u64 = 1 << 10;
/// The bytes that computations may need in total outside a function: a computation that needs more
/// runs alone.
const MEMORY: u64 = 512 << 20;

/// The runtime's threads for blocking work, with as many concurrent computations as processors:
/// more would need memory without finishing sooner. The computations together need at most half the
/// memory of the function, or 512 MiB outside a function.
#[derive(Debug)]
pub struct Threads {
    processors: Arc<Semaphore>,
    /// A permit for each KiB.
    memory: Arc<Semaphore>,
    /// The number of all permits of `memory`.
    all: u32,
}

impl Threads {
    /// Creates the port with this many processors, for computations that need this many bytes in
    /// total.
    pub fn new(processors: usize, bytes: u64) -> Self {
        let all = u32::try_from((bytes / KIB).min(1 << 28)).unwrap_or(1 << 28);
        Self {
            processors: Arc::new(Semaphore::new(processors)),
            memory: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }
}

impl Default for Threads {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        // In MiB; Lambda sets it.
        let function = std::env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok();
        let function = function.and_then(|size| size.parse::<u64>().ok());
        Self::new(processors, function.map_or(MEMORY, |size| (size << 20) / 2))
    }
}

#[async_trait]
impl Compute for Threads {
    async fn run(&self, bytes: u64, work: Box<dyn FnOnce() + Send>) {
        let kib = u32::try_from(bytes / KIB).unwrap_or(u32::MAX).min(self.all);
        // The semaphores are never closed, so these are always permits. They are held until the
        // work ends, even if the caller no longer waits.
        let memory = match kib {
            0 => None,
            kib => self.memory.clone().acquire_many_owned(kib).await.ok(),
        };
        let processor = self.processors.clone().acquire_owned().await;
        let work = move || {
            work();
            drop((memory, processor));
        };
        if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::error!(%error, "a computation was aborted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
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
        tokio::join!(threads.run(0, work), elsewhere);
        assert_eq!(result.try_recv().expect("it ended"), Ok("an answer"));
    }

    /// Returns how many of these computations, each of 256 MiB, ran at the same time.
    async fn most_at_once(threads: &Threads, count: usize) -> usize {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let runs = (0..count).map(|_| {
            let (now, most) = (now.clone(), most.clone());
            let work = move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
            };
            threads.run(256 << 20, Box::new(work))
        });
        futures::future::join_all(runs).await;
        most.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn computations_need_no_more_bytes_than_the_process_has_for_them() {
        assert!(most_at_once(&Threads::new(8, 512 << 20), 40).await <= 2);
        // A computation that needs more than all has them alone.
        assert_eq!(most_at_once(&Threads::new(8, 100 << 20), 10).await, 1);
    }

    #[tokio::test]
    async fn the_bytes_of_a_computation_are_held_until_it_ends() {
        let threads = Threads::new(1, 1 << 20);
        let (sender, receiver) = mpsc::channel::<()>();
        let work = Box::new(move || {
            let _ = receiver.recv_timeout(Duration::from_secs(20));
        });
        let mut run = threads.run(1 << 20, work);
        assert!(futures::poll!(&mut run).is_pending());
        drop(run);
        assert_eq!(threads.memory.available_permits(), 0);
        sender.send(()).expect("the computation waits");
        threads.run(1 << 20, Box::new(|| {})).await;
    }
}
