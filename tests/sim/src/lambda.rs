//! An invocation of a Lambda function: a future that ends, is cut off, or is frozen.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

tokio::task_local! {
    static CURRENT: Arc<Invocation>;
}

/// One invocation of a function.
pub struct Invocation {
    /// The number of the invocation.
    pub id: u64,
    /// The name of the function.
    pub function: &'static str,
    /// The number of messages of the same lineage that led to it.
    pub depth: u32,
    /// The bytes that it may receive before its memory is used up.
    memory: u64,
    flags: Mutex<Flags>,
}

#[derive(Default)]
struct Flags {
    killed: bool,
    /// The bytes that it has received.
    received: u64,
    frozen: Option<Instant>,
    /// The end of the last freeze.
    thawed: Option<Instant>,
    frozen_time: Duration,
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.function, self.id)
    }
}

impl Invocation {
    /// Returns the total time that the invocation was frozen.
    pub fn frozen_time(&self) -> Duration {
        self.flags().frozen_time
    }

    /// Returns whether the invocation has neither been cut off nor ever been frozen.
    pub fn is_running(&self) -> bool {
        let flags = self.flags();
        !flags.killed && flags.frozen_time.is_zero()
    }

    fn flags(&self) -> std::sync::MutexGuard<'_, Flags> {
        self.flags.lock().expect("the flags")
    }
}

/// Returns the invocation that this code runs in.
pub fn current() -> Option<Arc<Invocation>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Adds bytes that the invocation receives and keeps until it ends. Returns whether its memory is
/// used up: Lambda then ends the process.
pub fn receive(bytes: u64) -> bool {
    let Some(invocation) = current() else {
        return false;
    };
    let mut flags = invocation.flags();
    flags.received += bytes;
    flags.killed |= flags.received > invocation.memory;
    flags.killed
}

/// Cuts the invocation off. The returned future never completes: the invocation's future is
/// dropped.
pub async fn kill<T>(invocation: Option<&Invocation>) -> T {
    if let Some(invocation) = invocation {
        invocation.flags().killed = true;
    }
    std::future::pending().await
}

/// Freezes the whole invocation: its future is not polled for `time`.
pub async fn freeze(invocation: Option<&Invocation>, time: Duration) {
    if let Some(invocation) = invocation {
        let mut flags = invocation.flags();
        flags.frozen = Some(Instant::now() + time);
        flags.frozen_time += time;
    }
    tokio::task::yield_now().await;
}

/// The end of an invocation.
pub enum End<T> {
    /// The function returned.
    Done(T),
    /// Cut off by a crash, or because its memory was used up.
    Killed,
    /// Cut off by its time limit.
    TimedOut,
}

/// The limits of an invocation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time limit. Time in which the invocation is frozen counts, as with the service.
    pub time: Duration,
    /// The memory in bytes.
    pub memory: u64,
}

/// The memory that the process of a function needs before it receives anything.
const BASE_MEMORY: u64 = 64 << 20;

/// Runs the code of a function with its limits.
pub async fn invoke<F: Future>(
    id: u64,
    function: &'static str,
    depth: u32,
    limits: Limits,
    code: F,
) -> End<F::Output> {
    let invocation = Arc::new(Invocation {
        id,
        function,
        depth,
        memory: limits.memory.saturating_sub(BASE_MEMORY),
        flags: Mutex::default(),
    });
    let running = Running {
        invocation: invocation.clone(),
        code: Box::pin(CURRENT.scope(invocation, code)),
        limit: Box::pin(tokio::time::sleep(limits.time)),
        thaw: None,
    };
    running.await
}

struct Running<F> {
    invocation: Arc<Invocation>,
    code: Pin<Box<F>>,
    limit: Pin<Box<Sleep>>,
    thaw: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Running<F> {
    type Output = End<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(thaw) = &mut self.thaw {
                if thaw.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.thaw = None;
            }
            // A thawed function is polled once before the service notices that its time is over.
            let code = self.code.as_mut().poll(context);
            let (killed, frozen) = {
                let mut flags = self.invocation.flags();
                let frozen = flags.frozen.take();
                if frozen.is_some() {
                    flags.thawed = frozen;
                }
                (flags.killed, frozen)
            };
            if killed {
                return Poll::Ready(End::Killed);
            }
            if let Poll::Ready(answer) = code {
                return Poll::Ready(End::Done(answer));
            }
            if let Some(until) = frozen {
                self.thaw = Some(Box::pin(tokio::time::sleep_until(until)));
                continue;
            }
            if self.limit.as_mut().poll(context).is_ready() {
                return Poll::Ready(End::TimedOut);
            }
            return Poll::Pending;
        }
    }
}
