//! Stand-ins for one machine: a folder in place of the bucket, a queue in memory, secrets from files.

mod blobs;
mod clock;
mod folder;
mod keys;
mod names;
mod outbox;
mod queue;

pub use blobs::{FolderBlobs, OF_A_PROCESS};
pub use clock::SystemClock;
pub use folder::set_aside;
pub use keys::LocalSecrets;
pub use outbox::OutboxQueue;
pub use queue::{LocalQueue, Work};
