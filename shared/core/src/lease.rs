//! A lease per object keeps two workers off one object. It saves work; safety never rests on it (see ARCHITECTURE.md).

use crate::ports::{Blobs, ErrorKind, PortError, Ports, Precondition, Put, Result, Version};
use crate::state;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a lease holds: longer than a function may run (120 s), so that a holder is dead when it is over.
pub const TERM: Duration = Duration::from_secs(150);

#[derive(Serialize, Deserialize)]
struct Record {
    /// Tells our own write from another's after an unclear answer.
    nonce: String,
    /// Seconds since 1970.
    until: f64,
}

/// A held lease.
pub struct Lease {
    key: String,
    version: Version,
}

/// Takes the lease of `key`; `None` when somebody else holds it.
///
/// # Errors
/// The store's, when even the second look does not tell.
pub async fn acquire(ports: &Ports, key: &str) -> Result<Option<Lease>> {
    let key = format!("leases/{key}");
    let blobs = ports.blobs.as_ref();
    let now = ports.clock.now().as_secs_f64();
    let when = match state::read::<Record>(blobs, &key).await {
        Ok(None) => Precondition::Absent,
        Ok(Some((held, _))) if held.until > now && held.until < now + 2.0 * TERM.as_secs_f64() => {
            return Ok(None);
        }
        // Over, or from a clock that was far ahead.
        Ok(Some((_, version))) => Precondition::Is(version),
        Err(error) if error.kind == ErrorKind::Unreadable => Precondition::None,
        Err(error) => return Err(error),
    };
    let record = Record {
        nonce: hex::encode(ports.clock.nonce()),
        until: now + TERM.as_secs_f64(),
    };
    match state::write(blobs, &key, &record, when).await {
        Ok(Put::Done(version)) => Ok(Some(Lease { key, version })),
        // A refusal may be the echo of our own write, and an error may hide a success: the nonce tells.
        Ok(Put::Refused) => own(blobs, key, &record).await,
        Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::Unavailable) => {
            own(blobs, key, &record).await
        }
        Err(error) => Err(error),
    }
}

async fn own(blobs: &dyn Blobs, key: String, ours: &Record) -> Result<Option<Lease>, PortError> {
    let found = state::read::<Record>(blobs, &key).await?;
    Ok(found
        .filter(|(record, _)| record.nonce == ours.nonce)
        .map(|(_, version)| Lease { key, version }))
}

/// Gives a lease back. A failure is only logged: the lease ends by itself.
pub async fn release(ports: &Ports, lease: Lease) {
    let over = Record {
        nonce: String::new(),
        until: 0.0,
    };
    if let Err(error) = state::write(
        ports.blobs.as_ref(),
        &lease.key,
        &over,
        Precondition::Is(lease.version),
    )
    .await
    {
        tracing::warn!(key = lease.key, %error, "lease not given back, it ends by itself");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fault, MemoryBlobs, TestClock};
    use futures::FutureExt as _;
    use std::sync::Arc;

    /// Nothing in memory ever waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        future
            .now_or_never()
            .expect("in-memory ports answer at once")
    }

    fn world() -> (Ports, Arc<MemoryBlobs>, Arc<TestClock>) {
        let (blobs, clock) = (
            Arc::new(MemoryBlobs::default()),
            Arc::new(TestClock::default()),
        );
        (
            crate::testing::ports(blobs.clone(), Arc::default(), clock.clone()),
            blobs,
            clock,
        )
    }

    #[test]
    fn one_holder_until_it_is_over() {
        let (ports, _, clock) = world();
        let held = now(acquire(&ports, "a")).unwrap().unwrap();
        assert!(now(acquire(&ports, "a")).unwrap().is_none());
        assert!(now(acquire(&ports, "b")).unwrap().is_some());
        now(release(&ports, held));
        assert!(now(acquire(&ports, "a")).unwrap().is_some());
        assert!(now(acquire(&ports, "a")).unwrap().is_none());
        clock.advance(TERM);
        assert!(now(acquire(&ports, "a")).unwrap().is_some());
    }

    #[test]
    fn an_unclear_answer_is_cleared_by_the_nonce() {
        for (fault, held) in [
            (Fault::After, true),
            (Fault::Echo, true),
            (Fault::Before, false),
        ] {
            let (ports, blobs, _) = world();
            blobs.fail_next(fault);
            assert_eq!(
                now(acquire(&ports, "a")).unwrap().is_some(),
                held,
                "{fault:?}"
            );
        }
    }

    #[test]
    fn a_late_release_does_not_free_the_next_holder() {
        let (ports, _, clock) = world();
        let late = now(acquire(&ports, "a")).unwrap().unwrap();
        clock.advance(TERM);
        let _next = now(acquire(&ports, "a")).unwrap().unwrap();
        now(release(&ports, late));
        assert!(now(acquire(&ports, "a")).unwrap().is_none());
    }

    #[test]
    fn a_clock_far_ahead_does_not_lock_for_ever() {
        let (ports, _, _) = world();
        let record = Record {
            nonce: "x".into(),
            until: 1e12,
        };
        now(state::write(
            ports.blobs.as_ref(),
            "leases/a",
            &record,
            Precondition::None,
        ))
        .unwrap();
        assert!(now(acquire(&ports, "a")).unwrap().is_some());
    }
}
