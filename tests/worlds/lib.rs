//! Worlds for end-to-end tests: what a scenario works with ([`site`]), all of it in this process and in virtual time
//! ([`embedded`], [`releases`]), and the scenarios that the real parts run, too ([`bad_input`], [`buckets`], [`sample`]).

pub mod bad_input;
pub mod buckets;
pub mod capsule;
pub mod charts;
pub mod embedded;
mod recorded;
pub mod releases;
pub mod sample;
pub mod site;
