//! What a process knows of the objects of clusters, so that it reads only what has changed.

use driftless_manifest::ObjectId;
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
        texts.sum()
    }
}

/// The objects that a process knows, by cluster, kind and selector. If they need too many bytes,
/// those that were not used for the longest time are dropped, and read again by a LIST.
pub struct WatchCache {
    limit: usize,
    kept: Mutex<CacheEntries>,
}

#[derive(Default)]
struct CacheEntries {
    entries: BTreeMap<String, Entry>,
    bytes: usize,
    /// The number of uses until now.
    uses: u64,
}

struct Entry {
    watched: WatchSnapshot,
    bytes: usize,
    /// The number of the last use.
    used: u64,
}

impl Default for WatchCache {
    fn default() -> Self {
        Self::with_limit(MAX_BYTES)
    }
}

impl WatchCache {
    /// Returns an empty cache that keeps at most `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            kept: Mutex::default(),
        }
    }

    /// Returns what is known under a key.
    pub fn get(&self, key: &str) -> Option<WatchSnapshot> {
        let mut kept = self.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let entry = kept.entries.get_mut(key)?;
        entry.used = uses;
        Some(entry.watched.clone())
    }

    /// Keeps what is known under a key, and drops others if there are too many bytes in total.
    pub fn keep(&self, key: &str, watched: WatchSnapshot) {
        let bytes = key.len() + watched.bytes();
        let mut kept = self.lock();
        kept.remove(key);
        if bytes > self.limit {
            return;
        }
        while kept.bytes + bytes > self.limit {
            let oldest = kept.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            kept.remove(&oldest);
        }
        kept.uses += 1;
        kept.bytes += bytes;
        let entry = Entry {
            watched,
            bytes,
            used: kept.uses,
        };
        kept.entries.insert(key.to_owned(), entry);
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntries {
    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
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
        let kept = cache.lock();
        kept.entries.keys().map(String::as_str).collect()
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
            (kept_keys(&cache).as_str(), cache.lock().bytes),
            ("acd", 1000)
        );
        // What is larger than the limit is not kept, and neither is the state before it.
        cache.keep("d", watched(1001));
        assert_eq!(
            (kept_keys(&cache).as_str(), cache.lock().bytes),
            ("ac", 700)
        );
        cache.keep("e", watched(1000));
        assert_eq!(
            (kept_keys(&cache).as_str(), cache.lock().bytes),
            ("e", 1000)
        );
    }
}
