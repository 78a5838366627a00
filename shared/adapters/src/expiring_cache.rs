//! A cache of values that expire. Concurrent callers share one computation; a value is used until a
//! fifth of its life is left.

use driftless_kernel::ports::{Result, Token};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of cached values; the least recently used one is evicted first.
const CAPACITY: usize = 1024;

/// The time for which the endpoint of a cluster is cached.
pub(crate) const ENDPOINT_TTL: Duration = Duration::from_secs(15 * 60);

type PendingValue<V> = Shared<BoxFuture<'static, Result<Entry<V>>>>;

#[derive(Clone)]
struct Entry<V> {
    value: V,
    /// The time until which the value is used, since 1970.
    until: Duration,
}

/// Returns a token with its expiry.
pub(crate) fn expiring(token: Token) -> (Token, Duration) {
    let end = token.expires;
    (token, end)
}

/// A cache of values by key.
pub(crate) struct ExpiringCache<K, V> {
    /// The entries, the most recently used first.
    known: Mutex<Vec<(K, PendingValue<V>)>>,
}

impl<K, V> Default for ExpiringCache<K, V> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
        }
    }
}

impl<K: Clone + PartialEq, V: Clone + Send + Sync + 'static> ExpiringCache<K, V> {
    /// Returns the value of `key`, and computes it unless a cached one has more than a fifth of its
    /// life left at `now`. `make` computes the value of the key with its expiry (both times since
    /// 1970). All concurrent callers get its error, which is not cached.
    ///
    /// # Errors
    /// Fails if `make` does.
    pub async fn get<F>(&self, key: K, now: Duration, make: impl FnOnce(K) -> F + Send) -> Result<V>
    where
        F: Future<Output = Result<(V, Duration)>> + Send + 'static,
    {
        let making = self.making(key, now, make);
        making.await.map(|answer| answer.value)
    }

    fn making<F>(&self, key: K, now: Duration, make: impl FnOnce(K) -> F) -> PendingValue<V>
    where
        F: Future<Output = Result<(V, Duration)>> + Send + 'static,
    {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, making)| is_good(making, now));
        if let Some(at) = known.iter().position(|(have, _)| *have == key) {
            known[..=at].rotate_right(1);
            return known[0].1.clone();
        }
        let made = make(key.clone());
        let made = async move {
            let (value, end) = made.await?;
            let life = end.saturating_sub(now).saturating_mul(4) / 5;
            let until = now.saturating_add(life);
            Ok(Entry { value, until })
        };
        let making = made.boxed().shared();
        known.insert(0, (key, making.clone()));
        known.truncate(CAPACITY);
        making
    }
}

/// Returns whether a value is being computed, or is not too old.
fn is_good<V: Clone>(making: &PendingValue<V>, now: Duration) -> bool {
    match making.peek() {
        None => true,
        Some(Ok(answer)) => now < answer.until,
        Some(Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::ports::{ErrorKind, PortError};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const HOUR: u64 = 3600;

    /// Makes values that live for an hour: the number of the call, or an error.
    #[derive(Clone, Default)]
    struct Maker {
        made: Arc<AtomicU64>,
        fails: bool,
    }

    impl Maker {
        async fn make(self, now: u64) -> Result<(u64, Duration)> {
            tokio::task::yield_now().await;
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            match self.fails {
                true => Err(PortError::new(ErrorKind::Unavailable, "no answer")),
                false => Ok((number, Duration::from_secs(now + HOUR))),
            }
        }
    }

    async fn ask(
        fresh: &ExpiringCache<&str, u64>,
        maker: &Maker,
        key: &'static str,
        now: u64,
    ) -> Result<u64> {
        let make = |_| maker.clone().make(now);
        fresh.get(key, Duration::from_secs(now), make).await
    }

    #[tokio::test]
    async fn a_value_is_shared_until_a_fifth_of_its_life_is_left() {
        let (fresh, maker) = (ExpiringCache::default(), Maker::default());
        let at_once = futures::join!(ask(&fresh, &maker, "a", 0), ask(&fresh, &maker, "a", 0));
        assert_eq!((at_once.0.unwrap(), at_once.1.unwrap()), (0, 0));
        assert_eq!(ask(&fresh, &maker, "a", HOUR * 4 / 5 - 1).await.unwrap(), 0);
        assert_eq!(ask(&fresh, &maker, "b", 0).await.unwrap(), 1);
        assert_eq!(ask(&fresh, &maker, "a", HOUR * 4 / 5).await.unwrap(), 2);
        assert_eq!(maker.made.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_failure_reaches_all_waiting_callers_and_is_not_cached() {
        let (fresh, mut maker) = (ExpiringCache::default(), Maker::default());
        maker.fails = true;
        let at_once = futures::join!(ask(&fresh, &maker, "a", 0), ask(&fresh, &maker, "a", 0));
        assert!(at_once.0.is_err() && at_once.1.is_err());
        assert_eq!(maker.made.load(Ordering::Relaxed), 1);
        maker.fails = false;
        assert_eq!(ask(&fresh, &maker, "a", 0).await.unwrap(), 1);
    }
}
