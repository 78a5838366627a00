//! The bucket and the queue on NATS JetStream: any number of workers on any machines share them.
//!
//! ```text
//! PREFIX-blobs   PREFIX.blobs.KEY       the newest version of each blob
//!                PREFIX.aside.KEY       a damaged blob that was set aside
//! PREFIX-chunks  PREFIX.chunks.ID.N     the content of blobs that are larger than a message
//! PREFIX-queue   PREFIX.queue.steps     requests that are due
//!                PREFIX.queue.isolated  those of isolated steps
//!                PREFIX.queue.sweeps    sweeps of hubs
//!                PREFIX.queue.later.ID  requests with a delay: message schedules
//! PREFIX-dead    PREFIX.dead.QUEUE      messages whose fifth delivery failed
//! ```
//! [`connect`] creates the streams that are missing. [`NatsBlobs`] and [`NatsQueue`] implement the
//! ports, [`Deliveries`] is the receiving end of the queue.

mod blobs;
mod connection;
mod deliveries;
mod error;
mod expiry;
mod keys;
mod queue;

pub use blobs::NatsBlobs;
pub use connection::{ConnectError, Nats, NatsOptions, connect, without_login};
pub use deliveries::{Deliveries, Delivery, MAX_DELIVERIES, Work};
pub use queue::{NatsQueue, QueueName};
