//! Worlds for end-to-end tests: the interface of a scenario ([`site`]), its implementation in this
//! process and in virtual time ([`embedded`], [`releases`]), and the scenarios that also run on the
//! real parts ([`bad_input`], [`buckets`], [`sample`]). [`objects`] has what several of them
//! commit.

pub mod bad_input;
pub mod buckets;
pub mod capsule;
pub mod charts;
pub mod embedded;
pub mod objects;
mod recorded;
pub mod releases;
pub mod sample;
pub mod site;
