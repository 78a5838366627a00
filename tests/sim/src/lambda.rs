//! An invocation of a Lambda function: a future that ends, is cut off, or stands still.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

tokio::task_local! {
    static CURRENT: Arc<Invocation>;
}

/// One invocation.
pub struct Invocation {
    /// Its number.
    pub id: u64,
    /// The function.
    pub function: &'static str,
    /// How many messages of the same lineage led to it.
    pub depth: u32,
    flags: Mutex<Flags>,
}

#[derive(Default)]
struct Flags {
    killed: bool,
    frozen: Option<Instant>,
    /// When it last went on after it had stood still.
    thawed: Option<Instant>,
    stood: Duration,
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.function, self.id)
    }
}

impl Invocation {
    /// How long it stood still in all.
    pub fn stood(&self) -> Duration {
        self.flags().stood
    }

    fn flags(&self) -> std::sync::MutexGuard<'_, Flags> {
        self.flags.lock().expect("the flags")
    }
}

/// The invocation that this code runs in.
pub fn current() -> Option<Arc<Invocation>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Cuts the invocation off. Whoever awaits it awaits for ever: its future is dropped.
pub async fn kill<T>(invocation: Option<&Invocation>) -> T {
    if let Some(invocation) = invocation {
        invocation.flags().killed = true;
    }
    std::future::pending().await
}

/// Lets the whole invocation stand still: nothing of it is polled for so long.
pub async fn freeze(invocation: Option<&Invocation>, time: Duration) {
    if let Some(invocation) = invocation {
        let mut flags = invocation.flags();
        flags.frozen = Some(Instant::now() + time);
        flags.stood += time;
    }
    tokio::task::yield_now().await;
}

/// How an invocation ended.
pub enum End<T> {
    /// With an answer.
    Done(T),
    /// Cut off by a crash.
    Killed,
    /// Cut off by its time limit.
    TimedOut,
}

/// Runs the code of a function with its time limit. Time in which it stands still counts, as for the service.
pub async fn invoke<F: Future>(
    id: u64,
    function: &'static str,
    depth: u32,
    limit: Duration,
    code: F,
) -> End<F::Output> {
    let invocation = Arc::new(Invocation {
        id,
        function,
        depth,
        flags: Mutex::default(),
    });
    let running = Running {
        invocation: invocation.clone(),
        code: Box::pin(CURRENT.scope(invocation, code)),
        limit: Box::pin(tokio::time::sleep(limit)),
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
            // A function that was thawed gets one turn before the service notices that its time is over.
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
