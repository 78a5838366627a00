//! Bodies of strangers: bounded in bytes, in time and in how slowly they may come.

use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// How long a body may take in all.
const TIME: Duration = Duration::from_secs(10);
/// How long it may take to get going.
const START: Duration = Duration::from_secs(2);
/// How often its speed is looked at afterwards, and how many bytes must have come since.
const SPAN: Duration = Duration::from_secs(1);
const LEAST: usize = 8 << 10;
/// What every body may have, whatever others have: nearly all deliveries are smaller.
const OWN: usize = 64 << 10;
/// What all bodies may have beside that, in KiB.
const SHARED: usize = 100 << 10;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It has more bytes than it may have.
    TooLarge,
    /// It came too slowly.
    Slow,
    /// Large bodies of others took all the room.
    NoRoom,
    /// The connection ended, or it is not the body that its head announced.
    Broken,
}

/// The memory that large bodies share.
pub struct Room(Semaphore);

impl Default for Room {
    fn default() -> Self {
        Self(Semaphore::new(SHARED))
    }
}

/// A body, and its part of the room.
#[derive(Debug)]
pub struct Read<'a> {
    /// The bytes.
    pub bytes: Vec<u8>,
    _room: Option<SemaphorePermit<'a>>,
}

impl Room {
    /// Reads a body of at most `most` bytes.
    pub async fn read(&self, body: Body, most: usize) -> Result<Read<'_>, Unread> {
        let mut coming = Coming::new(body);
        let (mut bytes, mut room) = (Vec::new(), None::<SemaphorePermit<'_>>);
        while let Some(more) = coming.next().await? {
            let size = bytes.len() + more.len();
            if size > most {
                return Err(Unread::TooLarge);
            }
            let held = room.as_ref().map_or(0, SemaphorePermit::num_permits);
            let lacking = size.saturating_sub(OWN).div_ceil(1024).saturating_sub(held);
            if lacking > 0 {
                let taken = self.take(lacking, &mut coming).await?;
                match &mut room {
                    Some(room) => room.merge(taken),
                    None => room = Some(taken),
                }
            }
            if bytes.capacity() < size {
                // Not twice as much as there is: this is not counted.
                bytes.reserve_exact(more.len().max(bytes.len() / 4));
            }
            bytes.extend_from_slice(&more);
        }
        Ok(Read { bytes, _room: room })
    }

    /// Takes so many KiB of the room, waiting for them as long as the body may take.
    async fn take(&self, kib: usize, coming: &mut Coming) -> Result<SemaphorePermit<'_>, Unread> {
        let kib = u32::try_from(kib).map_err(|_| Unread::TooLarge)?;
        if let Ok(taken) = self.0.try_acquire_many(kib) {
            return Ok(taken);
        }
        let taken = timeout_at(coming.end, self.0.acquire_many(kib)).await;
        coming.had_to_wait();
        // The semaphore is never closed.
        taken.ok().and_then(Result::ok).ok_or(Unread::NoRoom)
    }
}

/// Reads a body that is refused already, keeping nothing: a sender that is cut off never sees the answer.
pub async fn discard(body: Body, most: usize) {
    let (mut coming, mut left) = (Coming::new(body), most);
    while let Ok(Some(bytes)) = coming.next().await {
        match left.checked_sub(bytes.len()) {
            Some(less) => left = less,
            None => break,
        }
    }
}

/// A body whose speed is looked at.
struct Coming {
    frames: axum::body::BodyDataStream,
    /// When it must be whole.
    end: Instant,
    /// When its speed is looked at next.
    look: Instant,
    /// What came since the last look.
    came: usize,
}

impl Coming {
    fn new(body: Body) -> Self {
        let now = Instant::now();
        Self {
            frames: body.into_data_stream(),
            end: now + TIME,
            look: now + START,
            came: 0,
        }
    }

    /// The next bytes; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Unread> {
        loop {
            let now = Instant::now();
            if now >= self.end || (now >= self.look && self.came < LEAST) {
                return Err(Unread::Slow);
            }
            if now >= self.look {
                (self.look, self.came) = (now + SPAN, 0);
            }
            // When neither comes in time, the next round says what that means.
            if let Ok(frame) = timeout_at(self.look.min(self.end), self.frames.next()).await {
                let frame = frame.transpose().map_err(|_| Unread::Broken)?;
                self.came += frame.as_ref().map_or(0, Bytes::len);
                return Ok(frame);
            }
        }
    }

    /// We let its sender wait: that is not its slowness.
    fn had_to_wait(&mut self) {
        (self.look, self.came) = (Instant::now() + SPAN, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::io;

    /// A body that sends `size` bytes each `pause`.
    fn drip(size: usize, pause: Duration, count: usize) -> Body {
        let frames = stream::iter(0..count).then(move |_| async move {
            tokio::time::sleep(pause).await;
            io::Result::Ok(Bytes::from(vec![b'x'; size]))
        });
        Body::from_stream(frames)
    }

    async fn read(body: Body, most: usize) -> Result<usize, Unread> {
        let room = Room::default();
        room.read(body, most).await.map(|read| read.bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_end() {
        let millis = Duration::from_millis;
        let started = Instant::now();
        assert_eq!(
            read(drip(1, millis(100), 1000), 1 << 20).await,
            Err(Unread::Slow)
        );
        assert_eq!(started.elapsed(), START);
        let started = Instant::now();
        let paused = drip(1 << 20, millis(0), 1)
            .into_data_stream()
            .chain(drip(1, Duration::from_secs(60), 1).into_data_stream());
        assert_eq!(
            read(Body::from_stream(paused), 2 << 20).await,
            Err(Unread::Slow)
        );
        assert_eq!(started.elapsed(), START + SPAN);
        // Fast enough, and for ever.
        let started = Instant::now();
        assert_eq!(
            read(drip(8 << 10, millis(500), 1000), 25 << 20).await,
            Err(Unread::Slow)
        );
        assert_eq!(started.elapsed(), TIME);
        assert_eq!(read(drip(100, millis(100), 10), 1000).await, Ok(1000));
        assert_eq!(read(Body::empty(), 0).await, Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_no_larger_than_it_may_be() {
        assert_eq!(
            read(Body::from(vec![0; 10]), 9).await,
            Err(Unread::TooLarge)
        );
        assert_eq!(read(Body::from(vec![0; 10]), 10).await, Ok(10));
        let broken = stream::iter([Ok(Bytes::from("{")), Err(io::Error::other("gone"))]);
        assert_eq!(
            read(Body::from_stream(broken), 10).await,
            Err(Unread::Broken)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_their_room_and_small_ones_have_their_own() {
        let room = Room::default();
        let large = || drip(25 << 20, Duration::ZERO, 1);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(room.read(large(), 25 << 20).await.unwrap());
        }
        assert_eq!(
            room.read(large(), 25 << 20).await.unwrap_err(),
            Unread::NoRoom
        );
        assert!(room.read(Body::from(vec![0; OWN]), 25 << 20).await.is_ok());
        held.pop();
        assert!(room.read(large(), 25 << 20).await.is_ok());
    }
}
