//! Answers with an end: made once for all who ask at the same time, and given again while enough of their life is left.

use driftless_core::ports::Result;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many answers are kept; the one unused for longest goes first.
const KEPT: usize = 1024;

type Making<V> = Shared<BoxFuture<'static, Result<Entry<V>>>>;

#[derive(Clone)]
struct Entry<V> {
    value: V,
    /// Until when it is given away, since 1970.
    until: Duration,
}

/// Answers by their questions.
pub(crate) struct ExpiringCache<K, V> {
    /// The most recently used first.
    known: Mutex<Vec<(K, Making<V>)>>,
}

impl<K, V> Default for ExpiringCache<K, V> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
        }
    }
}

impl<K: PartialEq, V: Clone + Send + Sync + 'static> ExpiringCache<K, V> {
    /// The answer to `key`, made anew when there is none with a fifth of its life left at `now`. `make` gives it with its end
    /// (both since 1970); a failure is told to all who wait for it, and to nobody later.
    ///
    /// # Errors
    /// What `make` says.
    pub async fn get(
        &self,
        key: K,
        now: Duration,
        make: impl Future<Output = Result<(V, Duration)>> + Send + 'static,
    ) -> Result<V> {
        let making = self.making(key, now, make);
        making.await.map(|answer| answer.value)
    }

    fn making(
        &self,
        key: K,
        now: Duration,
        make: impl Future<Output = Result<(V, Duration)>> + Send + 'static,
    ) -> Making<V> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, making)| is_good(making, now));
        if let Some(at) = known.iter().position(|(have, _)| *have == key) {
            known[..=at].rotate_right(1);
            return known[0].1.clone();
        }
        let made = async move {
            let (value, end) = make.await?;
            let life = end.saturating_sub(now).saturating_mul(4) / 5;
            let until = now.saturating_add(life);
            Ok(Entry { value, until })
        };
        let making = made.boxed().shared();
        known.insert(0, (key, making.clone()));
        known.truncate(KEPT);
        making
    }
}

/// Whether it is under way, or answered and not too old.
fn is_good<V: Clone>(making: &Making<V>, now: Duration) -> bool {
    match making.peek() {
        None => true,
        Some(Ok(answer)) => now < answer.until,
        Some(Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_core::ports::{ErrorKind, PortError};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const HOUR: u64 = 3600;

    /// Gives the number of its answer, which lives for an hour; the failing ones say so.
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
        let make = maker.clone().make(now);
        fresh.get(key, Duration::from_secs(now), make).await
    }

    #[tokio::test]
    async fn an_answer_serves_all_until_a_fifth_of_its_life_is_left() {
        let (fresh, maker) = (ExpiringCache::default(), Maker::default());
        let at_once = futures::join!(ask(&fresh, &maker, "a", 0), ask(&fresh, &maker, "a", 0));
        assert_eq!((at_once.0.unwrap(), at_once.1.unwrap()), (0, 0));
        assert_eq!(ask(&fresh, &maker, "a", HOUR * 4 / 5 - 1).await.unwrap(), 0);
        assert_eq!(ask(&fresh, &maker, "b", 0).await.unwrap(), 1);
        assert_eq!(ask(&fresh, &maker, "a", HOUR * 4 / 5).await.unwrap(), 2);
        assert_eq!(maker.made.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_who_waits_and_tried_again_later() {
        let (fresh, mut maker) = (ExpiringCache::default(), Maker::default());
        maker.fails = true;
        let at_once = futures::join!(ask(&fresh, &maker, "a", 0), ask(&fresh, &maker, "a", 0));
        assert!(at_once.0.is_err() && at_once.1.is_err());
        assert_eq!(maker.made.load(Ordering::Relaxed), 1);
        maker.fails = false;
        assert_eq!(ask(&fresh, &maker, "a", 0).await.unwrap(), 1);
    }
}
