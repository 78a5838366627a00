//! The record of a pull request in the bucket: the lease that keeps two workers apart, and the id
//! of the comment. All of it may be lost: the comment is then found by its marker.

use driftless_kernel::ports::{
    Blobs, ErrorKind, PortError, Ports, Precondition, PutOutcome, Version,
};
use driftless_kernel::state::{self, millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The prefix of the keys of plans.
const PREFIX: &str = "plans/";
/// The time for which a worker has a pull request: longer than the timeout of the function.
const LEASE: Duration = Duration::from_secs(6 * 60);
/// The time before the end of the lease from which its worker writes no comment.
const MARGIN: Duration = Duration::from_secs(30);
/// The number of times that a lease is tried while others write the record.
const TRIES: usize = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    /// The end of the lease in milliseconds since 1970; zero without one.
    leased_until: u64,
    /// The worker that has the lease.
    worker: String,
    /// The id of the comment.
    comment: Option<u64>,
    /// The head of the newest attempt.
    head: String,
    /// The attempts for this head that have not ended.
    attempts: u32,
}

/// A pull request that this worker has the lease of.
pub struct Held<'a> {
    blobs: &'a dyn Blobs,
    key: String,
    record: Record,
    version: Version,
}

/// The result of a request for the lease.
pub enum Lease<'a> {
    /// This worker has it.
    Held(Held<'a>),
    /// Another worker has it.
    Busy,
}

/// Returns the part of the keys of a pull request, without an ending.
fn name(repository: &str, number: u64) -> String {
    let parts: Vec<String> = repository.split('/').map(state::key_part).collect();
    format!("{PREFIX}{}/{number}", parts.join("/"))
}

/// Returns the key of the whole plan of a commit.
pub fn whole_plan(repository: &str, number: u64, head: &str) -> String {
    format!("{}-{}.md", name(repository, number), state::key_part(head))
}

/// Takes the lease of a pull request; `repository` is the name in the index of sources.
///
/// # Errors
/// The bucket's.
pub async fn take<'a>(
    ports: &'a Ports,
    repository: &str,
    number: u64,
    head: &str,
) -> Result<Lease<'a>, PortError> {
    let blobs = ports.blobs.as_ref();
    let key = format!("{}.json", name(repository, number));
    for _ in 0..TRIES {
        let known = state::recall::<Record>(blobs, &key).await?;
        let (known, when) = match known {
            Some((record, version)) => (record, Precondition::Is(version)),
            None => (Record::default(), Precondition::Absent),
        };
        let now = ports.clock.now();
        if known.leased_until > millis(now) {
            return Ok(Lease::Busy);
        }
        let attempts = match known.head == head {
            true => known.attempts + 1,
            false => 1,
        };
        let record = Record {
            leased_until: millis(now + LEASE),
            worker: hex::encode(ports.clock.nonce()),
            comment: known.comment,
            head: head.to_owned(),
            attempts,
        };
        if let PutOutcome::Done(version) = state::write(blobs, &key, &record, when).await? {
            return Ok(Lease::Held(Held {
                blobs,
                key,
                record,
                version,
            }));
        }
    }
    Ok(Lease::Busy)
}

impl Held<'_> {
    /// Returns the attempts for this head that have not ended, with this one.
    pub fn attempts(&self) -> u32 {
        self.record.attempts
    }

    /// Returns the id of the comment, if one is known.
    pub fn comment(&self) -> Option<u64> {
        self.record.comment
    }

    /// Returns whether the lease is valid long enough for a write to the host.
    pub fn is_valid(&self, now: Duration) -> bool {
        millis(now + MARGIN) < self.record.leased_until
    }

    /// Records the comment.
    ///
    /// # Errors
    /// The bucket's; `Conflict` if another worker has the lease.
    pub async fn set_comment(&mut self, id: u64) -> Result<(), PortError> {
        self.record.comment = Some(id);
        self.write().await
    }

    /// Ends the lease after an attempt that another one may repeat.
    ///
    /// # Errors
    /// Those of [`Held::set_comment`].
    pub async fn release(mut self) -> Result<(), PortError> {
        self.record.leased_until = 0;
        self.write().await
    }

    /// Ends the lease after the last attempt for this head.
    ///
    /// # Errors
    /// Those of [`Held::set_comment`].
    pub async fn end(mut self) -> Result<(), PortError> {
        self.record.attempts = 0;
        self.release().await
    }

    async fn write(&mut self) -> Result<(), PortError> {
        let when = Precondition::Is(self.version.clone());
        match state::write(self.blobs, &self.key, &self.record, when).await? {
            PutOutcome::Done(version) => {
                self.version = version;
                Ok(())
            }
            PutOutcome::PreconditionFailed => Err(PortError::new(
                ErrorKind::Conflict,
                format!("{}: another worker has the pull request", self.key),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_memory::{MemoryBlobs, TestClock};
    use std::sync::Arc;

    const NAME: &str = "github.com/acme/fleet";

    #[tokio::test]
    async fn one_worker_has_a_pull_request_until_it_ends_or_the_lease_does() {
        let clock = Arc::<TestClock>::default();
        let ports =
            driftless_memory::ports(Arc::<MemoryBlobs>::default(), Arc::default(), clock.clone());
        let take = async |head: &str| take(&ports, NAME, 3, head).await.unwrap();
        let Lease::Held(mut held) = take("a").await else {
            panic!("no worker has it");
        };
        assert!(held.is_valid(ports.clock.now()));
        held.set_comment(7).await.unwrap();
        assert!(matches!(take("a").await, Lease::Busy));
        assert!(matches!(take("b").await, Lease::Busy));
        held.end().await.unwrap();
        let Lease::Held(first) = take("a").await else {
            panic!("the lease has ended");
        };
        assert_eq!((first.comment(), first.attempts()), (Some(7), 1));
        // The worker is cut off: another one takes over, and counts the attempt.
        clock.advance(LEASE + Duration::from_secs(1));
        assert!(!first.is_valid(ports.clock.now()));
        let Lease::Held(second) = take("a").await else {
            panic!("the lease is over");
        };
        assert_eq!(second.attempts(), 2);
        let error = first.release().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "it no longer writes");
        second.release().await.unwrap();
        let Lease::Held(other) = take("b").await else {
            panic!("the lease has ended");
        };
        assert_eq!(other.attempts(), 1, "another head");
    }

    #[test]
    fn keys_do_not_leave_their_directory() {
        let key = whole_plan("github.com/../x", 3, "../../hubs/a");
        assert_eq!(key, "plans/github.com/%2E./x/3-%2E.%2F..%2Fhubs%2Fa.md");
    }
}
