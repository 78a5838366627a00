//! The queue in the memory of this process.

use async_trait::async_trait;
use driftless_flux::ObjectRef;
use driftless_kernel::ports::{ErrorKind, PortError, Queue, Request, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The longest delay, which is that of SQS.
const MAX_DELAY: Duration = Duration::from_secs(15 * 60);

/// A queue in the memory of this process.
///
/// Waiting requests for the same object are merged, at the earliest of their times, except messages
/// with a token, which requeue an object. An object is worked on by one worker at a time: requests
/// for it that arrive meanwhile wait until the worker is done. Requests do not outlive the process;
/// the next sweep finds the objects that are due.
#[derive(Clone)]
pub struct LocalQueue {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    capacity: usize,
}

/// The time for which a request with consumers lets those of single objects pass.
const PATIENCE: Duration = Duration::from_secs(5);

/// The hub, the object, the token of a message that requeues it, and the consumers of a source.
type Key = (String, ObjectRef, Option<String>, Vec<ObjectRef>);

#[derive(Default)]
struct State {
    /// The waiting requests by time; the number keeps requests of the same time in order of
    /// arrival.
    due: BTreeMap<(Instant, u64), Request>,
    waiting: HashMap<Key, (Instant, u64)>,
    working: HashSet<(String, ObjectRef)>,
    /// The number of requests with consumers that workers have.
    moving: usize,
    count: u64,
    closed: bool,
}

/// A request that a worker has taken; dropping it marks the work as done.
pub struct Work {
    request: Request,
    shared: Arc<Shared>,
}

impl Work {
    /// Returns the request to work on.
    pub fn request(&self) -> &Request {
        &self.request
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        match object(&self.request) {
            Some(object) => drop(state.working.remove(&object)),
            None => state.moving = state.moving.saturating_sub(1),
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, mut request: Request, at: Instant) {
        self.count += 1;
        let mut place = (at, self.count);
        let known = self.waiting.get(&key(&request));
        if let Some((place_of_known, known)) = known.and_then(|known| self.due.remove_entry(known))
        {
            let mut merged = known;
            merged.merge(&request);
            request.cause = merged.cause;
            request.received = merged.received;
            request.commit = merged.commit;
            request.origin = merged.origin;
            place = place.min(place_of_known);
        }
        self.waiting.insert(key(&request), place);
        self.due.insert(place, request);
    }

    /// Takes the first due request whose object no worker has. Requests with consumers come last,
    /// until they have waited for a while.
    fn take(&mut self, now: Instant) -> Option<Request> {
        let ready = self.due.iter().take_while(|((at, _), _)| *at <= now);
        let (mut found, mut last) = (None, None);
        for (place, request) in ready {
            let is_urgent = request.consumers.is_empty() || place.0 + PATIENCE <= now;
            match is_urgent {
                true if self.is_free(request) => {
                    found = Some(*place);
                    break;
                }
                false if last.is_none() => last = Some(*place),
                _ => {}
            }
        }
        let request = self.due.remove(&found.or(last)?)?;
        self.waiting.remove(&key(&request));
        match object(&request) {
            Some(object) => drop(self.working.insert(object)),
            None => self.moving += 1,
        }
        Some(request)
    }

    /// Returns whether no worker has the object of a request.
    fn is_free(&self, request: &Request) -> bool {
        object(request).is_none_or(|object| !self.working.contains(&object))
    }

    /// Returns whether no worker is busy.
    fn is_unused(&self) -> bool {
        self.working.is_empty() && self.moving == 0
    }

    /// Returns the time of the next request whose object no worker has.
    fn next_time(&self) -> Option<Instant> {
        self.due
            .iter()
            .find(|(_, request)| self.is_free(request))
            .map(|((at, _), _)| *at)
    }
}

fn key(request: &Request) -> Key {
    let Request {
        hub,
        object,
        token,
        consumers,
        ..
    } = request;
    (
        hub.clone(),
        object.clone(),
        token.clone(),
        consumers.clone(),
    )
}

/// Returns the object that a worker has while it works on a request: none if the request is for the
/// consumers of a source.
fn object(request: &Request) -> Option<(String, ObjectRef)> {
    let has_step = request.consumers.is_empty();
    has_step.then(|| (request.hub.clone(), request.object.clone()))
}

impl LocalQueue {
    /// Creates a queue for at most `capacity` waiting requests.
    pub fn new(capacity: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Notify::new(),
                capacity,
            }),
        }
    }

    /// Waits for the next due request and returns it; `None` after [`close`](Self::close).
    pub async fn next(&self) -> Option<Work> {
        loop {
            // Register before the check, so that no change in between is missed.
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let next_time = {
                let mut state = self.shared.lock();
                if state.closed {
                    return None;
                }
                if let Some(request) = state.take(Instant::now()) {
                    return Some(Work {
                        request,
                        shared: self.shared.clone(),
                    });
                }
                state.next_time()
            };
            match next_time {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Ends every [`next`](Self::next) and drops the waiting requests.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.due.clear();
        state.waiting.clear();
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.shared.lock().due.len()
    }

    /// Returns whether no worker is busy and no request is due: all waiting requests have a later
    /// time.
    pub fn is_quiet(&self) -> bool {
        let state = self.shared.lock();
        let now = Instant::now();
        state.is_unused() && state.due.keys().next().is_none_or(|(at, _)| *at > now)
    }

    /// Returns whether no worker is busy and no request waits.
    pub fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.due.is_empty() && state.is_unused()
    }
}

