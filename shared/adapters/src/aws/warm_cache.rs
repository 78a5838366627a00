//! Values that a warm function keeps for some time, such as the answers of a service.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of kept values.
const CAPACITY: usize = 500;

/// Values by name, each with the time until which it is used. Unlike the values of an
/// [`ExpiringCache`](crate::expiring_cache::ExpiringCache), no request is shared: one that a frozen
/// function left behind concerns no later caller.
pub struct WarmCache<V>(Mutex<HashMap<String, (Instant, V)>>);

impl<V> Default for WarmCache<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> WarmCache<V> {
    /// Returns the value of a name if it is still used.
    pub fn get(&self, name: &str) -> Option<V> {
        let known = self.lock();
        let (until, value) = known.get(name)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    /// Keeps a value for this time. A full cache is emptied first.
    pub fn keep(&self, name: &str, value: V, time: Duration) {
        let mut known = self.lock();
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(name.to_owned(), (Instant::now() + time, value));
    }

    /// Removes the value of a name.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
