//! Adapters for one machine: a directory in place of the bucket, a queue in memory, secrets from
//! files.

mod blobs;
mod clock;
mod directory;
mod keys;
mod names;
mod outbox;
mod queue;

pub use blobs::{DirectoryBlobs, VOLATILE_PREFIXES};
pub use clock::SystemClock;
pub use directory::set_aside;
pub use keys::LocalSecrets;
pub use outbox::OutboxQueue;
pub use queue::{LocalQueue, Work};