#[async_trait]
impl Queue for LocalQueue {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        let now = Instant::now();
        {
            let mut state = self.shared.lock();
            if state.closed {
                return Err(PortError::new(
                    ErrorKind::Unavailable,
                    "the queue is closed",
                ));
            }
            let new: HashSet<Key> = requests
                .iter()
                .map(|(request, _)| key(request))
                .filter(|key| !state.waiting.contains_key(key))
                .collect();
            if state.due.len() + new.len() > self.shared.capacity {
                return Err(PortError::new(
                    ErrorKind::Unavailable,
                    format!(
                        "the queue is full: {} requests are waiting",
                        state.due.len()
                    ),
                ));
            }
            for (request, delay) in requests {
                state.put(request, now + delay.min(MAX_DELAY));
            }
        }
        self.shared.changed.notify_waiters();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_flux::FluxKind;
    use driftless_kernel::ports::Cause;

    fn request(name: &str, cause: Cause) -> Request {
        let object = ObjectRef::new(FluxKind::Kustomization, "apps", name);
        Request::new("hub", object, cause)
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[tokio::test(start_paused = true)]
    async fn delays_and_duplicates() {
        let queue = LocalQueue::new(100);
        let start = Instant::now();
        let (a, b) = (request("a", Cause::Timer), request("b", Cause::Timer));
        queue
            .send(vec![
                (a.clone(), seconds(60)),
                (b.clone(), seconds(30)),
                (a.clone(), seconds(10)),
            ])
            .await
            .unwrap();
        queue.send(vec![(a.clone(), seconds(600))]).await.unwrap();
        assert_eq!(queue.waiting(), 2);
        assert!(queue.is_quiet() && !queue.is_idle());
        let work = queue.next().await.unwrap();
        assert!(!queue.is_quiet(), "a worker is busy");
        assert_eq!(work.request(), &a);
        drop(work);
        assert_eq!(start.elapsed().as_secs(), 10);
        assert_eq!(queue.next().await.unwrap().request(), &b);
        assert_eq!(start.elapsed().as_secs(), 30);
        assert!(queue.is_idle());
        queue
            .send(vec![(a.clone(), seconds(100_000))])
            .await
            .unwrap();
        queue.next().await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 30 + 15 * 60);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_with_consumers_come_last_and_have_no_object() {
        let queue = LocalQueue::new(100);
        let of = |consumer: &str| Request {
            consumers: vec![request(consumer, Cause::Source).object],
            ..request("source", Cause::Source)
        };
        let (first, second) = (of("a"), of("b"));
        let (source, c) = (request("source", Cause::Push), request("c", Cause::Source));
        let all = [&first, &second, &first, &source, &c];
        let all = all.map(|request| (request.clone(), Duration::ZERO));
        queue.send(all.to_vec()).await.unwrap();
        let mut busy = Vec::new();
        for expected in [&source, &c, &first, &second] {
            let work = queue.next().await.unwrap();
            assert_eq!(work.request(), expected);
            busy.push(work);
        }
        assert!(!queue.is_quiet(), "workers move revisions");
        drop(busy);
        assert!(queue.is_idle());
        // After a while, it is no longer overtaken.
        queue
            .send(vec![(first.clone(), Duration::ZERO)])
            .await
            .unwrap();
        tokio::time::sleep(PATIENCE).await;
        queue.send(vec![(c, Duration::ZERO)]).await.unwrap();
        assert_eq!(queue.next().await.unwrap().request(), &first);
    }

    #[tokio::test(start_paused = true)]
    async fn sent_again_while_worked_on_runs_again_afterwards() {
        let queue = LocalQueue::new(100);
        let (a, mut other) = (request("a", Cause::Push), request("a", Cause::Drift));
        queue.send(vec![(a.clone(), Duration::ZERO)]).await.unwrap();
        let work = queue.next().await.unwrap();
        queue
            .send(vec![(a, Duration::ZERO), (other.clone(), Duration::ZERO)])
            .await
            .unwrap();
        let blocked = tokio::time::timeout(seconds(5), queue.next()).await;
        assert!(blocked.is_err(), "two workers on one object");
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await.map(|work| work.request().clone()) }
        });
        tokio::time::sleep(seconds(1)).await;
        drop(work);
        // Both are merged, with the cause that makes a step do more.
        assert_eq!(waiting.await.unwrap().as_ref(), Some(&other));
        assert!(queue.is_quiet());
        // A message with a token, which requeues the object, is not merged.
        other.token = Some("t".into());
        queue
            .send(vec![
                (other.clone(), seconds(600)),
                (other.clone(), seconds(600)),
                (request("a", Cause::Push), Duration::ZERO),
            ])
            .await
            .unwrap();
        assert_eq!(queue.waiting(), 2);
        assert_eq!(queue.next().await.unwrap().request().token, None);
        assert_eq!(queue.next().await.unwrap().request(), &other);
    }

    /// The message of the timer is dropped if another one requeues the object: an edit that is
    /// merged into it is not.
    #[tokio::test(start_paused = true)]
    async fn a_merged_message_of_the_timer_is_not_one_of_the_timer() {
        let queue = LocalQueue::new(100);
        for (cause, merged) in [
            (Cause::Changed, Cause::Changed),
            (Cause::Drift, Cause::Drift),
            (Cause::Push, Cause::Requeue),
            (Cause::Source, Cause::Requeue),
            (Cause::Timer, Cause::Timer),
        ] {
            for both in [[&Cause::Timer, &cause], [&cause, &Cause::Timer]] {
                let requests = both.map(|cause| (request("a", cause.clone()), Duration::ZERO));
                queue.send(requests.to_vec()).await.unwrap();
                let work = queue.next().await.unwrap();
                assert_eq!(work.request().cause, merged, "{cause:?}");
            }
        }
        assert!(queue.is_idle());
    }

    #[tokio::test]
    async fn many_workers_neither_lose_nor_duplicate_requests() {
        let queue = LocalQueue::new(10_000);
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    while let Some(work) = queue.next().await {
                        tokio::task::yield_now().await;
                        seen.push(work.request().object.name.clone());
                    }
                    seen
                })
            })
            .collect();
        for n in 0..1000 {
            let delay = Duration::from_millis(n % 7);
            queue
                .send(vec![(request(&n.to_string(), Cause::Timer), delay)])
                .await
                .unwrap();
        }
        while !queue.is_idle() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        queue.close();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.await.unwrap());
        }
        assert_eq!(all.len(), 1000);
        assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), 1000);
    }

    #[tokio::test]
    async fn is_bounded_and_takes_all_or_nothing() {
        let queue = LocalQueue::new(2);
        let three = ["a", "b", "c"]
            .map(|name| (request(name, Cause::Timer), Duration::ZERO))
            .to_vec();
        assert_eq!(
            queue.send(three.clone()).await.unwrap_err().kind,
            ErrorKind::Unavailable
        );
        assert_eq!(queue.waiting(), 0);
        queue.send(three[..2].to_vec()).await.unwrap();
        queue.send(three[..2].to_vec()).await.unwrap();
        assert_eq!(queue.waiting(), 2);
        queue.close();
        assert!(queue.next().await.is_none());
        assert!(queue.send(three).await.is_err());
    }
}
