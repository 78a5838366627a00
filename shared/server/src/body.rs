//! Reads untrusted request bodies, with limits for their size, their time and their speed.

use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// The maximum time of a body.
const TIME: Duration = Duration::from_secs(10);
/// The time after which the speed of a body is checked first.
const START: Duration = Duration::from_secs(2);
/// The interval of the later checks of the speed.
const SPEED_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum number of bytes between two checks.
const MIN_BYTES: usize = 8 << 10;
/// The size up to which a body needs none of the shared memory, in bytes; nearly all deliveries are
/// smaller.
const MAX_SMALL_BODY: usize = 64 << 10;
/// The memory that all bodies share in addition, in KiB.
const SHARED_KIB: usize = 100 << 10;

/// The reason why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body is larger than allowed.
    TooLarge,
    /// The body arrived too slowly.
    Slow,
    /// Other large bodies use all the shared memory.
    NoRoom,
    /// The connection ended, or the body does not match its headers.
    Broken,
}

/// The memory that large bodies share.
pub(crate) struct BodyMemory(Semaphore);

impl Default for BodyMemory {
    fn default() -> Self {
        Self(Semaphore::new(SHARED_KIB))
    }
}

/// A body, and its permits for shared memory.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    /// The content of the body.
    pub(crate) bytes: Vec<u8>,
    _room: Option<SemaphorePermit<'a>>,
}

impl BodyMemory {
    /// Reads a body of at most `limit` bytes.
    pub(crate) async fn read(&self, body: Body, limit: usize) -> Result<Read<'_>, BodyError> {
        let mut incoming = Incoming::new(body);
        let (mut bytes, mut room) = (Vec::new(), None::<SemaphorePermit<'_>>);
        while let Some(more) = incoming.next().await? {
            let size = bytes.len() + more.len();
            if size > limit {
                return Err(BodyError::TooLarge);
            }
            let held = room.as_ref().map_or(0, SemaphorePermit::num_permits);
            let lacking = size
                .saturating_sub(MAX_SMALL_BODY)
                .div_ceil(1024)
                .saturating_sub(held);
            if lacking > 0 {
                let taken = self.take(lacking, &mut incoming).await?;
                match &mut room {
                    Some(room) => room.merge(taken),
                    None => room = Some(taken),
                }
            }
            if bytes.capacity() < size {
                // Do not double the capacity: the unused part is not counted.
                bytes.reserve_exact(more.len().max(bytes.len() / 4));
            }
            bytes.extend_from_slice(&more);
        }
        Ok(Read { bytes, _room: room })
    }

    /// Takes this many KiB of the shared memory, and waits for them until the deadline of the body.
    async fn take(
        &self,
        kib: usize,
        incoming: &mut Incoming,
    ) -> Result<SemaphorePermit<'_>, BodyError> {
        let kib = u32::try_from(kib).map_err(|_| BodyError::TooLarge)?;
        if let Ok(taken) = self.0.try_acquire_many(kib) {
            return Ok(taken);
        }
        let taken = timeout_at(incoming.end, self.0.acquire_many(kib)).await;
        incoming.restart_check();
        // The semaphore is never closed.
        taken.ok().and_then(Result::ok).ok_or(BodyError::NoRoom)
    }
}

/// Reads and drops a body that is already refused: a client whose connection is closed while it
/// sends never sees the answer.
pub(crate) async fn discard(body: Body, limit: usize) {
    let (mut incoming, mut left) = (Incoming::new(body), limit);
    while let Ok(Some(bytes)) = incoming.next().await {
        match left.checked_sub(bytes.len()) {
            Some(less) => left = less,
            None => break,
        }
    }
}

/// A body whose speed is checked.
struct Incoming {
    frames: axum::body::BodyDataStream,
    /// The deadline of the body.
    end: Instant,
    /// The time of the next check of the speed.
    next_check: Instant,
    /// The number of bytes since the last check.
    received: usize,
}

impl Incoming {
    fn new(body: Body) -> Self {
        let now = Instant::now();
        Self {
            frames: body.into_data_stream(),
            end: now + TIME,
            next_check: now + START,
            received: 0,
        }
    }

    /// Returns the next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let now = Instant::now();
            if now >= self.end || (now >= self.next_check && self.received < MIN_BYTES) {
                return Err(BodyError::Slow);
            }
            if now >= self.next_check {
                (self.next_check, self.received) = (now + SPEED_CHECK_INTERVAL, 0);
            }
            // After a timeout the next iteration checks which limit was reached.
            if let Ok(frame) = timeout_at(self.next_check.min(self.end), self.frames.next()).await {
                let frame = frame.transpose().map_err(|_| BodyError::Broken)?;
                self.received += frame.as_ref().map_or(0, Bytes::len);
                return Ok(frame);
            }
        }
    }

    /// Starts a new check of the speed: the sender was not slow, but had to wait for memory.
    fn restart_check(&mut self) {
        (self.next_check, self.received) = (Instant::now() + SPEED_CHECK_INTERVAL, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::io;

    /// Returns a body that sends `size` bytes after each `pause`.
    fn drip(size: usize, pause: Duration, count: usize) -> Body {
        let frames = stream::iter(0..count).then(move |_| async move {
            tokio::time::sleep(pause).await;
            io::Result::Ok(Bytes::from(vec![b'x'; size]))
        });
        Body::from_stream(frames)
    }

    async fn read(body: Body, limit: usize) -> Result<usize, BodyError> {
        let room = BodyMemory::default();
        room.read(body, limit).await.map(|read| read.bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_end() {
        let millis = Duration::from_millis;
        let started = Instant::now();
        assert_eq!(
            read(drip(1, millis(100), 1000), 1 << 20).await,
            Err(BodyError::Slow)
        );
        assert_eq!(started.elapsed(), START);
        let started = Instant::now();
        let paused = drip(1 << 20, millis(0), 1)
            .into_data_stream()
            .chain(drip(1, Duration::from_secs(60), 1).into_data_stream());
        assert_eq!(
            read(Body::from_stream(paused), 2 << 20).await,
            Err(BodyError::Slow)
        );
        assert_eq!(started.elapsed(), START + SPEED_CHECK_INTERVAL);
        // Fast enough, but endless.
        let started = Instant::now();
        assert_eq!(
            read(drip(8 << 10, millis(500), 1000), 25 << 20).await,
            Err(BodyError::Slow)
        );
        assert_eq!(started.elapsed(), TIME);
        assert_eq!(read(drip(100, millis(100), 10), 1000).await, Ok(1000));
        assert_eq!(read(Body::empty(), 0).await, Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_above_the_limit_is_refused() {
        assert_eq!(
            read(Body::from(vec![0; 10]), 9).await,
            Err(BodyError::TooLarge)
        );
        assert_eq!(read(Body::from(vec![0; 10]), 10).await, Ok(10));
        let broken = stream::iter([Ok(Bytes::from("{")), Err(io::Error::other("gone"))]);
        assert_eq!(
            read(Body::from_stream(broken), 10).await,
            Err(BodyError::Broken)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_memory_and_small_ones_do_not_wait_for_it() {
        let room = BodyMemory::default();
        let large = || drip(25 << 20, Duration::ZERO, 1);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(room.read(large(), 25 << 20).await.unwrap());
        }
        assert_eq!(
            room.read(large(), 25 << 20).await.unwrap_err(),
            BodyError::NoRoom
        );
        assert!(
            room.read(Body::from(vec![0; MAX_SMALL_BODY]), 25 << 20)
                .await
                .is_ok()
        );
        held.pop();
        assert!(room.read(large(), 25 << 20).await.is_ok());
    }
}
