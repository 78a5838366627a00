//! A push to a fleet repository lands on management and remote clusters, all of it in this process and in virtual time. The same on
//! the real parts: tests/acceptance/e2e.

mod bad_input;
mod buckets;
mod capsule;
mod deletion;
mod forgotten;
mod provisioned;
mod remote;
mod sample;
mod tenants;
mod waiting;
