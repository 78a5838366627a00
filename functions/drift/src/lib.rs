//! The drift function as a library: [`handle`] queues the objects that are due, lost or drifted.
//! The binary calls it for each event of Lambda, and the simulation in virtual time.

mod handler;

pub use handler::handle;
