//! A push to a fleet repository is applied on management and remote clusters, all in this process
//! and in virtual time. The tests in tests/acceptance/e2e do the same with the real parts.

mod artifact_generators;
mod audit;
mod bad_input;
mod buckets;
mod capsule;
mod deletion;
mod dependency_waits;
mod digests;
mod external_artifacts;
mod forgotten;
mod git_logins;
mod ignored_fields;
mod includes;
mod journal;
mod key_services;
mod large_prune;
mod notification_connections;
mod notifications;
mod provisioned;
mod pushes;
mod receivers;
mod recovery;
mod reminders;
mod remote;
mod rest;
mod sample;
mod sparse;
mod tenants;
mod verified;
mod watched;
