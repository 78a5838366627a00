//! Invariant **X**: two steps of one object never run at once, unless one was frozen. A step runs
//! from the write of its lease until the write that releases it, or until its function ends.

use crate::lambda::{self, Invocation};
use crate::trace::Trace;
use driftless_flux::FluxKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// The most by which clocks differ, and the time that a write needs: a lease that ends within it
/// may count as over.
const MARGIN: Duration = Duration::from_secs(6);

/// The steps that run, by the keys of their records, and the number of all steps.
pub struct Leases {
    trace: Arc<Trace>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: BTreeMap<String, Running>,
    counts: BTreeMap<String, u64>,
}

struct Running {
    nonce: String,
    until: Duration,
    invocation: Weak<Invocation>,
}

impl Leases {
    /// Returns a watch over leases without a step.
    pub fn new(trace: Arc<Trace>) -> Self {
        Self {
            trace,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the leases")
    }

    /// Notes a record that was written at `now` (since 1970).
    pub fn written(&self, key: &str, content: &[u8], now: Duration) {
        let Some(object) = object_of(key) else {
            return;
        };
        let Ok(record) = serde_json::from_slice::<Value>(content) else {
            return;
        };
        let nonce = record["lease"]["nonce"].as_str().unwrap_or_default();
        let until = record["lease"]["until"].as_u64().unwrap_or_default();
        let mut state = self.state();
        if until == 0 {
            if state.running.get(key).is_some_and(|one| one.nonce == nonce) {
                state.running.remove(key);
            }
            return;
        }
        let Some(invocation) = lambda::current() else {
            return;
        };
        match state.running.get(key) {
            // A request or a note was added to the record.
            Some(known) if known.nonce == nonce => return,
            Some(known) => {
                if let Some(holder) = known.invocation.upgrade()
                    && holder.is_running()
                    && now + MARGIN < known.until
                {
                    let text = format!(
                        "two steps of {object} run at once: {holder} has the lease for {} s, and {invocation} takes it",
                        (known.until.saturating_sub(now)).as_secs()
                    );
                    self.trace.violation('X', &text);
                }
            }
            None => {}
        }
        *state.counts.entry(object).or_default() += 1;
        let running = Running {
            nonce: nonce.to_owned(),
            until: Duration::from_millis(until),
            invocation: Arc::downgrade(&invocation),
        };
        state.running.insert(key.to_owned(), running);
    }

    /// Notes that a record was deleted.
    pub fn deleted(&self, key: &str) {
        self.state().running.remove(key);
    }

    /// Returns the number of steps of each object.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.state().counts.clone()
    }
}

/// Returns the object of a record's key, such as `Kustomization/apps/web`.
fn object_of(key: &str) -> Option<String> {
    let mut parts = key.strip_prefix("objects/")?.split('/').skip(1);
    let (plural, namespace, file) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = FluxKind::ALL
        .into_iter()
        .find(|kind| kind.plural() == plural)?;
    Some(format!(
        "{kind}/{namespace}/{}",
        file.strip_suffix(".json")?
    ))
}
