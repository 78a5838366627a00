//! The `driftless` command beside the tools that it stands in for: Flux's controllers and command line, kustomize, kubectl, on real API
//! servers.

mod build;
mod create;
mod fleet;
mod flux_controllers;
mod issued;
