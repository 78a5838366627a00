//! The requests in flight to one API server, bounded by its answers: as many as it answers quickly.
//!
//! The bound grows by one for each round of answers while all of its places are used. A server that
//! sheds load (429, or 503 with `Retry-After`) halves it, and no request is sent during the wait
//! that it names; answers that take long reduce it by a tenth. Watches do not count: the API server
//! counts them only while they start.

use http::StatusCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// The bound of a server that has not answered yet.
const FIRST: usize = 32;
/// The lowest and the highest bound.
const LEAST: usize = 2;
const MOST: usize = 128;
/// The time from which an answer is slow.
const SLOW: Duration = Duration::from_secs(1);
/// The time for which the bound is reduced once: it passes before the answers to requests that were
/// sent earlier have arrived.
const SAME_REASON: Duration = Duration::from_secs(1);
/// The longest wait that is obeyed, because a step has a time limit.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The bound of the requests in flight to a server.
pub struct Limiter {
    places: Semaphore,
    state: Mutex<State>,
}

struct State {
    bound: usize,
    /// The places that are taken away as soon as their requests are answered.
    owed: usize,
    /// The quick answers since the bound changed, while all places were used.
    answers: usize,
    reduced: Option<Instant>,
    paused_until: Option<Instant>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            places: Semaphore::new(FIRST),
            state: Mutex::new(State {
                bound: FIRST,
                owed: 0,
                answers: 0,
                reduced: None,
                paused_until: None,
            }),
        }
    }
}

/// The place of a request in flight, which is free again when this value is dropped.
pub struct Place<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
    sent: Instant,
}

impl Limiter {
    /// Waits until a request may be sent.
    pub async fn enter(&self) -> Place<'_> {
        // The semaphore is never closed; without a permit, a request is sent at once.
        let permit = self.places.acquire().await.ok();
        let pause = self.lock().paused_until;
        if let Some(until) = pause.filter(|until| *until > Instant::now()) {
            sleep_until(until).await;
        }
        Place {
            limiter: self,
            permit,
            sent: Instant::now(),
        }
    }

    fn reduce(&self, to: impl FnOnce(usize) -> usize) {
        let now = Instant::now();
        let mut state = self.lock();
        state.answers = 0;
        if state.reduced.is_some_and(|last| now < last + SAME_REASON) {
            return;
        }
        state.reduced = Some(now);
        let bound = to(state.bound).max(LEAST).min(state.bound);
        state.owed += state.bound - bound;
        state.bound = bound;
        // Free places are taken away at once.
        let taken = self.places.forget_permits(state.owed);
        state.owed -= taken;
    }

    fn grow(&self) {
        let mut state = self.lock();
        if self.places.available_permits() > 0 {
            return;
        }
        state.answers += 1;
        if state.answers < state.bound || state.bound >= MOST {
            return;
        }
        state.answers = 0;
        state.bound += 1;
        match state.owed {
            0 => self.places.add_permits(1),
            _ => state.owed -= 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Notes the answer of the server.
    pub fn answered(&self, status: StatusCode, retry_after: Option<Duration>) {
        let is_shedding = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::SERVICE_UNAVAILABLE && retry_after.is_some();
        if is_shedding {
            let until = Instant::now() + retry_after.unwrap_or_default().min(MAX_PAUSE);
            let mut state = self.limiter.lock();
            state.paused_until = state.paused_until.max(Some(until));
            drop(state);
            self.limiter.reduce(|bound| bound / 2);
        } else if self.sent.elapsed() >= SLOW {
            self.limiter.reduce(|bound| bound - bound.div_ceil(10));
        } else {
            self.limiter.grow();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        if let Some(permit) = self.permit.take()
            && state.owed > 0
        {
            state.owed -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::future::join_all;

    /// Takes every free place.
    async fn fill(limiter: &Limiter) -> Vec<Place<'_>> {
        let mut places = Vec::new();
        while let Some(place) = limiter.enter().now_or_never() {
            places.push(place);
        }
        places
    }

    async fn bound(limiter: &Limiter) -> usize {
        fill(limiter).await.len()
    }

    /// Answers a full round of requests.
    async fn round(limiter: &Limiter, took: Duration, status: u16, wait: Option<Duration>) {
        let places = fill(limiter).await;
        tokio::time::advance(took).await;
        for place in &places {
            place.answered(StatusCode::from_u16(status).unwrap(), wait);
        }
    }

    const QUICK: Duration = Duration::from_millis(5);

    #[tokio::test(start_paused = true)]
    async fn used_places_grow_by_one_a_round_up_to_the_highest_bound() {
        let limiter = Limiter::default();
        assert_eq!(bound(&limiter).await, FIRST);
        for more in 1..=3 {
            round(&limiter, QUICK, 200, None).await;
            assert_eq!(bound(&limiter).await, FIRST + more);
        }
        for _ in 0..2 * MOST {
            round(&limiter, QUICK, 200, None).await;
        }
        assert_eq!(bound(&limiter).await, MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_places_do_not_grow() {
        let limiter = Limiter::default();
        for _ in 0..10 * FIRST {
            limiter.enter().await.answered(StatusCode::OK, None);
        }
        assert_eq!(bound(&limiter).await, FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_halves_once_for_a_round_and_names_the_wait() {
        let limiter = Limiter::default();
        let wait = Duration::from_secs(3);
        round(&limiter, QUICK, 429, Some(wait)).await;
        let start = Instant::now();
        assert!(limiter.enter().now_or_never().is_none(), "the wait");
        drop(limiter.enter().await);
        assert_eq!(start.elapsed(), wait);
        assert_eq!(bound(&limiter).await, FIRST / 2);
        for more in 1..=FIRST / 2 {
            round(&limiter, QUICK, 200, None).await;
            assert_eq!(bound(&limiter).await, FIRST / 2 + more, "it grows back");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_bound_and_the_wait_have_limits() {
        let limiter = Limiter::default();
        for _ in 0..20 {
            round(&limiter, SAME_REASON, 503, Some(Duration::ZERO)).await;
        }
        assert_eq!(bound(&limiter).await, LEAST);
        round(&limiter, QUICK, 429, Some(Duration::from_secs(3600))).await;
        let start = Instant::now();
        drop(limiter.enter().await);
        assert_eq!(start.elapsed(), MAX_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_answers_reduce_by_a_tenth() {
        let limiter = Limiter::default();
        round(&limiter, SLOW, 200, None).await;
        assert_eq!(bound(&limiter).await, 28);
        // A 503 of a service behind the API server names no wait.
        round(&limiter, QUICK, 503, None).await;
        assert_eq!(bound(&limiter).await, 29);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_flight_keep_their_places_until_they_are_answered() {
        let limiter = Limiter::default();
        let mut places = fill(&limiter).await;
        places[0].answered(StatusCode::TOO_MANY_REQUESTS, None);
        places.truncate(FIRST / 2 + 1);
        assert!(limiter.enter().now_or_never().is_none());
        places.truncate(FIRST / 2 - 1);
        assert_eq!(bound(&limiter).await, 1);
        drop(places);
        // Whoever waits gets a place in turn.
        join_all((0..4 * FIRST).map(|_| limiter.enter().map(drop))).await;
        assert_eq!(bound(&limiter).await, FIRST / 2);
    }
}
