//! Watches of collections, by which a run sees when work is done.

use driftless_harness::cluster::Cluster;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time after which work counts as stuck.
const LIMIT: Duration = Duration::from_secs(600);

/// The last known state of an object, and its time.
#[derive(Clone)]
pub struct Seen {
    pub object: Value,
    at: Instant,
}

/// The objects of a collection by their names.
pub struct Watched {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
}

impl Watched {
    /// Watches a collection until the API server ends. `keep` reduces an object to what is
    /// compared.
    pub fn start(cluster: &Cluster, collection: &str, keep: fn(&Value) -> Value) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, Seen>>> = Arc::default();
        let open = cluster.watch(collection);
        let map = Arc::clone(&seen);
        // The API server ends a watch whose reader is late: a new one begins with all objects.
        std::thread::spawn(move || {
            while let Some(events) = open() {
                for line in events.lines() {
                    let Ok(line) = line else { break };
                    note(&map, &line, keep);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Self { seen }
    }

    /// Waits until `count` objects satisfy the condition. Returns the time from `start` to the last
    /// event of these.
    pub fn until(
        &self,
        what: &str,
        start: Instant,
        count: usize,
        is_done: impl Fn(&str, &Value) -> bool,
    ) -> Duration {
        let limit = Instant::now() + LIMIT;
        loop {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let done = seen.iter().filter(|(name, one)| is_done(name, &one.object));
            let times: Vec<Instant> = done.map(|(_, one)| one.at).collect();
            if times.len() >= count {
                let last = times.into_iter().max().unwrap_or(start);
                return last.saturating_duration_since(start);
            }
            let missing = seen.iter().find(|(name, one)| !is_done(name, &one.object));
            let missing = missing.map(|(name, one)| format!("{name}: {}", one.object));
            assert!(
                Instant::now() < limit,
                "{what}: {} of {count}; {}",
                times.len(),
                missing.unwrap_or_default()
            );
            drop(seen);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Notes an event of a watch.
fn note(seen: &Mutex<BTreeMap<String, Seen>>, line: &str, keep: fn(&Value) -> Value) {
    let at = Instant::now();
    let Ok(event) = serde_json::from_str::<Value>(line) else {
        return;
    };
    let object = &event["object"];
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if event["type"] == "DELETED" {
        seen.remove(name);
        return;
    }
    let object = keep(object);
    // The first events of a watch repeat what is known.
    if seen.get(name).is_none_or(|known| known.object != object) {
        seen.insert(name.to_owned(), Seen { object, at });
    }
}

/// Keeps what shows that a Flux object is reconciled.
pub fn flux_object(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "Ready");
    let ready = ready.cloned().unwrap_or_default();
    let is_current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    serde_json::json!({
        "ready": ready["status"],
        "message": ready["message"],
        "current": is_current,
        "revision": object["status"]["lastAppliedRevision"],
        "version": object["spec"]["values"]["version"],
        "handled": object["status"]["lastHandledReconcileAt"],
    })
}

/// Keeps the version of an applied object.
pub fn version(object: &Value) -> Value {
    object["metadata"]["annotations"]["version"].clone()
}
