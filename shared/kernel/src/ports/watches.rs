//! What a process knows of the objects of clusters, so that it reads only what has changed.

use crate::bounded_cache::BoundedCache;
use driftless_manifest::{Object, ObjectId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most bytes that are kept in total.
const MAX_BYTES: usize = 32 << 20;
/// The bytes that a value needs apart from its own text and that of its id.
const OVERHEAD: usize = 128;

/// The value that is kept of each object: a fingerprint, or the whole document as JSON.
pub type Values = BTreeMap<ObjectId, String>;

/// The objects of one kind and selector on one cluster, at a resourceVersion.
#[derive(Clone, Debug, Default)]
pub struct WatchSnapshot {
    /// The values of the objects.
    pub values: Arc<Values>,
    /// The resourceVersion of these values, from which a watch continues. Empty if the user may not
    /// watch: then nothing is kept, and each read is a LIST.
    pub version: String,
    /// The time of the LIST, since 1970.
    pub listed: Duration,
    /// The time at which `version` changed, since 1970.
    pub moved: Duration,
    /// True if the server no longer had the changes since `version`: other objects of the kind
    /// change often.
    pub is_busy: bool,
}

impl WatchSnapshot {
    fn bytes(&self) -> usize {
        let texts = self.values.iter().map(|(id, value)| {
            let id = [&id.namespace, &id.name, &id.group, &id.kind];
            OVERHEAD + value.len() + id.iter().map(|part| part.len()).sum::<usize>()
        });
        self.version.len() + texts.sum::<usize>()
    }
}

/// The Alerts of a hub.
pub type Alerts = Arc<Vec<Object>>;

/// The objects that a process knows, by cluster, kind and selector. If they need too many bytes,
/// those that were not used for the longest time are dropped, and read again by a LIST.
pub struct WatchCache {
    snapshots: BoundedCache<String, WatchSnapshot>,
    /// The Alerts of the hubs that this process follows, by the names of the hubs.
    alerts: Mutex<BTreeMap<String, Alerts>>,
}

impl Default for WatchCache {
    fn default() -> Self {
        Self::with_limit(MAX_BYTES)
    }
}

impl WatchCache {
    /// Returns an empty cache that keeps at most `limit` bytes of snapshots.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            snapshots: BoundedCache::with_limit(limit as u64),
            alerts: Mutex::default(),
        }
    }

    /// Returns what is known under a key.
    pub fn get(&self, key: &str) -> Option<WatchSnapshot> {
        self.snapshots.get(key)
    }

    /// Keeps what is known under a key, and drops others if there are too many bytes in total.
    pub fn keep(&self, key: &str, watched: WatchSnapshot) {
        let bytes = key.len() + watched.bytes();
        self.snapshots.keep(key.to_owned(), watched, bytes as u64);
    }

    /// Returns the Alerts of a hub, as a watch has seen them; `None` if they must be listed.
    pub fn alerts(&self, hub: &str) -> Option<Alerts> {
        self.followed_alerts().get(hub).cloned()
    }

    /// Sets the Alerts of a hub that a watch follows; `None` if the watch is interrupted.
    pub fn set_alerts(&self, hub: &str, alerts: Option<Alerts>) {
        let mut followed = self.followed_alerts();
        match alerts {
            Some(alerts) => followed.insert(hub.to_owned(), alerts),
            None => followed.remove(hub),
        };
    }

    fn followed_alerts(&self) -> MutexGuard<'_, BTreeMap<String, Alerts>> {
        self.alerts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(bytes: usize) -> WatchSnapshot {
        let id = ObjectId {
            namespace: String::new(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
        };
        WatchSnapshot {
            values: Arc::new([(id, "x".repeat(bytes - OVERHEAD - 1))].into()),
            ..WatchSnapshot::default()
        }
    }

    fn kept_keys(cache: &WatchCache) -> String {
        cache.snapshots.contents().0.concat()
    }

    fn kept_bytes(cache: &WatchCache) -> u64 {
        cache.snapshots.contents().1
    }

    #[test]
    fn the_least_recently_used_is_dropped() {
        let cache = WatchCache::with_limit(1000);
        for key in ["a", "b", "c"] {
            cache.keep(key, watched(300));
        }
        assert_eq!(kept_keys(&cache), "abc");
        assert!(cache.get("a").is_some());
        cache.keep("d", watched(300));
        assert_eq!(kept_keys(&cache), "acd");
        assert!(cache.get("b").is_none());
        // A replaced entry counts once.
        cache.keep("a", watched(400));
        assert_eq!(
            (kept_keys(&cache).as_str(), kept_bytes(&cache)),
            ("acd", 1000)
        );
        // What is larger than the limit is not kept, and neither is the state before it.
        cache.keep("d", watched(1001));
        assert_eq!(
            (kept_keys(&cache).as_str(), kept_bytes(&cache)),
            ("ac", 700)
        );
        cache.keep("e", watched(1000));
        assert_eq!(
            (kept_keys(&cache).as_str(), kept_bytes(&cache)),
            ("e", 1000)
        );
        // The version counts as well: it can have the length of a list of paths.
        let long = WatchSnapshot {
            version: "v".repeat(999),
            ..WatchSnapshot::default()
        };
        cache.keep("f", long);
        assert_eq!(
            (kept_keys(&cache).as_str(), kept_bytes(&cache)),
            ("f", 1000)
        );
    }
}
