//! The reconcile function as a library: [`handle`] runs one step for each message.
//! The binary calls it for each event of Lambda, and the simulation in virtual time.

mod handler;

pub use handler::handle;
