//! The plan function as a library: [`Function::handle`] makes the plan of a pull request for each
//! message. The binary calls it for each event of Lambda, and the tests with other ports.
//!
//! The course of a plan is in `course`: the commits become fleets (`states`), with what the hubs
//! know (`hubs`), and are compared with the live clusters (`live`); the plan becomes a comment
//! (`comment`) and a check run (`report`); a record in the bucket keeps two workers apart
//! (`record`).

mod comment;
mod course;
mod error;
mod handler;
mod hubs;
mod live;
pub mod record;
mod report;
mod states;
mod work;

pub use handler::{Function, MAX_RECEIVES};
