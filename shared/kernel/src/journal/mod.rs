//! The journal: for each Flux object a small record in the bucket of what its last steps changed.
//!
//! A step that changed nothing writes nothing. A step that did writes one blob: it adds its entry
//! at the front and drops the oldest ones, so that a journal has a bounded size. All of it may be
//! lost: nothing is decided by it, and a write that fails is only logged.
//!
//! An entry has the paths of changed fields. It has values of numbers, booleans and images only,
//! and none where the values may come from a Secret ([`Recorder::withhold_values`]).

mod entry;
mod fields;
mod pushes;
mod recorder;
mod store;

pub use entry::{Entry, Journal, ObjectChange, StepResult};
pub use fields::FieldChange;
pub use pushes::{Landing, Push, pushes};
pub use recorder::{End, Recorder};
pub use store::{append, delete, key, read, read_all, read_once};
