//! HelmRelease without I/O: values, history, the state of a release, the next action, what an action leaves in the status.
//!
//! A step reads the release records, asks [`state::determine`], lets [`action::decide`] say what to do, runs that, and gives
//! what came of it to [`outcome::record`]; then it asks again until the answer is a pause. Every function here works on plain
//! data, so that each rule of Flux's helm-controller 1.6 is a line of a table.

pub mod action;
pub mod conditions;
pub mod drift;
pub mod history;
pub mod outcome;
pub mod plan;
pub mod state;
pub mod values;

#[cfg(test)]
mod tests;
