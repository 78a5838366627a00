//! The `driftless` command, compared on real API servers with the tools that it replaces: Flux's
//! controllers and command line, kustomize, kubectl.

mod build;
mod create;
mod fleet;
mod flux_controllers;
mod issued_tokens;
mod kustomize_create;
mod layout;
mod metrics;
mod multi_tenancy;
mod plan_live;
mod serve_watches;
mod terminal;
mod two_workers;
