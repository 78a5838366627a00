//! Queues in memory: one that keeps what it was given, and a model of SQS.

use super::{TestClock, lock};
use crate::ports::{Clock as _, ErrorKind, PortError, Queue, Request, Result};
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn broken<T>() -> Result<T> {
    Err(PortError::new(
        ErrorKind::Unavailable,
        "the queue does not answer",
    ))
}

/// A queue that keeps what it was given.
#[derive(Default)]
pub struct MemoryQueue {
    sent: Mutex<Vec<(Request, Duration)>>,
    redelivered: Mutex<Vec<(String, Duration)>>,
    broken: Mutex<bool>,
}

impl MemoryQueue {
    /// Takes out everything that was sent.
    pub fn take(&self) -> Vec<(Request, Duration)> {
        std::mem::take(&mut lock(&self.sent))
    }

    /// Takes out the receipts of the messages that were given back, and when each is to come again.
    pub fn take_redelivered(&self) -> Vec<(String, Duration)> {
        std::mem::take(&mut lock(&self.redelivered))
    }

    /// From now on nothing can be sent, or everything again.
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

    async fn redeliver(&self, receipt: &str, after: Duration) -> Result<()> {
        lock(&self.redelivered).push((receipt.to_owned(), after));
        Ok(())
    }
}

/// A standard queue of SQS, as far as messages are concerned: none is merged with another, a delay is cut at 15 minutes and
/// rounded up to seconds, a message that is taken is hidden and comes back when nobody deletes it in time, and it may come
/// twice.
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
    /// From when on it can be taken.
    visible: Duration,
    is_copy: bool,
}

/// A message in the hands of a worker.
#[derive(Clone, Debug)]
pub struct Taken {
    number: u64,
    /// What it asks for.
    pub request: Request,
    /// The queue delivers it once more.
    pub is_copy: bool,
}

impl SqsModel {
    /// The longest delay of a message.
    pub const LONGEST: Duration = Duration::from_secs(900);

    /// An empty queue whose messages are hidden for so long when they are taken.
    pub fn new(clock: Arc<TestClock>, visibility: Duration) -> Self {
        Self {
            clock,
            visibility,
            messages: Mutex::default(),
        }
    }

    /// Takes the message that can be taken for the longest time.
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

    /// Deletes a message whose work is done.
    pub fn delete(&self, taken: &Taken) {
        lock(&self.messages)
            .all
            .retain(|one| one.number != taken.number);
    }

    /// Delivers a message that was taken once more, after this long.
    pub fn duplicate(&self, taken: &Taken, after: Duration) {
        self.put(taken.request.clone(), after, true);
    }

    /// When the next message can be taken.
    pub fn next(&self) -> Option<Duration> {
        let messages = lock(&self.messages);
        messages.all.iter().map(|one| one.visible).min()
    }

    /// Every message, hidden or not.
    pub fn requests(&self) -> Vec<Request> {
        let messages = lock(&self.messages);
        messages.all.iter().map(|one| one.request.clone()).collect()
    }

    /// How many messages were sent so far.
    pub fn sent(&self) -> u64 {
        lock(&self.messages).sent
    }

    /// Loses every message.
    pub fn lose_all(&self) {
        lock(&self.messages).all.clear();
    }

    /// From now on nothing can be sent, or everything again.
    pub fn set_broken(&self, broken: bool) {
        lock(&self.messages).broken = broken;
    }

    fn put(&self, request: Request, after: Duration, is_copy: bool) {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        let visible = self.clock.now() + Duration::from_secs(seconds).min(Self::LONGEST);
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
