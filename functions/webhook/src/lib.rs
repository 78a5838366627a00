//! The webhook function as a library: [`handle`] queues the sources that a push may change.
//! The binary calls it for each event of Lambda, and the simulation in virtual time.

mod handler;

pub use handler::handle;
