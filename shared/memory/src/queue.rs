//! In-memory queues: one that keeps all requests, and a model of SQS.

use super::{TestClock, lock};
use async_trait::async_trait;
use driftless_kernel::ports::{
    Clock as _, ErrorKind, PlanRequest, PortError, Queue, Request, Result,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn broken<T>() -> Result<T> {
    Err(PortError::new(
        ErrorKind::Unavailable,
        "the queue does not answer",
    ))
}

/// A queue that keeps all requests until they are taken.
#[derive(Default)]
pub struct MemoryQueue {
    sent: Mutex<Vec<(Request, Duration)>>,
    redelivered: Mutex<Vec<(String, Duration)>>,
    /// The requested plans; `None` if no plans are made.
    plans: Mutex<Option<Vec<PlanRequest>>>,
    broken: Mutex<bool>,
}

impl MemoryQueue {
    /// Removes and returns every request that was sent.
    pub fn take(&self) -> Vec<(Request, Duration)> {
        std::mem::take(&mut lock(&self.sent))
    }

    /// Removes and returns the receipts of the messages to deliver again, each with its delay.
    pub fn take_redelivered(&self) -> Vec<(String, Duration)> {
        std::mem::take(&mut lock(&self.redelivered))
    }

    /// Accepts requests of plans, which are refused before.
    pub fn accept_plans(&self) {
        lock(&self.plans).get_or_insert_default();
    }

    /// Removes and returns the plans that were requested.
    pub fn take_plans(&self) -> Vec<PlanRequest> {
        lock(&self.plans)
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Makes every send fail, or succeed again.
    pub fn set_broken(&self, broken: bool) {
        *lock(&self.broken) = broken;
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        if *lock(&self.broken) {
            return broken();
        }
        lock(&self.sent).extend(requests);
        Ok(())
    }

    async fn redeliver(&self, _: &str, receipt: &str, after: Duration) -> Result<()> {
        lock(&self.redelivered).push((receipt.to_owned(), after));
        Ok(())
    }

    async fn plan(&self, request: &PlanRequest) -> Result<bool> {
        if *lock(&self.broken) {
            return broken();
        }
        match lock(&self.plans).as_mut() {
            Some(plans) => plans.push(request.clone()),
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// A model of the messages of a standard SQS queue: no two are merged, a delay is limited to 15
/// minutes and rounded up to seconds, a message that is received is hidden and is delivered again
/// unless it is deleted in time, and it may be duplicated.
pub struct SqsModel {
    clock: Arc<TestClock>,
    visibility: Duration,
    messages: Mutex<Messages>,
}

#[derive(Default)]
struct Messages {
    all: Vec<Message>,
    count: u64,
    sent: u64,
    broken: bool,
}

struct Message {
    number: u64,
    request: Request,
    /// The time from which it can be received.
    visible: Duration,
    is_copy: bool,
}

/// A message that a worker has received.
#[derive(Clone, Debug)]
pub struct Taken {
    number: u64,
    /// The request of the message.
    pub request: Request,
    /// True if the message is a duplicate of another one.
    pub is_copy: bool,
}

impl SqsModel {
    /// The longest delay of a message.
    pub const MAX_DELAY: Duration = Duration::from_secs(900);

    /// Returns an empty queue; `visibility` is the visibility timeout of its messages.
    pub fn new(clock: Arc<TestClock>, visibility: Duration) -> Self {
        Self {
            clock,
            visibility,
            messages: Mutex::default(),
        }
    }

    /// Receives the message that has been visible for the longest time.
    pub fn take(&self) -> Option<Taken> {
        let now = self.clock.now();
        let mut messages = lock(&self.messages);
        let visible = messages.all.iter_mut().filter(|one| one.visible <= now);
        let first = visible.min_by_key(|one| (one.visible, one.number))?;
        first.visible = now + self.visibility;
        Some(Taken {
            number: first.number,
            request: first.request.clone(),
            is_copy: first.is_copy,
        })
    }

    /// Deletes a message that was processed.
    pub fn delete(&self, taken: &Taken) {
        lock(&self.messages)
            .all
            .retain(|one| one.number != taken.number);
    }

    /// Delivers a duplicate of a message after a delay.
    pub fn duplicate(&self, taken: &Taken, after: Duration) {
        self.put(taken.request.clone(), after, true);
    }

    /// Returns the time at which the next message can be received.
    pub fn next(&self) -> Option<Duration> {
        let messages = lock(&self.messages);
        messages.all.iter().map(|one| one.visible).min()
    }

    /// Returns the requests of all messages, hidden or not.
    pub fn requests(&self) -> Vec<Request> {
        let messages = lock(&self.messages);
        messages.all.iter().map(|one| one.request.clone()).collect()
    }

    /// Returns the number of messages that were sent until now.
    pub fn sent(&self) -> u64 {
        lock(&self.messages).sent
    }

    /// Removes every message, without delivery.
    pub fn lose_all(&self) {
        lock(&self.messages).all.clear();
    }

    /// Makes every send fail, or succeed again.
    pub fn set_broken(&self, broken: bool) {
        lock(&self.messages).broken = broken;
    }

    fn put(&self, request: Request, after: Duration, is_copy: bool) {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        let visible = self.clock.now() + Duration::from_secs(seconds).min(Self::MAX_DELAY);
        let mut messages = lock(&self.messages);
        messages.count += 1;
        let number = messages.count;
        messages.all.push(Message {
            number,
            request,
            visible,
            is_copy,
        });
    }
}

#[async_trait]
impl Queue for SqsModel {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        if lock(&self.messages).broken {
            return broken();
        }
        for (request, after) in requests {
            self.put(request, after, false);
            lock(&self.messages).sent += 1;
        }
        Ok(())
    }
}
